//! The summary as text: the verdict, the worst load and the warnings, then the numbers, worst
//! first. [`text`] fits a screen, [`full`] omits nothing.

mod cells;
mod tables;
pub(super) mod words;

use std::fmt::Write as _;

use tardy_core::verdict::{Outcome, Verdict};
use tardy_core::warning::Warning;
use tardy_results::summary::model::{ProbeSummary, SeriesSummary, Summary};
use tardy_run::record::State;
use tardy_run::shell::quoted;

use super::ladder_text;
use super::screen::{Screen, cut_at_commas, push_wrapped};
pub(super) use cells::count;
pub(crate) use words::{gaps, shares_of};
pub use words::{grave_settings, labels_and_defaults, largest, marks, word, worst_load};
pub(super) use words::{named, unbounded};

/// Number of lines of the smallest terminal on which a summary must fit together with the prompt.
const SCREEN_LINES: usize = 24;
/// Number of lines for warnings on the smallest terminal. The first warning is always shown in
/// full.
const WARNING_LINES: usize = 4;
/// Minimum and maximum number of lines of a histogram, without its axis.
const HISTOGRAM_LINES: std::ops::RangeInclusive<usize> = 2..=5;

/// Returns the summary as text that fits `screen`. If the screen has fewer than 24 lines, the text
/// is made to fit 24 lines. If there is space, `histogram` is called to draw a probe's histogram:
/// in the given number of lines, plus one for the axis.
#[must_use]
pub fn text(
    summary: &Summary,
    screen: Screen,
    histogram: impl Fn(&ProbeSummary, usize) -> String,
) -> String {
    let page = Page {
        summary,
        columns: screen.columns,
    };
    // One line is left for the prompt.
    let lines = screen
        .lines
        .map_or(SCREEN_LINES, |lines| lines.max(SCREEN_LINES))
        - 1;
    let taller = (lines + 1 - SCREEN_LINES) / 4;
    // On a narrow screen, sentences take more lines, so the least important sentences are dropped.
    let drafts = [(WARNING_LINES, 3), (WARNING_LINES, 2), (2, 2), (2, 1)];
    let mut best = None;
    for (warning_lines, foot_lines) in drafts {
        let mut head = page.head();
        // If the text goes to a file, all warnings are written, because the number of lines is not
        // limited.
        page.warnings(
            &mut head,
            screen.lines.map_or(usize::MAX, |_| warning_lines + taller),
        );
        let foot = page.foot(foot_lines);
        let left = lines.saturating_sub(head.lines().count() + foot.lines().count());
        let fits = page.least().lines().count() <= left;
        best = Some((head, foot, left));
        if fits {
            break;
        }
    }
    let (mut head, foot, left) = best.expect("there is a draft");
    match summary.probes.as_slice() {
        [probe] => page.one_probe(&mut head, probe, left, histogram),
        _ => page.several_probes(&mut head, left),
    }
    head + &foot
}

/// Returns the complete text, with tables at most `columns` wide. `histogram` draws a probe's
/// histogram in the given number of lines, plus one for the axis.
#[must_use]
pub fn full(
    summary: &Summary,
    columns: usize,
    histogram: impl Fn(&ProbeSummary, usize) -> String,
) -> String {
    let page = Page { summary, columns };
    let mut out = page.head();
    page.warnings(&mut out, usize::MAX);
    for probe in &summary.probes {
        let series = page.series_of(probe);
        match tables::latencies(summary, probe, &series, usize::MAX) {
            Some(table) => out.push_str(&table.in_blocks(columns)),
            None => page.sentence(&mut out, 0, &format!("{}: no sample", probe.probe)),
        }
        page.notes(&mut out, probe, true);
        page.about_series(&mut out, &series);
        if let Some(ladder) = probe
            .ladder
            .as_ref()
            .filter(|ladder| !ladder.rungs.is_empty())
        {
            out.push_str(
                &ladder_text::table(ladder, &probe.probe, summary.probes.len() > 1)
                    .in_blocks(columns),
            );
        }
        out.push_str(&histogram(probe, *HISTOGRAM_LINES.end()));
    }
    if let Some(table) = tables::loads(summary, usize::MAX) {
        out.push_str(&table.in_blocks(columns));
    }
    for line in summary
        .loads
        .iter()
        .filter_map(shares_of)
        .chain(words::order_of_loads(summary))
    {
        page.sentence(&mut out, 2, &line);
    }
    page.sampling_gap(&mut out);
    page.decision(&mut out);
    for line in summary.machine.iter().filter(|line| !line.is_empty()) {
        page.sentence(&mut out, 0, line);
    }
    for line in words::grave_settings(summary)
        .into_iter()
        .chain(words::interrupts(summary))
        .chain(words::overhead(summary))
    {
        page.sentence(&mut out, 0, &line);
    }
    page.next_step(&mut out);
    out
}

