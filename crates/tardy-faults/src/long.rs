//! Long runs in which the tool must not grow: a week of virtual time in a guest that reboots every
//! day, and a day in which the tool follows a program.

use std::path::Path;
use std::process::Command;

use xtask::failure::{Result, While};
use xtask::program;

use crate::fault::{Fault, Ground, Tally};
use crate::folders::{self, Folder};
use crate::guests::{self, ScriptResult};
use crate::place::Place;

pub(crate) const WEEK_VIRTUAL: Fault = Fault {
    name: "week-virtual",
    done: "a run with --until-stopped, --disk and --resume, with one sample per second, for seven \
           days of virtual time (two parts of ten minutes in the short form); after each day, the \
           run is killed and the guest boots again",
    demanded: "there is one finished run whose counts add up, with every reboot reported; at most \
               two samples a day are missing; the folder never takes more than 8 MiB; during each \
               day, the tool has no more descriptors, threads and files (apart from segments of \
               samples) than in the first minute, and at most 4 MiB more memory (apart from the \
               pages of its program), because folding the oldest samples needs memory; the last \
               day ends with no more memory than the second day",
    attempt: |ground| guests::attempt(ground, week_virtual),
};

pub(crate) const ATTACH_VIRTUAL: Fault = Fault {
    name: "attach-virtual",
    done: "`tardy attach --until-stopped --disk` follows a program that wakes up ten times per \
           second, for 24 hours of virtual time in a guest of the lab (1 hour in the short form)",
    demanded: "every wake-up has a latency, and no event is lost; the folder never takes more than \
               16 MiB; the tool has no more descriptors, threads and files (apart from segments \
               of samples and traces of the worst wake-ups) than in the first minute; from the \
               first check after ten minutes on, it takes at most 2 MiB more memory (apart from \
               the pages of its program)",
    attempt: |ground| guests::attempt(ground, attach_virtual),
};

/// Disk budget (`--disk`) of the week's run, in KiB.
const DISK_KB: u64 = 8 << 10;
/// Disk budget (`--disk`) of the recording that follows a program, in KiB.
const ATTACH_DISK_KB: u64 = 16 << 10;
/// How often the tool's size is checked in the day's run.
const LOOKS: u64 = 24;
/// Time in s after which the list of the longest cycles of a followed program is full. It has 3,200
/// cycles.
const FULL_AFTER: u64 = 600;
/// Allowed growth of the memory in KiB while the tool follows a program.
const ATTACH_GROWTH_KB_MAX: i64 = 2 << 10;
/// Allowed growth of the tool's memory in KiB. Some growth is normal, because a buffer's pages take
/// memory only when they are first used.
const GROWTH_KB_MAX: i64 = 256;
/// Additional allowed growth in KiB. When the samples have used their share of the disk budget, the
/// oldest ones are folded into hourly histograms. This happens about once per day, and needs
/// memory.
const COUNTING_KB: i64 = 4 << 10;

