//! The time of day is set, or the rate of the clocks is changed, while a run measures. In a guest,
//! because the time of day is global.

use serde_json::Value;
use xtask::failure::Result;

use crate::fault::{Fault, Ground, Tally};
use crate::folders::{self, Folder};
use crate::guests::{self, ScriptResult};

pub(crate) const STEPPED: Fault = Fault {
    name: "clock",
    done: "in a guest, CLOCK_REALTIME is set forward and back, by an hour and by about a second, \
           or all clocks run faster or slower, by 500 ppm or 1 %, from the middle of a run",
    demanded: "every due time is accounted for, no sample and no observed time is as long as the \
               step, the run reports changes of a clock that it uses, and no verdict rests on \
               timers of a clock that was set",
    attempt: |ground| guests::attempt(ground, stepped),
};

/// The change to the clocks.
struct Disturbance {
    name: &'static str,
    /// A line of the shell.
    command: &'static str,
    /// The seconds between which the time of day is moved; `None` if only the rate changes.
    by: Option<(i64, i64)>,
}

/// `date` sets whole seconds: up to one more or less than is written here.
const DISTURBANCES: &[Disturbance] = &[
    Disturbance {
        name: "an-hour-back",
        command: "date -s @$(($(date +%s) - 3600))",
        by: Some((-3601, -3600)),
    },
    Disturbance {
        name: "an-hour-forward",
        command: "date -s @$(($(date +%s) + 3600))",
        by: Some((3599, 3600)),
    },
    Disturbance {
        name: "500-ppm-faster",
        command: "adjtimex -q -f 32768000",
        by: None,
    },
    Disturbance {
        name: "a-second-back",
        command: "date -s @$(($(date +%s) - 1))",
        by: Some((-2, -1)),
    },
    Disturbance {
        name: "a-second-forward",
        command: "date -s @$(($(date +%s) + 2))",
        by: Some((1, 2)),
    },
    Disturbance {
        name: "500-ppm-slower",
        command: "adjtimex -q -f -32768000",
        by: None,
    },
    Disturbance {
        name: "1-percent-faster",
        command: "adjtimex -q -f 0 -t 10100",
        by: None,
    },
    Disturbance {
        name: "1-percent-slower",
        command: "adjtimex -q -f 0 -t 9900",
        by: None,
    },
];

