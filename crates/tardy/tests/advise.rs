//! `tardy advise` as a user starts it.
#![allow(clippy::unwrap_used, reason = "a test ends where something is not as expected")]

mod support;

use support::workplace::Workplace;

#[test]
fn the_papers_numbers_give_the_papers_conclusions() {
    let place = Workplace::new();
    let text = place.tardy("advise --from mckenney2009").ends_with(0).stdout;
    insta::assert_snapshot!(text);
    let json = place.tardy("advise --from mckenney2009 --json").ends_with(0).json();
    let work_ms = |figure: usize| json["figures"][figure]["crossing"]["work_ns"].as_f64().unwrap() / 1e6;
    assert_eq!((format!("{:.1}", work_ms(1)), format!("{:.1}", work_ms(2))), ("17.8".to_owned(), "2.8".to_owned()));
    assert_eq!(json["figures"][0]["crossing"]["crossover"], "real-time-always");
    assert_eq!((json["figures"][1]["is_model"].as_bool(), json["rounded"].as_array().unwrap().len()), (Some(true), 4));
}