fn week_virtual(ground: &Ground, tally: &mut Tally) -> Result<()> {
    let is_short = ground.tries(1, 2) == 1;
    let (days, seconds) = if is_short { (2, 600) } else { (7, 24 * 3600) };
    let mut wrong = Vec::new();
    let mut run: Option<(Place, ScriptResult)> = None;
    let mut memories: Vec<(i64, i64)> = Vec::new();
    for day in 0..days {
        let place = ground.place()?;
        let archive = place.path("run.tar");
        // The guests have no disk: each guest gets a copy of the run of the previous guest.
        let earlier = run.as_ref().map(|(_, result)| result.folder.as_path());
        archive_run(&archive, earlier)?;
        let result = guests::run_script(
            &place,
            &day_script(day, seconds, day + 1 == days),
            &format!(
                "--time-limit {}s --wall-limit 1h --shared 128 --add run.tar:/run.tar",
                seconds + 900
            ),
        )?;
        wrong.extend(result.failure().map(|why| format!("day {day}: {why}")));
        let looks = result.text("looks");
        let grown = growth(&looks, 0, GROWTH_KB_MAX + COUNTING_KB);
        wrong.extend(grown.map(|why| format!("day {day}: {why}")));
        wrong.extend(too_large(&looks, DISK_KB).map(|why| format!("day {day}: {why}")));
        memories.push(memory(&looks));
        run = Some((place, result));
    }
    wrong.extend(growth_of_days(&memories));
    let ends: Vec<String> = memories.iter().map(|(_, end)| end.to_string()).collect();
    let (place, result) = run.expect("there was a day");
    let folder = folders::look_at(&place, &result.folder.join("run"))?;
    wrong.extend(folder.wrong());
    wrong.extend(not_every_day(&folder, days, seconds));
    let recorded = folder.recorded();
    tally.count(
        &format!("{days} days of {seconds} s"),
        format!(
            "{days} days of {seconds} s, {recorded} samples, KiB of memory at the end of each day: \
             {}",
            ends.join(" "),
        ),
        wrong,
    );
    Ok(())
}

fn attach_virtual(ground: &Ground, tally: &mut Tally) -> Result<()> {
    let hours = ground.tries(1, 24) as u64;
    let place = ground.place()?;
    let result = guests::run_script(
        &place,
        &attach_script(hours),
        &format!("--time-limit {}h --wall-limit 5h --shared 128", hours + 1),
    )?;
    let looks = result.text("looks");
    let mut wrong: Vec<String> = result.failure().into_iter().collect();
    let full = FULL_AFTER.div_ceil(hours * 3600 / LOOKS) as usize;
    wrong.extend(growth(&looks, full, ATTACH_GROWTH_KB_MAX));
    wrong.extend(too_large(&looks, ATTACH_DISK_KB));
    wrong.extend(not_every_wake_up(&result.text("text"), hours * 36_000));
    let (begin, end) = memory(&looks);
    let (at_full, _) = memory(looks.lines().nth(full).unwrap_or_default());
    tally.count(
        &format!("{hours} h"),
        format!(
            "{hours} h, no wake-up lost, KiB of memory at checks 0, {full} and {}: {begin}, \
             {at_full}, {end}",
            LOOKS - 1
        ),
        wrong,
    );
    Ok(())
}

/// Returns the script in which the tool follows a program for some hours. The script first records
/// the tool's size after a minute, and then at regular intervals.
fn attach_script(hours: u64) -> String {
    format!(
        "/init run --for {}h --period 100ms --load none --quiet --out /run/program >/dev/null 2>&1 \
         &\nprogram=$!\nuntil [ -s /run/program/state.jsonl ]; do sleep 1; done\n/init attach \
         $program --until-stopped --disk {ATTACH_DISK_KB}KiB --json --out /run/out/run \
         >/run/out/text 2>/run/out/said &\ntool=$!\nuntil [ -d /run/out/run/samples ]; do sleep 1; \
         done\nsleep 60\nlook=0\nwhile [ $look -lt {LOOKS} ]; do\n{}\nsleep {}\n\
         look=$((look + 1))\ndone\nkill -TERM $tool\nwait $tool\nkill $program\nwait \
         $program\ntrue\n",
        hours + 1,
        look_at_tool("! -name '*.series.[0-9]*' ! -path '*/trace*'"),
        hours * 3600 / LOOKS
    )
}

/// Checks that a recording has at least this many wake-ups by the program's own timers, and that no
/// wake-up was lost. Returns the violation.
fn not_every_wake_up(result: &str, at_least: u64) -> Option<String> {
    let Ok(found) = serde_json::from_str::<serde_json::Value>(result) else {
        return Some(format!("no result: {result}"));
    };
    let sleeps = found["threads"].as_array().into_iter().flatten();
    let most = sleeps.filter_map(|row| row["wake_ups"].as_u64()).max();
    let lost = [&found["trace"]["losses"], &found["wakings"]["lost"]];
    (most < Some(at_least) || lost.iter().any(|lost| lost.as_u64() != Some(0))).then(|| {
        format!(
            "{most:?} wake-ups of {at_least}, trace {}, wakings {}",
            found["trace"], found["wakings"]
        )
    })
}

