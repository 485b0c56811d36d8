//! Tests `tardy import` of values: text, CSV and NumPy arrays.

use crate::import::{counts, import, sample};
use crate::support::workplace::Workplace;

#[test]
fn values_of_any_tool_get_bounds_a_comparison_and_a_report() {
    let place = Workplace::new();
    import(&place, "values.csv", "--unit us --column latency_us").ends_with(0);
    std::fs::copy(sample("values.txt"), place.path("values.txt")).unwrap();
    place
        .tardy("import values.txt --unit us --period 1ms --out timed")
        .ends_with(0);
    // Both files have the same latencies, but only one has times.
    assert_eq!(counts(&place, "run"), counts(&place, "timed"));
    let (plain, timed) = (
        place.tardy("show run --statistics").ends_with(0).stdout,
        place.tardy("show timed --statistics").ends_with(0).stdout,
    );
    assert!(
        plain.contains("bounds at 95 %") && plain.contains("length not known"),
        "{plain}"
    );
    assert!(
        !plain.contains("/h ("),
        "without times there is no rate: {plain}"
    );
    assert!(
        timed.contains("/h (") && timed.contains("2.00 s measured"),
        "{timed}"
    );
    let same = place.tardy("compare run timed --full").stdout;
    assert!(
        same.contains("values latency") && !same.contains("WORSE") && !same.contains("BETTER"),
        "{same}"
    );
    place.tardy("report run --html run.html").ends_with(0);
    place.tardy("export run --format csv").ends_with(0);
    place.tardy("plot run --kind ccdf -o run.svg").ends_with(0);
}

#[test]
fn a_unit_and_a_column_of_values_are_asked_for() {
    let place = Workplace::new();
    for name in ["values.csv", "values-records.npy"] {
        std::fs::copy(sample(name), place.path(name)).unwrap();
    }
    for (arguments, expected) in [
        (
            "values.csv --column latency_us",
            "a file of values does not state their unit: give --unit",
        ),
        (
            "values-records.npy --column latency_ns",
            "an array of NumPy does not state the unit of its values: give --unit",
        ),
        (
            "values.csv --unit us",
            "which column holds the values: give --column, one of time, latency_us, cpu",
        ),
        (
            "values-records.npy --unit us",
            "which field holds the values: give --column, one of cpu, latency_ns",
        ),
        (
            "values.csv --unit us --column latency",
            "values.csv: line 1: expected a column `latency`",
        ),
        (
            "values.csv --unit us --column 4",
            "values.csv: line 1: expected a column `4`",
        ),
        (
            "values-records.npy --unit us --column x",
            "expected a field `x`",
        ),
    ] {
        let refused = place
            .tardy(&format!("import {arguments} --out run"))
            .ends_with(2);
        assert!(
            refused.stderr.contains(expected),
            "{arguments}: {}",
            refused.stderr
        );
        assert!(!place.path("run").exists());
    }
    for (text, expected) in [
        ("1\n2\nthree\n", "line 3: expected a number of us"),
        ("1\n2\n\n4 5\n", "line 4: expected one number"),
        ("1\nnan\n", "line 2: expected a number of us"),
        ("1\n1e300\n", "line 2: expected a number of us"),
        ("latency\n", "line 1: expected numbers, one per line"),
    ] {
        std::fs::write(place.path("v.txt"), text).unwrap();
        let refused = place
            .tardy("import v.txt --as values --unit us --out run")
            .ends_with(2);
        assert!(
            refused.stderr.contains(expected),
            "{text}: {}",
            refused.stderr
        );
        assert!(!place.path("run").exists());
    }
}

/// A NumPy array with this version, header and data.
fn npy(version: u8, head: &str, data: &[u8]) -> Vec<u8> {
    [
        b"\x93NUMPY",
        &[version, 0][..],
        &(head.len() as u16).to_le_bytes(),
        head.as_bytes(),
        data,
    ]
    .concat()
}

#[test]
fn hostile_heads_of_arrays_are_refused() {
    let of = |described: &str, shape: &str| {
        format!("{{'descr': {described}, 'fortran_order': False, 'shape': {shape}, }}\n")
    };
    let place = Workplace::new();
    for (bytes, expected) in [
        (
            npy(1, &of("'|O'", "(2,)"), b"cos\nsystem\n"),
            "expected numbers (f8, f4, i8, i4, u8, u4, ...), found `|O`",
        ),
        (
            npy(1, &of("'<f8'", "(2, 2)"), &[0; 32]),
            "expected an array with one dimension, found `(2, 2)`",
        ),
        (
            npy(1, &of("'<f8'", "()"), &[0; 8]),
            "expected an array with one dimension",
        ),
        (
            npy(1, &of("'<f8'", "(0,)"), &[]),
            "expected at least one value",
        ),
        (
            npy(1, &of("'<f8'", "(18446744073709551615,)"), &[0; 8]),
            "expected 18446744073709551615 values, as its head states",
        ),
        (
            npy(1, &of("'<f8'", "(99999999999999999999,)"), &[0; 8]),
            "expected a whole number of values",
        ),
        (
            npy(1, &of("'<f8'", "(1,)"), &[0; 7]),
            "expected 1 values, as its head states",
        ),
        (
            npy(1, &of("'<f8'", "(1,)"), &[0; 9]),
            "expected the end of the file, as its head states",
        ),
        (
            npy(1, &of("'<f8'", "(1,)"), &f64::NAN.to_le_bytes()),
            "expected a number of us, found `NaN`",
        ),
        (
            npy(1, &of("'<u8'", "(1,)"), &[255; 8]),
            "expected a number of us, found `18446744073709551615`",
        ),
        (
            npy(1, &of("[('a', [('b', '<i4')])]", "(1,)"), &[0; 4]),
            "expected records of plain numbers",
        ),
        (
            npy(9, &of("'<f8'", "(1,)"), &[0; 8]),
            "expected version 1, 2 or 3",
        ),
        (
            npy(2, &of("'<f8'", "(1,)"), &[0; 8]),
            "expected a head of at most 65536 bytes",
        ),
        (
            b"\x93NUMPY\x01\x00\xff".to_vec(),
            "expected the head of a NumPy array",
        ),
        (
            b"\x93NUMPY\x01\x00\xff\xffshort".to_vec(),
            "expected the head of a NumPy array",
        ),
    ] {
        std::fs::write(place.path("a.npy"), bytes).unwrap();
        let refused = place.tardy("import a.npy --unit us --out run").ends_with(2);
        assert!(
            refused.stderr.contains(expected) && refused.stderr.contains("a.npy: byte "),
            "{expected}: {}",
            refused.stderr
        );
        assert!(!place.path("run").exists());
    }
    let big_endian = [1_i32, -2, 3].map(i32::to_be_bytes).concat();
    std::fs::write(
        place.path("b.npy"),
        npy(1, &of("'>i4'", "(3,)"), &big_endian),
    )
    .unwrap();
    place.tardy("import b.npy --unit us --out run").ends_with(0);
    assert_eq!(
        place.summary("run")["probes"][0]["numbers"]["min_ns"],
        -2_000
    );
}
