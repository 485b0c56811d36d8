//! The command line that repeats a run.

use tardy_run::plan::{Origin, Plan};
use tardy_run::request::Request;
use tardy_run::shell::{self, quoted};

/// Returns the command line that results in `plan`.
#[must_use]
pub fn command(plan: &Plan) -> String {
    if let Some(responder) = plan
        .probes
        .first()
        .filter(|_| plan.origin() == Origin::Responder)
    {
        let how = responder.priority.map_or_else(
            || " --ordinary".to_owned(),
            |priority| format!(" --priority {priority}"),
        );
        let cpu = plan
            .measured_cpus
            .iter()
            .next()
            .map_or_else(String::new, |cpu| format!(" --cpu {cpu}"));
        let secret = responder
            .parameters
            .path("secret")
            .map_or_else(String::new, |file| {
                format!(" --secret {}", quoted(&file.to_string_lossy()))
            });
        return format!(
            "tardy respond {}{how}{cpu}{secret}",
            quoted(responder.parameters.text("link"))
        );
    }
    format!("tardy run {}", shell::line(&Request::of(plan).words()))
}

#[cfg(test)]
mod tests {
    use tardy_core::cpu::CpuList;
    use tardy_core::units::Nanos;
    use tardy_run::parameter::Value;
    use tardy_run::plan::{PolicyName, ProbePlan, WaitsFor};
    use tardy_run::system_clock::ProbeClocks;

    use super::*;

    #[test]
    fn a_scenario_of_ones_own_is_named_by_its_file_and_texts_come_last() {
        let none = CpuList::default();
        let probe = ProbePlan {
            name: "app".into(),
            kind: None,
            offset: None,
            cpus: None,
            clocks: ProbeClocks::default(),
            period: Nanos::from_millis(1),
            dither: Nanos::ZERO,
            policy: PolicyName::Fifo,
            priority: Some(80),
            waits_for: WaitsFor::Event,
            parameters: [
                ("command", Value::Text("./loop: all".into())),
                ("kind", Value::Word("memory".into())),
            ]
            .map(|(name, value)| (name.to_owned(), value))
            .into_iter()
            .collect(),
        };
        let mut plan = Plan {
            probes: vec![probe],
            ..Plan::without_probes("mine", &none, &none)
        };
        assert!(
            command(&plan)
                .contains(" --scenario mine --probe 'app:kind=memory:command=./loop: all' "),
            "{}",
            command(&plan)
        );
        plan.scenario_file = Some("my scenarios/mine.toml".into());
        assert!(
            command(&plan).contains(" --scenario 'my scenarios/mine.toml' "),
            "{}",
            command(&plan)
        );
        // A user's scenario may have the same name as a built-in one, so its origin must be
        // checked. Plans of older tools do not record where a scenario comes from.
        for (name, origin) in [
            ("flags", Some(Origin::File)),
            ("respond", Some(Origin::File)),
            ("flags", None),
            ("respond", None),
        ] {
            let plan = Plan {
                scenario: name.into(),
                origin,
                ..plan.clone()
            };
            assert!(
                command(&plan).starts_with("tardy run --scenario 'my scenarios/mine.toml' "),
                "{}",
                command(&plan)
            );
        }
    }

    #[test]
    fn a_program_is_repeated_word_by_word() {
        let none = CpuList::default();
        let program = Value::Words(["./loop", "1000", "a b"].map(str::to_owned).to_vec());
        let app = ProbePlan {
            name: "app".into(),
            kind: None,
            offset: None,
            cpus: None,
            clocks: ProbeClocks::default(),
            period: Nanos::from_millis(1),
            dither: Nanos::ZERO,
            policy: PolicyName::Fifo,
            priority: Some(95),
            waits_for: WaitsFor::Event,
            parameters: std::iter::once(("command".to_owned(), program)).collect(),
        };
        let cyclic = ProbePlan {
            name: "cyclic".into(),
            parameters: std::iter::empty().collect(),
            ..app.clone()
        };
        let plan = Plan {
            probes: vec![cyclic, app],
            ..Plan::without_probes("flags", &none, &none)
        };
        let command = command(&plan);
        assert!(
            command.contains(" --probe cyclic ") && command.ends_with(" -- ./loop 1000 'a b'"),
            "{command}"
        );
        assert_eq!(command.matches("app").count(), 0, "{command}");
    }

    #[test]
    fn old_plans_of_flags_and_responders_are_known_by_their_names() {
        let none = CpuList::default();
        for (name, origin) in [
            ("flags", Origin::Flags),
            ("respond", Origin::Responder),
            ("default", Origin::BuiltIn),
        ] {
            assert_eq!(Plan::without_probes(name, &none, &none).origin(), origin);
        }
    }
}