/// Writes the run in `folder` into an archive. The archive is empty if there is no run.
fn archive_run(archive: &Path, folder: Option<&Path>) -> Result<()> {
    let mut tar = Command::new("tar");
    tar.arg("-cf").arg(archive);
    match folder {
        Some(folder) => tar.arg("-C").arg(folder).arg("run"),
        None => tar.args(["-T", "/dev/null"]),
    };
    program::run(&mut tar).while_doing(|| "archiving a run".to_owned())
}

/// Returns the script for one day of the run. The script first sets the guest's clock to that day,
/// because all guests start with the same date.
fn day_script(day: u64, seconds: u64, is_last: bool) -> String {
    let begin = 1_800_000_000 + day * (seconds + 60);
    let end = if is_last { "TERM" } else { "KILL" };
    format!(
        "date -s @{begin} >/dev/null\ntar -xf /run.tar -C /run/out\nboot=$(cat \
         /proc/sys/kernel/random/boot_id)\n/init run --until-stopped --disk {DISK_KB}KiB --resume --period \
         1s --deadline 1s --quiet --out /run/out/run >/run/out/text 2>&1 &\ntool=$!\nuntil grep \
         -q $boot /run/out/run/run.json; do sleep 1; done 2>/dev/null\nsleep 60\nlook=0\nwhile [ \
         $look -lt {LOOKS} ]; do\n{}\nsleep \
         {}\nlook=$((look + 1))\ndone\nsleep {}\nkill -{end} \
         $tool\nwait $tool\ntrue\n",
        // Only anonymous memory is checked: the resident pages of the program's file increase
        // whenever code runs for the first time. Files that contain segments of samples are not
        // counted, because their number rises and falls.
        look_at_tool("! -name '*.series.[0-9]*'"),
        (seconds - 60) / LOOKS,
        (seconds - 60) % LOOKS,
    )
}

/// Returns a shell line that prints five numbers: the tool's anonymous memory in KiB, its
/// descriptors, its threads, the files in the run folder that match `files`,
/// and the folder's size in KiB.
fn look_at_tool(files: &str) -> String {
    format!(
        "echo $(grep RssAnon /proc/$tool/status | tr -dc 0-9) $(ls /proc/$tool/fd | wc -l) $(ls \
         /proc/$tool/task | wc -l) $(find /run/out/run {files} | wc -l) $(du -sk /run/out/run | \
         cut -f 1) >>/run/out/looks"
    )
}

/// Checks that the folder contains a single, finished run of `days` days. Returns the violation.
fn not_every_day(folder: &Folder, days: u64, seconds: u64) -> Option<String> {
    let Folder::Opens { state, .. } = folder else {
        return Some(format!("the run does not open: {folder:?}"));
    };
    let recorded = folder.recorded();
    let is_whole = recorded >= days * (seconds - 2);
    (state != "finished" || folder.reboots() as u64 + 1 != days || !is_whole).then(|| {
        format!(
            "{state}, {recorded} samples in {days} days of {seconds} s: {}",
            folder.warnings()
        )
    })
}

/// Returns a description of the growth if, at any check, the tool has more descriptors, threads or
/// files than at the first check, or if its memory grows by more than `memory_kb` after the check
/// with the index `full`.
fn growth(looks: &str, full: usize, memory_kb: i64) -> Option<String> {
    let looks: Vec<Vec<i64>> = looks
        .lines()
        .map(|line| {
            line.split_whitespace()
                .filter_map(|number| number.parse().ok())
                .collect()
        })
        .collect();
    if looks.len() as u64 != LOOKS || looks.iter().any(|look| look.len() != 5) {
        return Some(format!(
            "{} of {LOOKS} readings of the tool: {looks:?}",
            looks.len()
        ));
    }
    let has_grown = |&(index, look): &(usize, &Vec<i64>)| {
        let more_memory = index > full && look[0] > looks[full][0] + memory_kb;
        more_memory || look[1..4] != looks[0][1..4]
    };
    let (index, grown) = looks.iter().enumerate().find(has_grown)?;
    Some(format!(
        "memory (KiB), descriptors, threads and files were {:?} at first, {:?} at check {full}, \
         and {grown:?} at check {index}",
        looks[0], looks[full]
    ))
}