/// Returns the verdict on the run. If several probes are judged, returns the verdict on each, worst
/// first.
#[must_use]
pub fn verdict_lines(summary: &Summary) -> Vec<(Outcome, String)> {
    let of_probes = summary.verdicts_of_probes();
    if of_probes.is_empty() {
        return summary
            .verdict
            .iter()
            .map(|verdict| (verdict.outcome, verdict.sentence.clone()))
            .collect();
    }
    let worded = |(probe, verdict): &(&str, &Verdict)| {
        (verdict.outcome, format!("{probe}: {}", verdict.sentence))
    };
    let of = |outcome| {
        of_probes
            .iter()
            .filter(move |(_, verdict)| verdict.outcome == outcome)
            .map(worded)
    };
    [Outcome::Failed, Outcome::Inconclusive, Outcome::Passed]
        .into_iter()
        .flat_map(of)
        .collect()
}

struct Page<'a> {
    summary: &'a Summary,
    columns: usize,
}

/// How many rows each table of a probe shows.
#[derive(Debug, Clone, Copy)]
struct Rows {
    series: usize,
    loads: usize,
    has_ladder: bool,
}

/// Returns the sampling gap of the probe with the shortest period; `None` if no probe has a period.
pub(crate) fn sampling_gap(summary: &Summary) -> Option<String> {
    let periods = summary
        .probes
        .iter()
        .filter(|probe| !probe.has_no_period && probe.period_ns.get() > 0);
    let period = periods.map(|probe| probe.period_ns).min()?;
    Some(format!(
        "sampling gap {0}: a delay can be {0} longer than shown, or unseen if below {0}",
        period.exact()
    ))
}

/// Returns how the run ended, or that it is still in progress, as a suffix of the first line.
pub(crate) fn ending_of(summary: &Summary) -> &'static str {
    let is_under_way = summary
        .warnings
        .iter()
        .any(|warning| matches!(warning, Warning::UnderWay { .. }));
    if is_under_way {
        ", UNDER WAY"
    } else {
        ending(summary.state)
    }
}

/// Returns how a run ended, as a suffix; empty if it is complete.
pub(crate) fn ending(state: State) -> &'static str {
    match state {
        State::Finished => "",
        State::Running => ", CUT OFF",
        State::Interrupted => ", interrupted",
        State::Stopped => ", stopped at a latency above the limit",
        State::EndedByWatchdog => ", stopped by the watchdog",
    }
}

