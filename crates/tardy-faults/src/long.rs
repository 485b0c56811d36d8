//! A run that lasts: a day of a guest's virtual time, in which the tool must not grow.

use xtask::failure::Result;

use crate::fault::{Fault, Ground, Tally};
use crate::folders::{self, Folder};
use crate::guests::{self, ScriptResult};

pub(crate) const LONG_VIRTUAL: Fault = Fault {
    name: "long-virtual",
    done: "a run of 24 hours of virtual time in a guest of the lab (1 hour in the short form), a \
           sample a second",
    demanded: "every due time is stored; at its end the tool has no more memory, descriptors, \
               threads and files than after its first minute",
    attempt: |ground| guests::attempt(ground, long_virtual),
};

/// How often the tool is looked at.
const LOOKS: u64 = 24;
/// What may come and go: a page of a buffer that is used for the first time.
const GROWTH_KB_MAX: i64 = 256;

fn long_virtual(ground: &Ground, tally: &mut Tally) -> Result<()> {
    let hours = ground.tries(1, 24) as u64;
    let place = ground.place()?;
    let result = guests::run_script(
        &place,
        &script(hours),
        &format!("--time-limit {}h --wall-limit 5h --shared 128", hours + 1),
    )?;
    let folder = folders::look_at(&place, &result.folder.join("run"))?;
    let mut wrong: Vec<String> = result.failure().into_iter().collect();
    wrong.extend(folder.wrong());
    wrong.extend(not_exact(&folder, &result, hours * 3600));
    wrong.extend(growth(&result.text("looks")));
    let mut names = crate::place::names(&result.folder.join("run"));
    names.retain(|name| !["run.json", "samples", "state.jsonl"].contains(&name.as_str()));
    if !names.is_empty() {
        wrong.push(format!("files that a run does not have: {names:?}"));
    }
    let lines = std::fs::read_to_string(result.folder.join("run/state.jsonl"))
        .unwrap_or_default()
        .lines()
        .count() as u64;
    // The guest's only CPU is measured: a line before the first sample, and one after the last.
    if lines != 2 {
        wrong.push(format!("{lines} lines of state in {hours} h"));
    }
    tally.count(
        &format!("{hours} h"),
        format!(
            "{hours} h, {} of memory, exact",
            memory(&result.text("looks"))
        ),
        wrong,
    );
    Ok(())
}

/// The run, and its memory in KiB, descriptors, threads and files from its first minute to its end.
fn script(hours: u64) -> String {
    format!(
        "(sh -c 'echo $$ >/run/out/pid; exec /init run --for {hours}h --period 1s --load none \
         --deadline 1s --quiet --out /run/out/run' >/run/out/text 2>&1; echo $? \
         >/run/out/code) &\nuntil [ -s /run/out/run/state.jsonl ]; do sleep 1; done\ntool=$(cat \
         /run/out/pid)\nsleep 60\nlook=0\nwhile [ $look -lt {LOOKS} ]; do\necho $(grep VmRSS \
         /proc/$tool/status | tr -dc 0-9) $(ls /proc/$tool/fd | wc -l) $(ls /proc/$tool/task | wc \
         -l) $(find /run/out/run | wc -l) >>/run/out/looks\nsleep {}\nlook=$((look + \
         1))\ndone\nuntil [ -e /run/out/code ]; do sleep 1; done\n",
        hours * 3600 / (LOOKS + 1)
    )
}

/// What is not as many as it must be.
fn not_exact(folder: &Folder, result: &ScriptResult, expected: u64) -> Option<String> {
    let Folder::Opens { summary, .. } = folder else {
        return Some(format!("no run: {}", result.text("text")));
    };
    let counts = &summary["series"][0]["counts"];
    let is = |name: &str, number: u64| counts[name].as_u64() == Some(number);
    let is_exact = is("expected", expected)
        && is("recorded", expected)
        && is("skipped", 0)
        && is("lost", 0)
        && is("unstored", 0);
    let code = result.text("code");
    (!is_exact || code != "0").then(|| format!("exit code {code}, {expected} expected: {counts}"))
}

/// What grew between the first look and any later one.
fn growth(looks: &str) -> Option<String> {
    let looks: Vec<Vec<i64>> = looks
        .lines()
        .map(|line| {
            line.split_whitespace()
                .filter_map(|number| number.parse().ok())
                .collect()
        })
        .collect();
    if looks.len() as u64 != LOOKS || looks.iter().any(|look| look.len() != 4) {
        return Some(format!(
            "{} of {LOOKS} readings of the tool: {looks:?}",
            looks.len()
        ));
    }
    let has_grown =
        |look: &Vec<i64>| look[0] > looks[0][0] + GROWTH_KB_MAX || look[1..] != looks[0][1..];
    let grown = looks.iter().find(|look| has_grown(look))?;
    Some(format!(
        "memory (KiB), descriptors, threads and files were {:?} after a minute, and {grown:?} \
         later",
        looks[0]
    ))
}

fn memory(looks: &str) -> String {
    let first = |line: &str| {
        line.split_whitespace()
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    let (begin, end) = (
        looks.lines().next().map(first),
        looks.lines().last().map(first),
    );
    format!(
        "{} to {} KiB",
        begin.unwrap_or_default(),
        end.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_found_in_any_column_and_at_any_look() {
        let even = "5000 12 5 6\n".repeat(24);
        assert_eq!(growth(&even), None);
        assert!(growth(&even[12..]).is_some(), "a reading is missing");
        for grown in [
            "6000 12 5 6\n",
            "5000 13 5 6\n",
            "5000 12 6 6\n",
            "5000 12 5 7\n",
        ] {
            let looks = format!(
                "{}{grown}{}",
                "5000 12 5 6\n".repeat(12),
                "5000 12 5 6\n".repeat(11)
            );
            assert!(growth(&looks).is_some(), "{grown}");
        }
        assert_eq!(memory(&even), "5000 to 5000 KiB");
    }
}
