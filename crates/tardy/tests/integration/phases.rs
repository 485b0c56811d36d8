//! Tests when phases began and ended: each mark that a load records lies in one of the load's own
//! phases, and a sample counts in every phase that it overlaps.

use crate::support;

use std::path::Path;

use serde_json::Value;
use support::series;
use support::workplace::Workplace;

/// A scenario of two loads that alternate in random order. Each load records its busy intervals in
/// its own file. The first and the last interval in a phase lie close to the phase's edges.
fn scenario(folder: &Path) -> String {
    let phase = |name: &str| {
        let record = folder.join(name);
        let load = format!("busy:length=1ms:period=10ms:record={}", record.display());
        format!("[[phase]]\nname = \"{name}\"\nlength = \"700ms\"\nloads = [\"{load}\"]\n")
    };
    format!(
        "name = \"marks\"\nabout = \"marks at the edges of phases\"\nrepeats = 2\norder = \
         \"shuffled\"\n[[probe]]\nname = \"cyclic\"\nperiod = \"1ms\"\n{}{}[[phase]]\nname = \
         \"idle\"\nlength = \"300ms\"\n",
        phase("one"),
        phase("other")
    )
}

/// The intervals that a load recorded on all CPUs, as start and end on the run's clock.
fn marks(folder: &Path, name: &str) -> Vec<(i64, i64)> {
    let is_record = |path: &Path| {
        path.file_name()
            .unwrap()
            .to_string_lossy()
            .starts_with(&format!("{name}.cpu"))
    };
    let files = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| is_record(path));
    let lines: Vec<String> = files
        .flat_map(|file| {
            std::fs::read_to_string(file)
                .unwrap()
                .lines()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .collect();
    let number =
        |line: &str, place: usize| line.split(' ').nth(place).unwrap().parse::<i64>().unwrap();
    lines
        .iter()
        .map(|line| (number(line, 0), number(line, 1)))
        .collect()
}

/// Checks each interval in `marks`, which the load `name` recorded. The run recorded when the
/// load's work started and ended in each phase. The interval must lie between these two times in
/// one of the load's phases.
fn assert_marks_lie_where_the_load_worked(run: &Path, name: &str, marks: &[(i64, i64)]) {
    let record = tardy_run::folder::open(run).unwrap();
    for mark in marks {
        let worked = (0..record.phases.len())
            .filter(|&index| record.phases[index].name == name)
            .map(|index| {
                let parts: Vec<_> = record
                    .load_work
                    .iter()
                    .filter(|work| work.phase == index)
                    .collect();
                let begin = parts.iter().filter_map(|work| work.begin_ns).min().unwrap();
                (
                    begin.get(),
                    parts
                        .iter()
                        .filter_map(|work| work.end_ns)
                        .max()
                        .unwrap()
                        .get(),
                )
            });
        assert!(
            worked
                .into_iter()
                .any(|(begin, end)| begin <= mark.0 && mark.1 <= end),
            "{mark:?} of {name}"
        );
    }
}

struct Phase {
    name: String,
    begin: i64,
    end: i64,
}

fn phases(run: &Path) -> Vec<Phase> {
    let record = tardy_run::folder::open(run).unwrap();
    let end = |phase: &tardy_run::record::PhaseRecord| phase.end_ns.unwrap().get();
    record
        .phases
        .iter()
        .map(|phase| Phase {
            name: phase.name.clone(),
            begin: phase.begin_ns.get(),
            end: end(phase),
        })
        .collect()
}

#[test]
fn marks_at_the_edges_fall_into_their_phase_and_samples_into_every_phase_that_they_touch() {
    let place = Workplace::new();
    std::fs::create_dir(place.path("marks")).unwrap();
    std::fs::write(place.path("marks.toml"), scenario(&place.path("marks"))).unwrap();
    for seed in [1, 2] {
        let run = format!("run{seed}");
        let ran = place
            .tardy(&format!(
                "run --scenario marks.toml --seed {seed} --json --out {run}"
            ))
            .ends_with(0);
        let phases = phases(&place.path(&run));
        assert_eq!(phases.len(), 6);
        for name in ["one", "other"] {
            let marks = marks(&place.path("marks"), name);
            let own: Vec<&Phase> = phases.iter().filter(|phase| phase.name == name).collect();
            let inside = |phase: &Phase| {
                marks
                    .iter()
                    .filter(|mark| mark.0 >= phase.begin && mark.1 <= phase.end)
                    .count()
            };
            assert_marks_lie_where_the_load_worked(&place.path(&run), name, &marks);
            let counts: Vec<usize> = own.iter().map(|phase| inside(phase)).collect();
            assert!(
                counts.iter().all(|&count| count > 0),
                "each phase of {name} has marks: {counts:?}"
            );
            // The load of the last phase works until shortly after the end of the run.
            let end = phases.last().unwrap().end;
            let before_the_end = marks.iter().filter(|mark| mark.1 <= end).count();
            assert_eq!(
                counts.iter().sum::<usize>(),
                before_the_end,
                "a mark of {name} lies outside its phases"
            );
        }
        assert_samples_are_in_every_phase_they_touch(&place.path(&run), &phases, &ran.json());
        let text = place
            .tardy(&format!("show {run} --full"))
            .ends_with(0)
            .stdout;
        assert!(
            text.contains("phases started up to "),
            "the deviation from the plan is printed: {text}"
        );
        std::fs::remove_dir_all(place.path("marks")).unwrap();
        std::fs::create_dir(place.path("marks")).unwrap();
    }
}

/// Counts the stored samples of each phase during its load's work, and compares the counts with the
/// summary.
fn assert_samples_are_in_every_phase_they_touch(run: &Path, phases: &[Phase], summary: &Value) {
    let record = tardy_run::folder::open(run).unwrap();
    let all = series::all(run);
    for (index, (phase, summary)) in phases
        .iter()
        .zip(summary["phases"].as_array().unwrap())
        .enumerate()
    {
        let of_series = |series: &series::Series| {
            let (begin, end) = record.under_load(index, series.descriptor.cpu);
            series
                .samples
                .iter()
                .filter(|sample| sample.due < end && sample.wake() >= begin)
                .count()
        };
        let counted: usize = all.iter().map(of_series).sum();
        assert_eq!(
            summary["probes"][0][1]["samples"].as_u64(),
            Some(counted as u64),
            "{}",
            phase.name
        );
    }
}
