//! A CPU on which something of real-time priority 98 never sleeps. In a guest, whose kernel's own
//! throttling of such loops is switched off.

use tardy_core::units::Nanos;
use tardy_lab::several_cpus::{self, Equipment, Guest, GuestResult};
use xtask::failure::{Result, While};

use crate::fault::{Fault, Ground, Tally};
use crate::folders::{self, Folder};
use crate::guests;
use crate::place::Place;

pub(crate) const PRIORITY_98: Fault = Fault {
    name: "priority-98",
    done: "in a guest without real-time throttling, a probe at SCHED_FIFO 98 has periods shorter \
           than its work, or another program loops on the measured CPU at that priority and never \
           sleeps",
    demanded: "the run ends on time, or, with the other program, the watchdog ends the run within \
               its time limit; the run opens, reports the problem, and gives no verdict; its \
               counts add up",
    attempt: |ground| guests::attempt(ground, priority_98),
};

const UNTHROTTLED: &str = "echo -1 >/proc/sys/kernel/sched_rt_runtime_us\n";

fn priority_98(ground: &Ground, tally: &mut Tally) -> Result<()> {
    for number in 0..ground.tries(1, 3) {
        let place = ground.place()?;
        // Another period each: with 1 ns nothing is ever waited for, with 10 us hardly anything.
        let period = ["1ns", "2us", "10us"][number];
        count_probe(tally, &place, period)?;
    }
    for number in 0..ground.tries(1, 3) {
        let place = ground.place()?;
        count_loop(tally, &place, number)?;
    }
    Ok(())
}

/// The probe itself has no time to sleep: it sees the end of the run at each of its samples.
fn count_probe(tally: &mut Tally, place: &Place, period: &str) -> Result<()> {
    let script = format!(
        "{UNTHROTTLED}/init run --for 1m --load none --period {period} --force --priority 98 \
         --keep histogram --deadline 10s --misses 0.99 --cpus 1 --quiet --out /run/out/run \
         >/run/out/text 2>&1\necho $? >/run/out/code\n"
    );
    count(
        tally,
        place,
        &script,
        ("finished", "most-periods-skipped"),
        "a probe without time to sleep",
    )
}

/// A loop of somebody else keeps the probe from its CPU for good.
fn count_loop(tally: &mut Tally, place: &Place, number: usize) -> Result<()> {
    // Probes of their usual priority, of the highest below the loop, and of the lowest.
    let priority = ["", "--priority 97", "--priority 1"][number];
    let script = format!(
        "{UNTHROTTLED}/init run --for 5s --load none --period 10ms --deadline 1m --misses 0.99 \
         --cpus 1 {priority} --quiet --out /run/out/run >/run/out/text 2>&1 &\nrun=$!\nuntil [ -s \
         /run/out/run/state.jsonl ]; do usleep 10000; done\nsleep 1\ntaskset 2 /usr/chrt -f 98 \
         /bin/busybox sh -c 'while :; do :; done' &\nwait $run\necho $? >/run/out/code\n"
    );
    count(
        tally,
        place,
        &script,
        ("ended-by-watchdog", "starved"),
        "a foreign loop",
    )
}

/// Runs the script in a guest of two CPUs, whose run must end in this state and with this warning.
fn count(
    tally: &mut Tally,
    place: &Place,
    script: &str,
    (state, warning): (&str, &str),
    about: &str,
) -> Result<()> {
    let kernel = guests::kernel()?;
    let mut files = guests::script_files(place, script)?;
    files.extend(guests::program_files("chrt")?);
    let equipment = Equipment {
        program: Some("/bin/script"),
        files: &files,
        ..Equipment::default()
    };
    let guest = Guest {
        cpus: 2,
        memory_mib: 768,
        kernel: &kernel.image,
        words: "",
        tardy: place.binary(),
        time_limit: Nanos::from_secs(90),
        equipment,
    };
    let result =
        several_cpus::run(guest, &[]).while_doing(|| "running a guest of two CPUs".to_owned())?;
    let code = result.text("out/code").trim().to_owned();
    unpack(&result, place)?;
    let folder = folders::look(place, "run")?;
    let mut wrong = folder.wrong();
    wrong.extend(not_ended(&folder, state, warning));
    if code != "4" {
        wrong.push(format!(
            "exit code {code}: {:?}: {}",
            result.report.ending,
            result.text("out/text")
        ));
    }
    let recorded = |summary: &serde_json::Value| {
        summary["series"][0]["counts"]["recorded"]
            .as_u64()
            .unwrap_or(0)
    };
    if let Folder::Opens { summary, .. } = &folder
        && recorded(summary) == 0
    {
        wrong.push(format!("no sample: {}", summary["series"]));
    }
    let ending = match &folder {
        Folder::Opens { state, .. } => state.replace('-', " "),
        _ => "no run".to_owned(),
    };
    tally.count(about, format!("{about}: exit code {code}, {ending}"), wrong);
    Ok(())
}

/// Puts the run that a guest left into the place.
fn unpack(result: &GuestResult, place: &Place) -> Result<()> {
    for (path, content) in result.files_below("out/run") {
        let file = place.path("run").join(path);
        let doing = || format!("writing {}", file.display());
        file.parent()
            .map_or(Ok(()), std::fs::create_dir_all)
            .while_doing(doing)?;
        std::fs::write(&file, content).while_doing(doing)?;
    }
    Ok(())
}

/// What speaks against an end in this state, with this warning.
fn not_ended(folder: &Folder, wanted: &str, warning: &str) -> Option<String> {
    let Folder::Opens { state, .. } = folder else {
        return Some(format!("no run: {folder:?}"));
    };
    let is_told = folder.warnings().contains(&format!("\"{warning}\""));
    (state != wanted || !is_told).then(|| format!("{state}: {}", folder.warnings()))
}
