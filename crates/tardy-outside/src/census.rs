//! Counts the sections of one or more watched guests by kind, length and place.
//!
//! The sections are compared with the latencies of the probes' samples. For each due time that a
//! sample skipped, the latency that it would have had is added (`census::latencies`). A late sample
//! and the due times that it skipped lie in the same section. If only the sample counted, a long
//! section would weigh no more than a short one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;
use tardy_core::sample::Sample;
use tardy_core::series::Schedule;
use tardy_core::units::Nanos;
use tardy_run::record::RunRecord;
use tardy_run::{folder, guest_start};
use tardy_samples::read_series::SeriesFile;
use tardy_sys::regular_file;

use crate::bound::Instances;
use crate::calls::Reader;
use crate::kind::Kind;
use crate::store::{self, StoreError, WatchedGuest};
use crate::stream::{Item, LongestStretch, Section, Site};
use crate::theory::{
    GuestTotals, LongestRow, SchedulingBound, SectionLatencyRow, scheduling_bound, section_latency,
};

/// Message of a guest's program at the start of the next phase (`tardy_sys::watched::PHASE`).
const PHASE: u64 = 3;
/// Number of bins. Lengths are counted in classes, whose limits are powers of two ns up to 2^63.
const BINS: usize = 64;

/// Why there is no census.
#[derive(Debug, thiserror::Error)]
pub enum CensusError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{}: the guests were not watched: measure with `tardy lab run --watch` or `tardy lab \
             sections`", .0.display())]
    NotWatched(PathBuf),
    #[error("{}: {error}", path.display())]
    Folder {
        path: PathBuf,
        error: std::io::Error,
    },
}

/// Sections by variant and load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Census {
    pub groups: Vec<Group>,
    /// Number of interrupts that came while interrupts seemed to be off.
    pub corrected: u64,
    /// Number of sections that were left out because there were too many code addresses at which
    /// sections started or ended.
    pub unstored: u64,
    /// Whether sections with preemption off could be seen in every guest.
    pub knows_preemption: bool,
    /// Number of longest intervals, and of worst samples, for which the preceding code could not be
    /// stored.
    pub left_out_windows: u64,
}

/// The sections of a variant under a load, over all its guests.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Group {
    /// The kernel, and its preemption model.
    pub variant: String,
    /// The loads of the phase, or the phase's name if it has no load.
    pub load: String,
    /// Number of guests.
    pub runs: u32,
    /// Time in which the CPU executed instructions; an idle CPU executes none.
    pub executed_ns: Nanos,
    pub kinds: Vec<KindCensus>,
    /// Whether the kernel can preempt its own code; absent if this is unknown.
    pub is_preemptible: Option<bool>,
    /// The longest interval of each kind, with its call path; no intervals if an older version of
    /// tardy watched the guests.
    pub longest: Vec<LongestRow>,
    /// The bound of the scheduling latency; absent if the kernel is not preemptible, because the
    /// theory does not hold for it.
    pub bound: Option<SchedulingBound>,
    /// The latency that follows from the sections, beside the latency that the probes measured;
    /// absent if no probe ran.
    pub section_latency: Option<SectionLatencyRow>,
}

/// The sections of one kind.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KindCensus {
    pub kind: Kind,
    pub count: u64,
    pub total_ns: Nanos,
    pub longest_ns: Nanos,
    /// Number of sections in each class of lengths. Entry `n` counts lengths from 2^(n-1) to below
    /// 2^n ns; the first entry counts the length 0.
    pub histogram: Vec<u64>,
    /// The sections by the functions where they start and end, the longest section first.
    pub places: Vec<Place>,
}

/// The sections that start in the same function and end in the same function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The function in which these sections start. If it only locks for its caller, the caller is
    /// named instead. For an interrupt, this function is the kernel's entry.
    pub begin: String,
    pub end: String,
    pub count: u64,
    pub total_ns: Nanos,
    pub longest_ns: Nanos,
    /// The task that had the CPU when the longest section started.
    pub task: String,
}

#[derive(Debug, Clone, Default)]
struct Tally {
    count: u64,
    total: u64,
    longest: u64,
    task: u32,
}

