//! The conclusions of mckenney2009 as text.

use std::fmt::Write as _;

use tardy_advise::mckenney2009::Conclusions;

use super::super::table::Table;
use super::words::{crossing, time};

/// Returns the tables, curves and conclusions as text.
#[must_use]
pub fn text(found: &Conclusions) -> String {
    let mut out = format!("{}: conclusions from its published numbers\n", found.source);
    builds(&mut out, found);
    advantages(&mut out, found);
    figures(&mut out, found);
    out
}

fn builds(out: &mut String, found: &Conclusions) {
    let mut table = Table::new([
        "kernel build, s",
        "average",
        "printed",
        "standard deviation",
        "printed",
    ]);
    for row in &found.builds {
        let build = &row.published;
        let name = format!("{} {} {}", build.year, build.kernel, build.time);
        let cells = [
            row.average_computed,
            build.average,
            row.standard_deviation_computed,
            build.standard_deviation,
        ];
        table.row(std::iter::once(name).chain(cells.map(|value| format!("{value:.1}"))));
    }
    out.push_str(&table.text());
    for cell in &found.rounded {
        let _ = writeln!(
            out,
            "  {}: {:.2} from the printed trials, but the paper prints {:.1}, computed from \
             unrounded trials",
            cell.cell, cell.computed, cell.printed
        );
    }
}

fn advantages(out: &mut String, found: &Conclusions) {
    let mut table = Table::new(["real time takes longer, %", "2008", "95 %", "2009", "95 %"]);
    for time in ["real", "user", "sys"] {
        let of_time = found.advantages.iter().filter(|row| row.time == time);
        let cells = of_time.flat_map(|row| {
            let interval = row.interval_percent.map_or_else(
                || "-".to_owned(),
                |(lower, upper)| format!("{lower:.1} to {upper:.1}"),
            );
            [format!("{:.1}", row.percent), interval]
        });
        table.row(std::iter::once(time.to_owned()).chain(cells));
    }
    out.push_str(&table.text());
}

fn figures(out: &mut String, found: &Conclusions) {
    let Some(first) = found.figures.first() else {
        return;
    };
    let _ = writeln!(
        out,
        "total delay against the length of work: a model (latency + slowed-down work), with a \
         latency of {} for the ordinary kernel (\"real fast\") and {} for the real-time kernel \
         (\"real time\")",
        time(first.latency_fast_ns.value),
        time(first.latency_real_time_ns.value)
    );
    let head = found
        .figures
        .iter()
        .enumerate()
        .map(|(index, _)| format!("real time, figure {}", index + 1));
    let mut table = Table::new(
        ["work".to_owned(), "real fast".to_owned()]
            .into_iter()
            .chain(head),
    );
    for (index, point) in first.points.iter().enumerate() {
        let of_figures = found
            .figures
            .iter()
            .map(|figure| time(figure.points[index].real_time_ns));
        table.row(
            [point.work_ns.exact(), time(point.real_fast_ns)]
                .into_iter()
                .chain(of_figures),
        );
    }
    out.push_str(&table.text());
    for figure in &found.figures {
        let _ = writeln!(
            out,
            "{}: {}",
            figure.title,
            crossing(figure.crossing, figure.slowdown.value)
        );
    }
    let mut table = Table::new([
        "crossover, ms",
        "the paper's text",
        "model",
        "real-fast latency implied by text, ms",
    ]);
    for row in &found.crossovers {
        let printed = format!("{} {:.0}", row.words, row.printed_ms);
        let cells = [
            printed,
            format!("{:.2}", row.model_ms),
            format!("{:.2}", row.latency_fast_needed_ms),
        ];
        table.row(std::iter::once(format!("{} % slower", row.slowdown_percent)).chain(cells));
    }
    out.push_str(&table.text());
    out.push_str(
        "  text and model differ: the text does not follow from the largest latencies that the \
         paper states, 3 ms and 20 us\n",
    );
}