/// Returns the size of the folder, if it ever exceeded `most_kb`.
fn too_large(looks: &str, most_kb: u64) -> Option<String> {
    let kilobytes = looks.lines().filter_map(|look| look.rsplit(' ').next());
    let most = kilobytes
        .filter_map(|most| most.parse::<u64>().ok())
        .max()?;
    (most > most_kb).then(|| format!("the folder took {most} KiB"))
}

/// Returns the tool's memory at the first and at the last check, in KiB.
fn memory(looks: &str) -> (i64, i64) {
    let of = |look: Option<&str>| {
        let memory = look.and_then(|look| look.split_whitespace().next()?.parse().ok());
        memory.unwrap_or_default()
    };
    (of(looks.lines().next()), of(looks.lines().last()))
}

/// Returns the growth if the last day ended with more memory than the second day. The second day is
/// the first one that resumes a run with earlier samples. Days in between may end with more memory:
/// growth that repeats every day is visible on the last day, too.
fn growth_of_days(memories: &[(i64, i64)]) -> Option<String> {
    let (_, second) = *memories.get(1)?;
    let (_, last) = *memories.last()?;
    (last > second + GROWTH_KB_MAX).then(|| {
        format!("the second day ended with {second} KiB of memory, the last one with {last} KiB")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_found_in_any_column_and_at_any_look() {
        let even = "5000 12 5 6 90\n".repeat(24);
        assert_eq!(growth(&even, 0, GROWTH_KB_MAX), None);
        assert!(
            growth(&even[12..], 0, GROWTH_KB_MAX).is_some(),
            "a reading is missing"
        );
        for grown in [
            "6000 12 5 6 90\n",
            "5000 13 5 6 90\n",
            "5000 12 6 6 90\n",
            "5000 12 5 7 90\n",
        ] {
            let looks = format!(
                "{}{grown}{}",
                "5000 12 5 6 90\n".repeat(12),
                "5000 12 5 6 90\n".repeat(11)
            );
            assert!(growth(&looks, 0, GROWTH_KB_MAX).is_some(), "{grown}");
        }
        let counting = format!(
            "{}{}",
            &even[..even.len() / 2],
            "9000 12 5 6 90\n".repeat(12)
        );
        assert!(growth(&counting, 0, GROWTH_KB_MAX).is_some());
        assert!(growth(&counting, 11, GROWTH_KB_MAX).is_some());
        assert_eq!(growth(&counting, 12, GROWTH_KB_MAX), None);
        assert_eq!(growth(&counting, 0, GROWTH_KB_MAX + COUNTING_KB), None);
        assert_eq!(
            (memory(&even), memory(&counting)),
            ((5000, 5000), (5000, 9000))
        );
        assert_eq!(too_large(&even, DISK_KB), None);
        assert!(too_large(&even.replace(" 90\n", " 8193\n"), DISK_KB).is_some());
    }

    #[test]
    fn memory_that_each_day_adds_to_is_found_on_the_last_day() {
        let even = [
            (6_500, 6_700),
            (8_200, 11_860),
            (8_200, 12_128),
            (8_200, 11_908),
        ];
        assert_eq!(growth_of_days(&even), None);
        assert_eq!(growth_of_days(&even[..1]), None);
        let grown = [even[0], even[1], (8_200, 12_000), (8_200, 12_140)];
        assert!(growth_of_days(&grown).unwrap().contains("12140 KiB"));
    }
}