/// What one guest contributes to a group.
#[derive(Debug, Default)]
struct Part {
    executed: u64,
    by_site: Vec<Tally>,
    histograms: [Vec<u64>; Kind::ALL.len()],
    interrupts: Instances,
    /// When the guest's program announced this phase.
    began: u64,
    /// For [`Kind::Blocked`]: when each section ended and how long it was, in ns.
    blocked: Vec<(u64, u64)>,
    longest: Vec<LongestRow>,
}

impl Part {
    fn add(&mut self, site: &Site, section: Section, instruction_ns: u64) {
        let index = section.site as usize;
        if self.by_site.len() <= index {
            self.by_site.resize_with(index + 1, Tally::default);
        }
        let tally = &mut self.by_site[index];
        tally.count += 1;
        tally.total = tally.total.saturating_add(section.length);
        if section.length >= tally.longest {
            (tally.longest, tally.task) = (section.length, section.task);
        }
        let histogram = &mut self.histograms[site.kind.index()];
        histogram.resize(BINS + 1, 0);
        let nanos = section.length.saturating_mul(instruction_ns);
        histogram[(u64::BITS - nanos.leading_zeros()) as usize] += 1;
        match site.kind {
            Kind::Interrupt => self.interrupts.add(
                site.begin_pc,
                section.ended_at.saturating_sub(section.length),
                section.length,
            ),
            Kind::Blocked => {
                let ended = section
                    .ended_at
                    .saturating_sub(self.began)
                    .saturating_mul(instruction_ns);
                self.blocked.push((ended, nanos));
            }
            _ => {}
        }
    }
}

/// Makes the census of a run folder, or of all run folders in an experiment of the lab.
///
/// # Errors
/// Returns [`CensusError`].
pub fn census(folder: &Path) -> Result<Census, CensusError> {
    let mut census = Census {
        groups: Vec::new(),
        corrected: 0,
        unstored: 0,
        knows_preemption: true,
        left_out_windows: 0,
    };
    let mut gathered: Vec<GuestTotals> = Vec::new();
    let mut instruction_ns = 1;
    let mut runs = Vec::new();
    find_runs(folder, 2, &mut runs)?;
    for (run, watched) in &runs {
        census.corrected = census.corrected.saturating_add(watched.corrected);
        census.unstored = census.unstored.saturating_add(watched.unstored);
        census.knows_preemption &= watched.knows_preemption;
        census.left_out_windows = census
            .left_out_windows
            .saturating_add(watched.left_out_windows)
            .saturating_add(watched.left_out_paths);
        instruction_ns = watched.instruction_ns;
        add_run(&mut census, &mut gathered, run, watched)?;
    }
    if runs.is_empty() {
        return Err(CensusError::NotWatched(folder.to_owned()));
    }
    for kind in census.groups.iter_mut().flat_map(|group| &mut group.kinds) {
        kind.places.sort_by(|one, other| {
            other
                .longest_ns
                .cmp(&one.longest_ns)
                .then_with(|| one.begin.cmp(&other.begin))
        });
    }
    for (group, gathered) in census.groups.iter_mut().zip(&mut gathered) {
        group.longest.sort_by_key(|row| row.what);
        if group.is_preemptible == Some(true) {
            group.bound = scheduling_bound(&group.longest, gathered, instruction_ns);
        }
        group.section_latency = section_latency(gathered);
    }
    Ok(census)
}

/// Returns the watched runs in a folder: either the run in the folder itself, or the runs of an
/// experiment.
///
/// # Errors
/// Returns [`CensusError`].
pub fn watched_runs(folder: &Path) -> Result<Vec<PathBuf>, CensusError> {
    let mut runs = Vec::new();
    find_runs(folder, 2, &mut runs)?;
    Ok(runs.into_iter().map(|(run, _)| run).collect())
}

/// Returns whether a folder is a watched run, or an experiment with watched runs.
#[must_use]
pub fn is_watched(folder: &Path) -> bool {
    let mut runs = Vec::new();
    find_runs(folder, 2, &mut runs).is_ok() && !runs.is_empty()
}

/// Returns whether a folder is shown and compared by the sections that it contains. This is the
/// case if the folder contains watched runs but is not a run itself.
#[must_use]
pub fn is_census(folder: &Path) -> bool {
    !folder.join("run.json").exists() && is_watched(folder)
}