impl Page<'_> {
    fn sentence(&self, out: &mut String, indent: usize, text: &str) {
        push_wrapped(out, text, self.columns, (indent, indent + 2));
    }

    fn series_of(&self, probe: &ProbeSummary) -> Vec<&SeriesSummary> {
        self.summary
            .series
            .iter()
            .filter(|series| series.probe == probe.probe)
            .collect()
    }

    /// Returns the first lines: the measured quantity, the result, and the worst load.
    fn head(&self) -> String {
        let summary = self.summary;
        let mut out = String::new();
        let probes: Vec<String> = summary
            .probes
            .iter()
            .map(|probe| named(summary, probe))
            .collect();
        let cpus = if summary.measured_cpus.is_empty() {
            String::new()
        } else {
            format!(" on {}", summary.measured_cpus.named())
        };
        let length = if summary.measured_ns.get() > 0 {
            format!("{} measured", summary.measured_ns)
        } else {
            "length not known".to_owned()
        };
        let state = ending_of(summary);
        self.sentence(
            &mut out,
            0,
            &format!(
                "{}: {}{cpus}, {length}{state}",
                summary.run,
                probes.join(", ")
            ),
        );
        for sentence in labels_and_defaults(summary) {
            self.sentence(&mut out, 0, &sentence);
        }
        for (outcome, sentence) in verdict_lines(summary) {
            self.sentence(
                &mut out,
                0,
                &format!(
                    "{}: {}",
                    word(outcome),
                    words::without_warnings(&sentence, &summary.warnings)
                ),
            );
        }
        for probe in &summary.probes {
            let of = if summary.probes.len() > 1 {
                format!("{}: ", probe.probe)
            } else {
                String::new()
            };
            let Some(ladder) = &probe.ladder else {
                continue;
            };
            let largest = words::largest(summary, probe);
            // The bounds of several probes would fill the screen, so they are left out.
            let bounds = if summary.probes.len() == 1 {
                ladder_text::smallest(ladder)
            } else {
                Vec::new()
            };
            for sentence in largest.into_iter().chain(bounds) {
                self.sentence(&mut out, 0, &format!("{of}{sentence}"));
            }
        }
        if let [probe] = summary.probes.as_slice()
            && probe.ladder.is_none()
            && let Some(worst) = worst_load(summary, &probe.probe)
        {
            self.sentence(&mut out, 0, &worst);
        }
        if let Some(marks) = marks(summary) {
            self.sentence(&mut out, 0, &marks);
        }
        out
    }

    /// Writes whole warnings in at most `lines` lines. The first warning is always written.
    fn warnings(&self, out: &mut String, lines: usize) {
        let mut taken = String::new();
        for (place, warning) in self.summary.warnings.iter().enumerate() {
            let before = taken.len();
            self.sentence(&mut taken, 0, &warning.line());
            if place > 0 && taken.lines().count() > lines {
                taken.truncate(before);
                let left = &self.summary.warnings[place..];
                let plural = if left.len() == 1 { "" } else { "s" };
                let rest = match left.iter().filter(|warning| !warning.is_note()).count() {
                    0 => format!("note: and {} more note{plural}", left.len()),
                    warnings if warnings == left.len() => {
                        format!("! and {warnings} more warning{plural}")
                    }
                    _ => format!("! and {} more warnings and notes", left.len()),
                };
                self.sentence(&mut taken, 0, &format!("{rest}: see --full"));
                break;
            }
        }
        out.push_str(&taken);
    }

    /// Writes as much of the only probe's tables as fits `left` lines, and its histogram if there
    /// is space.
    fn one_probe(
        &self,
        out: &mut String,
        probe: &ProbeSummary,
        left: usize,
        histogram: impl Fn(&ProbeSummary, usize) -> String,
    ) {
        let series = self.series_of(probe);
        let draw = |rows: Rows| self.tables(probe, &series, rows);
        let fits = |rows: Rows| draw(rows).lines().count() <= left;
        let loads = tables::load_rows(self.summary);
        let mut rows = self.least_rows(&series);
        // Distributes the remaining lines among the tables, the most important first. A line that
        // states how many rows were omitted is only worthwhile if it replaces at least two rows.
        // Each row takes a line, so a table never gets more rows than there are lines.
        let more_loads = |rows: Rows, most: usize| {
            (rows.loads..=loads.min(most).min(left))
                .rev()
                .map(move |loads| Rows { loads, ..rows })
        };
        let more_series = |rows: Rows, most: usize| {
            (rows.series..=series.len().min(most).min(left))
                .rev()
                .map(move |series| Rows { series, ..rows })
        };
        rows = more_loads(rows, 5)
            .find(|rows| fits(*rows))
            .unwrap_or(Rows { loads: 0, ..rows });
        rows = more_series(rows, 2)
            .find(|rows| fits(*rows))
            .unwrap_or(rows);
        rows = more_loads(rows, usize::MAX)
            .find(|rows| fits(*rows))
            .unwrap_or(rows);
        rows = Some(Rows {
            has_ladder: true,
            ..rows
        })
        .filter(|rows| fits(*rows))
        .unwrap_or(rows);
        rows = more_series(rows, usize::MAX)
            .find(|rows| fits(*rows))
            .unwrap_or(rows);
        let drawn = draw(rows);
        let room = left.saturating_sub(drawn.lines().count());
        out.push_str(&drawn);
        if room > *HISTOGRAM_LINES.start() {
            out.push_str(&histogram(probe, (room - 1).min(*HISTOGRAM_LINES.end())));
        }
    }

    /// Returns the tables with only the rows that are always shown.
    fn least(&self) -> String {
        match self.summary.probes.as_slice() {
            [probe] => {
                let series = self.series_of(probe);
                self.tables(probe, &series, self.least_rows(&series))
            }
            _ => tables::probes(self.summary).text(),
        }
    }

    fn least_rows(&self, series: &[&SeriesSummary]) -> Rows {
        Rows {
            series: if series.len() <= 2 { series.len() } else { 1 },
            loads: tables::load_rows(self.summary).min(3),
            has_ladder: false,
        }
    }

    fn tables(&self, probe: &ProbeSummary, series: &[&SeriesSummary], rows: Rows) -> String {
        let summary = self.summary;
        let mut out = String::new();
        match tables::latencies(summary, probe, series, rows.series) {
            Some(table) => out.push_str(&table.chosen(self.columns, tables::IMPORTANCE)),
            None => self.sentence(&mut out, 0, &format!("{}: no sample", probe.probe)),
        }
        self.notes(&mut out, probe, false);
        self.about_series(&mut out, &series[..series.len().min(2)]);
        if let Some(ladder) = probe
            .ladder
            .as_ref()
            .filter(|ladder| rows.has_ladder && !ladder.rungs.is_empty())
        {
            out.push_str(
                &ladder_text::table(ladder, &probe.probe, false).chosen(self.columns, &[]),
            );
        }
        if let Some(table) = tables::loads(summary, rows.loads) {
            out.push_str(&table.chosen(self.columns, tables::IMPORTANCE_OF_LOADS));
        }
        for line in summary.loads.iter().filter_map(words::small_shares) {
            self.sentence(&mut out, 2, &line);
        }
        out
    }

    /// Writes a row for each probe, and a row for each of the worst loads. A load's row has the
    /// largest value of each probe under this load.
    fn several_probes(&self, out: &mut String, left: usize) {
        let probes = tables::probes(self.summary).chosen(self.columns, tables::IMPORTANCE);
        let loads = |rows: usize| {
            tables::maxima(self.summary, rows)
                .map(|table| table.chosen(self.columns, &[]))
                .unwrap_or_default()
        };
        let mut about = String::new();
        let worst_of = |probe: &ProbeSummary| {
            self.summary
                .series
                .iter()
                .find(|series| series.probe == probe.probe)
        };
        self.about_series(
            &mut about,
            &self
                .summary
                .probes
                .iter()
                .filter_map(worst_of)
                .collect::<Vec<_>>(),
        );
        if probes.lines().count() + about.lines().count() > left {
            about.clear();
        }
        let room = left.saturating_sub(probes.lines().count() + about.lines().count());
        let all = tables::load_rows(self.summary);
        let rows = (0..=all)
            .rev()
            .find(|rows| loads(*rows).lines().count() <= room)
            .unwrap_or(0);
        out.push_str(&probes);
        out.push_str(&about);
        if rows > 1 {
            out.push_str(&loads(rows));
        }
    }

    /// Writes the explanation of `~` and of bounds. The full text also states how strongly the
    /// samples depend on each other.
    fn notes(&self, out: &mut String, probe: &ProbeSummary, is_full: bool) {
        if let Some(notes) = probe
            .numbers
            .as_ref()
            .and_then(|numbers| words::notes(numbers, is_full))
        {
            self.sentence(out, 2, &notes);
        }
    }

    /// Writes sentences about gaps, and about interval errors converted to latencies.
    fn about_series(&self, out: &mut String, series: &[&SeriesSummary]) {
        for series in series {
            for line in words::fitted(series).into_iter().chain(words::gaps(series)) {
                self.sentence(out, 2, &line);
            }
        }
    }

    /// Returns the last lines. They state the next step, the sampling gap and the machine, or only
    /// the first `parts` of these three. Grave settings, and the decision of a run with a verdict,
    /// are always included.
    fn foot(&self, parts: usize) -> String {
        let mut out = String::new();
        if parts > 1 {
            self.sampling_gap(&mut out);
        }
        if self.summary.verdict.is_some() {
            self.decision(&mut out);
        }
        if parts > 2
            && let Some(line) = self.summary.machine.iter().find(|line| !line.is_empty())
        {
            let _ = writeln!(out, "{}", cut_at_commas(line, self.columns));
        }
        if !self.summary.grave_settings.is_empty() {
            let _ = writeln!(
                out,
                "{}",
                words::grave_line(&self.summary.grave_settings, self.columns)
            );
        }
        self.next_step(&mut out);
        out
    }

    fn decision(&self, out: &mut String) {
        if let Some(decision) = &self.summary.decision {
            self.sentence(out, 0, &decision.text);
        }
    }

    fn sampling_gap(&self, out: &mut String) {
        if let Some(words) = sampling_gap(self.summary) {
            self.sentence(out, 0, &words);
        }
    }

    /// Writes commands that show more of this run.
    fn next_step(&self, out: &mut String) {
        let run = quoted(&self.summary.run);
        let name = self
            .summary
            .run
            .trim_end_matches('/')
            .rsplit('/')
            .next()
            .filter(|name| !name.starts_with('.'))
            .unwrap_or("run");
        let mut commands = vec![format!(
            "tardy report {run} --html {}",
            quoted(&format!("{name}.html"))
        )];
        if self
            .summary
            .warnings
            .iter()
            .any(|warning| matches!(warning, Warning::Traced { .. }))
        {
            commands.insert(0, format!("tardy explain {run}"));
        }
        commands.push(format!("tardy show {run} --full"));
        let _ = writeln!(out, "next: {}", commands[0]);
        for command in &commands[1..] {
            let last = out
                .trim_end_matches('\n')
                .rsplit('\n')
                .next()
                .map_or(0, |line| line.chars().count());
            out.pop();
            let separator = if last + 3 + command.chars().count() > self.columns {
                "\n      "
            } else {
                " | "
            };
            let _ = writeln!(out, "{separator}{command}");
        }
    }
}
