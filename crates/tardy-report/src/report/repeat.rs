//! The command line that asks for a run once more.

use tardy_core::bytes::format_bytes;
use tardy_run::keep::KeptSamples;
use tardy_run::parameter::Value;
use tardy_run::plan::{Origin, Plan, PolicyName};
use tardy_run::shell::{self, quoted};
use tardy_run::threshold::ThresholdAction;
use tardy_run::tracing::ExplainLevel;

/// The command line that asks for `plan`.
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
    let mut words = vec!["tardy".to_owned(), "run".to_owned()];
    if plan.until_stopped {
        words.push("--until-stopped".to_owned());
    }
    let mut option =
        |name: &str, value: String| words.extend([format!("--{name}"), quoted(&value)]);
    let length = |option: &mut dyn FnMut(&str, String)| {
        let cycles = plan.phases.first().and_then(|phase| phase.cycles);
        match cycles.filter(|_| plan.phases.iter().all(|phase| phase.cycles == cycles)) {
            Some(cycles) => option("cycles", cycles.to_string()),
            None if plan.until_stopped => {}
            // A scenario of which some phases are counted in cycles says so itself.
            None if plan.phases.iter().any(|phase| phase.cycles.is_some())
                || plan.length().get() == 0 => {}
            None => option("for", plan.length().exact()),
        }
    };
    if plan.origin() == Origin::Flags {
        // Of an older tool, whose phases do not say it.
        if let Some(cycles) = plan
            .cycles
            .filter(|_| plan.phases.iter().all(|phase| phase.cycles.is_none()))
        {
            option("cycles", cycles.to_string());
        } else {
            let loads: Vec<String> = plan
                .phases
                .last()
                .map(|phase| phase.loads.iter().map(|load| load.label.clone()).collect())
                .unwrap_or_default();
            if loads.is_empty() {
                option("load", "none".to_owned());
            }
            loads.into_iter().for_each(|load| option("load", load));
            length(&mut option);
        }
    } else {
        option(
            "scenario",
            plan.scenario_file
                .as_ref()
                .map_or_else(|| plan.scenario.clone(), |file| file.display().to_string()),
        );
        length(&mut option);
    }
    // A program that was given as words goes behind all else, as words.
    let program = plan
        .probes
        .iter()
        .find_map(|probe| probe.parameters.values().find_map(as_words));
    for probe in plan.probes.iter().filter(|probe| {
        !probe
            .parameters
            .values()
            .any(|value| as_words(value).is_some())
    }) {
        // A text takes the rest of a request.
        let (texts, others): (Vec<_>, Vec<_>) = probe
            .parameters
            .iter()
            .partition(|(_, value)| matches!(value, Value::Text(_)));
        let own = others
            .iter()
            .chain(&texts)
            .map(|(name, value)| format!(":{name}={value}"))
            .collect::<String>();
        let differs = plan.probes.iter().any(|other| other.period != probe.period);
        let period = if differs {
            format!(":period={}", probe.period.exact())
        } else {
            String::new()
        };
        let priority = probe.priority.filter(|_| {
            plan.probes
                .iter()
                .any(|other| other.priority != probe.priority)
        });
        let priority =
            priority.map_or_else(String::new, |priority| format!(":priority={priority}"));
        let offset = probe
            .offset
            .map_or_else(String::new, |offset| format!(":offset={}", offset.exact()));
        let cpus = probe
            .cpus
            .as_ref()
            .map_or_else(String::new, |cpus| format!(":cpus={cpus}"));
        let name = probe
            .kind
            .as_ref()
            .map_or_else(String::new, |_| format!(":name={}", probe.name));
        option(
            "probe",
            format!(
                "{}{period}{priority}{offset}{cpus}{name}{}{own}",
                probe.kind(),
                probe.clocks
            ),
        );
    }
    if let Some(probe) = plan.probes.first() {
        if plan.probes.iter().all(|other| other.period == probe.period) {
            option("period", probe.period.exact());
        }
        if let Some(priority) = probe.priority {
            option("priority", priority.to_string());
        }
        match probe.policy {
            PolicyName::Fifo => {}
            PolicyName::Rr => option("policy", "rr".to_owned()),
            PolicyName::Other => option("policy", "other".to_owned()),
        }
        if probe.dither.get() > 0 {
            option("dither", probe.dither.exact());
        }
    }
    option("cpus", plan.measured_cpus.to_string());
    if let Some(window) = plan.window {
        match window.earliest {
            Some(earliest) => option(
                "window",
                format!("{}..{}", earliest.exact(), window.latest.exact()),
            ),
            None => option("deadline", window.latest.exact()),
        }
    }
    if let Some(misses) = plan.misses_allowed {
        option("misses", format!("{misses:e}"));
    }
    if let Some(skipped) = plan.skipped_allowed {
        option("skipped", skipped.to_string());
    }
    match plan.keep {
        KeptSamples::All => {}
        KeptSamples::Tail(least) => option("keep", format!("tail:{}", least.exact())),
        KeptSamples::Histogram => option("keep", "histogram".to_owned()),
    }
    if let Some(disk) = plan.disk {
        option("disk", format_bytes(disk));
    }
    if let Some(limit) = plan.stop_above {
        option("stop-above", limit.exact());
    }
    for action in &plan.on_threshold {
        option("on-threshold", action.to_string());
    }
    match plan.cpu_dma_latency_us {
        None if plan.resume_latency_us.is_some() => {}
        None => option("cpu-dma-latency", "leave".to_owned()),
        Some(0) => {}
        Some(latency) => option("cpu-dma-latency", latency.to_string()),
    }
    if let Some(latency) = plan.resume_latency_us {
        option("resume-latency", latency.to_string());
    }
    for (name, group) in [
        ("probe-cgroup", &plan.probe_cgroup),
        ("load-cgroup", &plan.load_cgroup),
    ] {
        if let Some(group) = group {
            option(name, group.display().to_string());
        }
    }
    option("seed", plan.seed.to_string());
    if plan.aligned {
        words.push("--aligned".to_owned());
    }
    let is_implied =
        plan.explain == ExplainLevel::Events && plan.on_threshold.contains(&ThresholdAction::Trace);
    if plan.explain != ExplainLevel::Off && !is_implied {
        words.push(match plan.explain {
            ExplainLevel::Off | ExplainLevel::Events => "--explain".to_owned(),
            level => format!("--explain={}", level.name()),
        });
    }
    if plan.keep_trace {
        words.push("--keep-trace".to_owned());
    }
    words.extend(program.map(|program| format!("-- {}", shell::line(program))));
    words.join(" ")
}

fn as_words(value: &Value) -> Option<&[String]> {
    match value {
        Value::Words(words) => Some(words),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use tardy_core::cpu::CpuList;
    use tardy_core::units::Nanos;
    use tardy_run::plan::{ProbePlan, WaitsFor};
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
        // Names that the tool itself gives are no less a user's; plans of older tools do not say
        // where they come from.
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