/// Returns whether the arguments are two folders that are compared by their sections.
#[must_use]
pub fn are_censuses<P: AsRef<Path>>(folders: &[P]) -> bool {
    folders.len() == 2 && folders.iter().all(|folder| is_census(folder.as_ref()))
}

fn find_runs(
    folder: &Path,
    depth: u32,
    found: &mut Vec<(PathBuf, WatchedGuest)>,
) -> Result<(), CensusError> {
    if let Some(watched) = store::read(folder)? {
        found.push((folder.to_owned(), watched));
        return Ok(());
    }
    if depth == 0 || folder.join("run.json").exists() {
        return Ok(());
    }
    let failed = |error| CensusError::Folder {
        path: folder.to_owned(),
        error,
    };
    let mut folders: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            folders.push(path);
        }
    }
    folders.sort();
    folders
        .iter()
        .try_for_each(|folder| find_runs(folder, depth - 1, found))
}

fn add_run(
    census: &mut Census,
    gathered: &mut Vec<GuestTotals>,
    run: &Path,
    watched: &WatchedGuest,
) -> Result<(), CensusError> {
    let mut parts: Vec<Part> = vec![Part::default()];
    let (mut sites, mut tasks, mut from) = (Vec::new(), Vec::new(), None);
    let mut paths = Reader::new(&watched.code);
    store::read_items(run, |item, reader| {
        let last = parts.len() - 1;
        match item {
            Item::Section(section) => parts[last].add(
                &reader.sites()[section.site as usize],
                section,
                watched.instruction_ns,
            ),
            Item::Mark { what, at } => {
                parts[last].executed += from.map_or(0, |from| at - from);
                from = Some(at);
                if what == PHASE {
                    parts.push(Part {
                        began: at,
                        ..Part::default()
                    });
                }
            }
            Item::Longest(longest) => {
                let calls = paths.calls(&longest.before, reader.blocks(), watched.instruction_ns);
                let call = calls
                    .at(0)
                    .or_else(|| calls.stretches.last().map(|stretch| stretch.call));
                let path = call.map_or_else(Vec::new, |call| {
                    calls.path(call).map(ToString::to_string).collect()
                });
                parts[last]
                    .longest
                    .push(longest_row(&longest, path, watched, reader.tasks()));
            }
            Item::Window(_) => {}
            Item::End(_) => (sites, tasks) = (reader.sites().to_vec(), reader.tasks().to_vec()),
        }
    })?;
    let has_phases = parts.len() > 1;
    let record = folder::open(run).ok();
    let (variant, labels) = (
        variant_of(run),
        record.as_ref().map_or_else(Vec::new, labels_of),
    );
    for (index, mut part) in parts.into_iter().enumerate() {
        let before_phases = || {
            if has_phases {
                "start".to_owned()
            } else {
                "program".to_owned()
            }
        };
        let label = index.checked_sub(1).map_or_else(before_phases, |phase| {
            labels.get(phase).cloned().unwrap_or_default()
        });
        let place = group_of(&mut census.groups, &variant, &label);
        gathered.resize_with(census.groups.len(), GuestTotals::default);
        let (group, gathered) = (&mut census.groups[place], &mut gathered[place]);
        let preemption = record
            .as_ref()
            .and_then(|record| record.machine.kernel.preemption.as_ref()?.is_full());
        group.is_preemptible = group.is_preemptible.or(preemption);
        part.longest
            .drain(..)
            .for_each(|row| add_longest(&mut group.longest, row));
        gathered
            .interrupts
            .push(std::mem::take(&mut part.interrupts));
        if let Some((record, phase)) = record.as_ref().zip(index.checked_sub(1)) {
            add_samples(gathered, run, record, (phase, &part.blocked));
        }
        group.runs += 1;
        group.executed_ns = Nanos(
            group
                .executed_ns
                .0
                .saturating_add(nanos(part.executed, watched).0),
        );
        for (site, tally) in sites
            .iter()
            .zip(&part.by_site)
            .filter(|(_, tally)| tally.count > 0)
        {
            let task = tasks.get(tally.task as usize).cloned().unwrap_or_default();
            let (begin, end) = (
                function(watched, site.begin_pc),
                function(watched, site.end_pc),
            );
            add_place(
                &mut group.kinds[site.kind.index()],
                begin,
                end,
                tally,
                task,
                watched,
            );
        }
        for (kind, histogram) in group.kinds.iter_mut().zip(&part.histograms) {
            kind.histogram
                .resize(kind.histogram.len().max(histogram.len()), 0);
            kind.histogram
                .iter_mut()
                .zip(histogram)
                .for_each(|(sum, count)| *sum += count);
        }
    }
    Ok(())
}

