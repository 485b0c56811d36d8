use super::*;
use crate::scenario::order::in_order;
use proptest::prelude::*;

const SMALL: &str = r#"
name = "small"
[[probe]]
name = "cyclic"
period = "200us"
[[phase]]
name = "idle"
length = "4s"
[[phase]]
name = "io"
length = "2s"
loads = ["io:size=1MiB"]
"#;

#[test]
fn every_built_in_scenario_is_one_and_has_the_name_it_is_found_by() {
    for built_in in built_in::BUILT_IN {
        let scenario =
            parse(built_in.text).unwrap_or_else(|error| panic!("{}: {error}", built_in.name));
        assert_eq!(scenario.name, built_in.name);
        assert!(!scenario.about.is_empty());
    }
}

#[test]
fn the_default_takes_at_most_a_minute() {
    assert!(find("default").unwrap().length() <= Nanos::from_secs(60));
}

#[test]
fn values_have_their_usual_defaults() {
    let scenario = parse(SMALL).unwrap();
    assert_eq!(
        (scenario.order, scenario.repeats, scenario.warm_up),
        (Order::Fixed, 1, Nanos::ZERO)
    );
    assert_eq!(
        scenario.probes[0],
        ProbeRequest {
            period: Some(Nanos::from_micros(200)),
            ..ProbeRequest::new(ProbeSpec::parse("cyclic").unwrap())
        }
    );
    assert_eq!(scenario.length(), Nanos::from_secs(6));
}

#[test]
fn an_error_names_line_and_key() {
    let cases = [
        ("period = \"200us\"", "period = \"200\"", "line 5", "period"),
        ("period = \"200us\"", "period = \"0\"", "line 5", "period"),
        ("period = \"200us\"", "priority = 100", "line 5", "priority"),
        ("name = \"cyclic\"", "name = \"cyclik\"", "line 4", "cyclik"),
        (
            "name = \"cyclic\"",
            "name = \"usleep:colour=red\"",
            "line 4",
            "colour",
        ),
        ("length = \"4s\"", "length = 4", "line 8", "length"),
        ("length = \"4s\"", "lenght = \"4s\"", "line 8", "lenght"),
        ("io:size=1MiB", "io:size=1parsec", "line 12", "loads"),
        ("loads = [", "loads = ", "line 12", "loads"),
        (
            "name = \"small\"",
            "name = \"small\"\nrepeats = 0",
            "line 3",
            "repeats",
        ),
        (
            "name = \"small\"",
            "name = \"small\"\norder = \"random\"",
            "line 3",
            "order",
        ),
    ];
    for (right, wrong, line, key) in cases {
        let error = parse(&SMALL.replacen(right, wrong, 1))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(line) && error.contains(key),
            "{wrong}: {error}"
        );
    }
}

#[test]
fn a_scenario_without_probe_or_phase_is_refused() {
    assert!(parse("name = \"a\"\nprobe = []\nphase = []\n").is_err());
    let too_many =
        format!("{SMALL}\n").replacen("name = \"small\"", "name = \"small\"\nrepeats = 9999", 1);
    assert!(matches!(
        parse(&too_many),
        Err(ParseError::TooManyPhases(19_998))
    ));
}

#[test]
fn what_is_serialised_is_read_back() {
    let scenario = parse(SMALL).unwrap();
    assert_eq!(parse(&to_text(&scenario)).unwrap(), scenario);
}

#[test]
fn a_shuffled_order_has_every_phase_in_every_repeat_and_depends_on_the_seed_alone() {
    let scenario = Scenario {
        order: Order::Shuffled,
        repeats: 20,
        ..find("abeni2002").unwrap()
    };
    let names = |seed| {
        in_order(&scenario, seed)
            .iter()
            .map(|phase| phase.name.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(7), names(7));
    assert_ne!(names(7), names(8));
    let mut expected: Vec<String> = scenario
        .phases
        .iter()
        .map(|phase| phase.name.clone())
        .collect();
    expected.sort();
    for round in names(7).chunks(scenario.phases.len()) {
        let mut round = round.to_vec();
        round.sort();
        assert_eq!(round, expected);
    }
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in ".{0,200}") {
        let _ = parse(&text);
    }

    #[test]
    fn no_change_of_a_scenario_makes_the_parser_panic(position in 0_usize..200, replacement in ".{0,8}", length in 0_usize..8) {
        let mut text: Vec<char> = SMALL.chars().collect();
        let begin = position.min(text.len());
        text.splice(begin..(begin + length).min(text.len()), replacement.chars());
        let _ = parse(&text.into_iter().collect::<String>());
    }
}