/// Probes that run together, and how they depend on the time of day.
struct Group {
    name: &'static str,
    probes: &'static str,
    use_of_clock: ClockUse,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClockUse {
    /// Unaffected: no report.
    None,
    /// Due times were placed on it, or it is read: a step is reported, and does not affect the
    /// verdict.
    Grid,
    /// Timers use it: a step is reported, and there is no verdict.
    Timers,
}

const GROUPS: &[Group] = &[
    Group {
        name: "plain",
        probes: "--probe cyclic --probe timerfd --probe posix-timer",
        use_of_clock: ClockUse::None,
    },
    Group {
        name: "realtime",
        probes: "--probe cyclic:clock=realtime --probe timerfd:clock=realtime --probe \
                 posix-timer:clock=realtime",
        use_of_clock: ClockUse::Timers,
    },
    Group {
        name: "aligned",
        probes: "--probe cyclic:align=realtime",
        use_of_clock: ClockUse::Grid,
    },
    Group {
        name: "gtod",
        probes: "--probe cyclic --probe gtod",
        use_of_clock: ClockUse::Grid,
    },
];

/// Due times of a run of this length and period, and the maximum of a sample: an idle guest has no
/// such delays, and all steps are larger.
const LENGTH: &str = "--for 1600ms --period 4ms";
const EXPECTED: u64 = 400;
const LONGEST_NS: i64 = 500_000_000;

fn stepped(ground: &Ground, tally: &mut Tally) -> Result<()> {
    // One boot each: all groups in sequence under one disturbance.
    for disturbance in DISTURBANCES
        .iter()
        .take(ground.tries(3, DISTURBANCES.len()))
    {
        let place = ground.place()?;
        let result = guests::run_script(&place, &script(disturbance), "--time-limit 2m")?;
        for group in GROUPS {
            let about = format!("{} under {}", group.name, disturbance.name);
            let mut wrong: Vec<String> = result.failure().into_iter().collect();
            let folder = folders::look_at(&place, &result.folder.join(group.name))?;
            wrong.extend(folder.wrong());
            wrong.extend(judged(group, disturbance, &result, &folder));
            let seen = if wrong.is_empty() {
                seen(&folder, group)
            } else {
                "not as it must be".to_owned()
            };
            tally.count(&about, seen, wrong);
        }
    }
    Ok(())
}

/// Runs every group, and disturbs each in its middle.
fn script(disturbance: &Disturbance) -> String {
    let mut script = String::new();
    for Group { name, probes, .. } in GROUPS {
        script += &format!(
            "/init run {LENGTH} --load none --deadline 400ms --misses 0.9 --quiet --out \
             /run/out/{name} {probes} >/run/out/{name}.text 2>&1 &\nuntil [ -s \
             /run/out/{name}/state.jsonl ]; do usleep 10000; done\nusleep 500000\n{} \
             >/dev/null\nwait $!\necho $? >/run/out/{name}.code\n",
            disturbance.command
        );
    }
    script
}

/// Returns violations.
fn judged(
    group: &Group,
    disturbance: &Disturbance,
    result: &ScriptResult,
    folder: &Folder,
) -> Vec<String> {
    let Folder::Opens { state, summary, .. } = folder else {
        return vec![format!(
            "no run: {}",
            result.text(&format!("{}.text", group.name))
        )];
    };
    let mut wrong = Vec::new();
    let (code, is_stepped) = (
        result.text(&format!("{}.code", group.name)),
        disturbance.by.is_some(),
    );
    let decides = !(is_stepped && group.use_of_clock == ClockUse::Timers);
    // So short a run may have too few samples to pass: the test is whether the clock prevents it.
    let (outcome, degraded) = (
        &summary["verdict"]["outcome"],
        &summary["verdict"]["evidence"]["degraded"],
    );
    let is_degraded = degraded
        .as_array()
        .is_some_and(|reasons| !reasons.is_empty());
    if state != "finished"
        || !["0", "4"].contains(&code.as_str())
        || outcome == "failed"
        || is_degraded == decides
    {
        wrong.push(format!(
            "{state} with exit code {code}, {outcome}, degraded by {degraded}"
        ));
    }
    wrong.extend(
        summary["series"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(odd_series),
    );
    let told = summary["warnings"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|warning| warning["warning"] == "clock-stepped");
    match (
        told,
        disturbance
            .by
            .filter(|_| group.use_of_clock != ClockUse::None),
    ) {
        (None, None) => {}
        (Some(told), None) => wrong.push(format!(
            "a step is reported that was not made, or that has no effect: {told}"
        )),
        (None, Some(_)) => wrong.push(format!("the step is not reported: {}", summary["warnings"])),
        (Some(told), Some((least, most))) => {
            let by = told["by"].as_i64().unwrap_or(0);
            let is_right = (least * 1_000_000_000..=most * 1_000_000_000).contains(&by);
            if !is_right || told["has_timers"] != (group.use_of_clock == ClockUse::Timers) {
                wrong.push(format!("the step is reported as {told}"));
            }
        }
    }
    wrong
}

/// Returns the error in a series: an unaccounted due time, or a sample or an observed time that
/// includes the step.
fn odd_series(series: &Value) -> Option<String> {
    let name = &series["probe"];
    let count = |name: &str| series["counts"][name].as_u64().unwrap_or(0);
    let gaps = &series["gaps"];
    if gaps.is_null() && count("expected") != EXPECTED {
        return Some(format!(
            "{name} expected {} due times of {EXPECTED}",
            count("expected")
        ));
    }
    let (least, most) = (
        series["numbers"]["min_ns"].as_i64(),
        series["numbers"]["max_ns"].as_i64(),
    );
    if least.is_some_and(|least| least < 0)
        || most.is_some_and(|most| most > LONGEST_NS)
        || count("recorded") == 0
    {
        return Some(format!(
            "{name}: {} samples from {least:?} to {most:?} ns",
            count("recorded")
        ));
    }
    let observed = gaps["observed_ns"].as_i64().unwrap_or(0);
    (observed > 2_000_000_000).then(|| format!("{name} observed {observed} ns of a run of 1.6 s"))
}

fn seen(folder: &Folder, group: &Group) -> String {
    let is_told = folder.warnings().contains("clock-stepped");
    match (is_told, group.use_of_clock) {
        (false, _) => "exact, nothing to report".to_owned(),
        (true, ClockUse::Timers) => "exact, reported, no verdict".to_owned(),
        (true, _) => "exact, reported".to_owned(),
    }
}