fn nanos(instructions: u64, watched: &WatchedGuest) -> Nanos {
    Nanos(i64::try_from(instructions.saturating_mul(watched.instruction_ns)).unwrap_or(i64::MAX))
}

fn group_of(groups: &mut Vec<Group>, variant: &str, load: &str) -> usize {
    groups
        .iter()
        .position(|group| group.variant == variant && group.load == load)
        .unwrap_or_else(|| {
            let kind = |kind| KindCensus {
                kind,
                count: 0,
                total_ns: Nanos::ZERO,
                longest_ns: Nanos::ZERO,
                histogram: Vec::new(),
                places: Vec::new(),
            };
            groups.push(Group {
                variant: variant.to_owned(),
                load: load.to_owned(),
                runs: 0,
                executed_ns: Nanos::ZERO,
                kinds: Kind::ALL.map(kind).to_vec(),
                is_preemptible: None,
                longest: Vec::new(),
                bound: None,
                section_latency: None,
            });
            groups.len() - 1
        })
}

fn longest_row(
    longest: &LongestStretch,
    path: Vec<String>,
    watched: &WatchedGuest,
    tasks: &[String],
) -> LongestRow {
    LongestRow {
        what: longest.what,
        length_ns: nanos(longest.length, watched),
        begin: function(watched, longest.begin_pc),
        end: function(watched, longest.end_pc),
        task: tasks
            .get(longest.task as usize)
            .cloned()
            .unwrap_or_default(),
        path,
    }
}

fn function(watched: &WatchedGuest, address: u64) -> String {
    watched
        .functions
        .get(&format!("{address:x}"))
        .cloned()
        .unwrap_or_else(|| format!("{address:#x}"))
}

fn add_longest(rows: &mut Vec<LongestRow>, row: LongestRow) {
    match rows.iter_mut().find(|known| known.what == row.what) {
        None => rows.push(row),
        Some(known) if known.length_ns < row.length_ns => *known = row,
        Some(_) => {}
    }
}

/// Maximum number of latencies that are collected. Real guests have fewer of them, but a sample in
/// a damaged series can claim four billion skipped due times.
const LATENCIES_MAX: usize = 1 << 24;

/// Returns a sample's latency, and the latencies that its skipped due times would have had. These
/// due times were in the same section as the sample's due time.
fn latencies(sample: Sample, schedule: &Schedule) -> impl Iterator<Item = u64> {
    let period = if let Schedule::Grid { period, .. } = schedule {
        period.0
    } else {
        0
    };
    let skipped = if period > 0 {
        i64::from(sample.skipped)
    } else {
        0
    };
    (0..=skipped).map(move |later| {
        sample
            .latency
            .0
            .saturating_sub(later.saturating_mul(period))
            .max(0)
            .cast_unsigned()
    })
}

fn gather(gathered: &mut Vec<u64>, sample: Sample, schedule: &Schedule) {
    gathered.extend(latencies(sample, schedule).take(LATENCIES_MAX.saturating_sub(gathered.len())));
}

