//! Sets the time of day, or changes the rate of the clocks, while a run measures. This happens in a
//! guest, because the time of day is global.

use serde_json::Value;
use xtask::failure::Result;

use crate::fault::{Fault, Ground, Tally};
use crate::folders::{self, Folder};
use crate::guests::{self, ScriptResult};

pub(crate) const STEPPED: Fault = Fault {
    name: "clock",
    done: "in the middle of a run in a guest, CLOCK_REALTIME is set forward or back, by an hour or \
           by about a second, or all clocks start to run faster or slower, by 500 ppm or 1 %",
    demanded: "every due time is accounted for, no sample and no observed time is as long as the \
               step, the run reports changes of a clock that it uses, and no verdict is based on \
               timers of a clock that was set",
    attempt: |ground| guests::attempt(ground, stepped),
};

/// A change to the clocks.
struct Disturbance {
    name: &'static str,
    /// The shell command that makes the change.
    command: &'static str,
    /// Minimum and maximum step of the time of day in s; `None` if only the rate changes.
    by: Option<(i64, i64)>,
}

const fn change(name: &'static str, command: &'static str, by: Option<(i64, i64)>) -> Disturbance {
    Disturbance { name, command, by }
}

/// `date` sets whole seconds, so the step can differ by up to one second from the command.
const DISTURBANCES: &[Disturbance] = &[
    change(
        "an-hour-back",
        "date -s @$(($(date +%s) - 3600))",
        Some((-3601, -3600)),
    ),
    change(
        "an-hour-forward",
        "date -s @$(($(date +%s) + 3600))",
        Some((3599, 3600)),
    ),
    change("500-ppm-faster", "adjtimex -q -f 32768000", None),
    change(
        "a-second-back",
        "date -s @$(($(date +%s) - 1))",
        Some((-2, -1)),
    ),
    change(
        "a-second-forward",
        "date -s @$(($(date +%s) + 2))",
        Some((1, 2)),
    ),
    change("500-ppm-slower", "adjtimex -q -f -32768000", None),
    change("1-percent-faster", "adjtimex -q -f 0 -t 10100", None),
    change("1-percent-slower", "adjtimex -q -f 0 -t 9900", None),
];

/// Probes that run together, and how they use the time of day.
struct Group {
    name: &'static str,
    probes: &'static str,
    use_of_clock: ClockUse,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClockUse {
    /// The probes do not use the time of day: the run reports nothing.
    None,
    /// The probes read the time of day, or their due times lie on it: the run reports a step, and
    /// the verdict ignores the step.
    Grid,
    /// Timers use the time of day: the run reports a step, and has no verdict.
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

/// Length and period of a run.
const LENGTH: &str = "--for 1600ms --period 4ms";
/// Number of due times in this run.
const EXPECTED: u64 = 400;
/// No sample may be longer than this. An idle guest has no such delay, and each step of the time of
/// day is longer.
const LONGEST_NS: i64 = 500_000_000;

fn stepped(ground: &Ground, tally: &mut Tally) -> Result<()> {
    // Each disturbance takes one boot, in which all groups run one after another.
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

/// Returns a script that runs every group, and makes the change in the middle of each run.
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

/// Returns the requirements that the run of `group` broke under `disturbance`.
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
    // So short a run may have too few samples to pass. The check is only whether the clock prevents
    // a verdict.
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
    wrong.extend(folder.series().iter().filter_map(odd_series));
    let told = folder.warnings_of("clock-stepped").next();
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

/// Returns the error in a series, if any: a wrong number of due times, no sample, or a sample or an
/// observed time that includes the step.
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
    let is_told = folder.warnings_of("clock-stepped").next().is_some();
    match (is_told, group.use_of_clock) {
        (false, _) => "exact, nothing to report".to_owned(),
        (true, ClockUse::Timers) => "exact, reported, no verdict".to_owned(),
        (true, _) => "exact, reported".to_owned(),
    }
}