/// Adds the phase's virtual length, its sections, and the latencies of its samples.
///
/// Sections that occur after the phase, while the phase's load is being ended, are left out. But a
/// section's time is counted in executed instructions, and an idle CPU executes none. So if the CPU
/// was idle for some time in the phase, sections from an equally long time after the phase are
/// included. Samples that cannot be read are ignored, because `tardy show` reports them.
fn add_samples(
    gathered: &mut GuestTotals,
    run: &Path,
    record: &RunRecord,
    (phase, blocked): (usize, &[(u64, u64)]),
) {
    let Some((begin, end)) = record
        .phases
        .get(phase)
        .and_then(|phase| Some((phase.begin_ns, phase.end_ns?)))
    else {
        return;
    };
    let length = end.0.saturating_sub(begin.0).max(0).cast_unsigned();
    gathered.phase_ns = gathered.phase_ns.saturating_add(length);
    gathered.blocked.extend(
        blocked
            .iter()
            .filter(|(ended, _)| *ended <= length)
            .map(|(_, length)| *length),
    );
    let samples = record
        .samples_folder
        .clone()
        .unwrap_or_else(|| run.join("samples"));
    for series in &record.series {
        let Ok(file) = SeriesFile::open(&samples.join(&series.file)) else {
            continue;
        };
        let schedule = file.descriptor().schedule;
        file.read(&mut |chunk| {
            let inside = chunk
                .samples(&schedule)
                .filter(|(_, sample)| (begin..end).contains(&sample.due));
            inside.for_each(|(_, sample)| gather(&mut gathered.samples, sample, &schedule));
        })
        .ok();
    }
}

fn add_place(
    kind: &mut KindCensus,
    begin: String,
    end: String,
    tally: &Tally,
    task: String,
    watched: &WatchedGuest,
) {
    let (total, longest) = (nanos(tally.total, watched), nanos(tally.longest, watched));
    kind.count += tally.count;
    kind.total_ns = Nanos(kind.total_ns.0.saturating_add(total.0));
    kind.longest_ns = kind.longest_ns.max(longest);
    match kind
        .places
        .iter_mut()
        .find(|place| place.begin == begin && place.end == end)
    {
        None => kind.places.push(Place {
            begin,
            end,
            count: tally.count,
            total_ns: total,
            longest_ns: longest,
            task,
        }),
        Some(place) => {
            place.count += tally.count;
            place.total_ns = Nanos(place.total_ns.0.saturating_add(total.0));
            if longest > place.longest_ns {
                (place.longest_ns, place.task) = (longest, task);
            }
        }
    }
}

/// Returns the variant's name according to `lab.json`, or the folder's name.
fn variant_of(run: &Path) -> String {
    let record = regular_file::read(
        &run.join(guest_start::PROVENANCE_NAME),
        guest_start::PROVENANCE_BYTES_MAX,
    )
    .ok();
    let record: Option<serde_json::Value> =
        record.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let name = record
        .as_ref()
        .and_then(|record| record["inputs"]["variant"]["name"].as_str());
    name.map_or_else(
        || {
            run.file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned()
        },
        str::to_owned,
    )
}

/// Returns the texts that stand for the phases of a run in tables: a phase's load, or its name if
/// it has no load or several.
fn labels_of(record: &RunRecord) -> Vec<String> {
    let label = |name: &str, loads: Vec<String>| match loads.as_slice() {
        [load] => load.clone(),
        _ => name.to_owned(),
    };
    record
        .plan
        .phases
        .iter()
        .map(|phase| {
            label(
                &phase.name,
                phase.loads.iter().map(|load| load.label.clone()).collect(),
            )
        })
        .collect()
}

impl Census {
    /// Returns the places of all groups, the longest sections first. Leaves out [`Kind::Blocked`],
    /// which contains the other kinds.
    #[must_use]
    pub fn longest_places(&self) -> Vec<(&Group, Kind, &Place)> {
        let places = self.groups.iter().flat_map(|group| {
            let kinds = group.kinds.iter().filter(|kind| kind.kind != Kind::Blocked);
            kinds.flat_map(move |kind| {
                kind.places
                    .iter()
                    .map(move |place| (group, kind.kind, place))
            })
        });
        let mut places: Vec<_> = places.collect();
        places.sort_by_key(|(_, _, place)| std::cmp::Reverse(place.longest_ns));
        places
    }

    /// For each combination of kind, start and end, returns the number and the maximum length of
    /// sections, over all groups.
    #[must_use]
    pub fn by_place(&self) -> BTreeMap<(Kind, String, String), (u64, Nanos)> {
        let mut sum: BTreeMap<(Kind, String, String), (u64, Nanos)> = BTreeMap::new();
        for kind in self.groups.iter().flat_map(|group| &group.kinds) {
            for place in &kind.places {
                let entry = sum
                    .entry((kind.kind, place.begin.clone(), place.end.clone()))
                    .or_default();
                *entry = (entry.0 + place.count, entry.1.max(place.longest_ns));
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests;
