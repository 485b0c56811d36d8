//! The numbers that the independent reader finds in a file, in ns, and those that `tardy show
//! --json` may print for it.

use serde_json::Value;

/// Samples whose latency lies from `low` to `high`, both included.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub(super) low: i64,
    pub(super) high: i64,
    pub(super) count: u64,
}

/// One thread, or one column of a table.
#[derive(Debug, Clone)]
pub(super) struct Reading {
    pub(super) probe: &'static str,
    pub(super) cpu: usize,
    pub(super) samples: u64,
    /// Lowest and highest value that is right.
    pub(super) minimum: (i64, i64),
    pub(super) maximum: (i64, i64),
    /// From the printed value up to one of its last digit more.
    pub(super) mean: Option<(f64, f64)>,
    /// In order.
    pub(super) rows: Vec<Row>,
    /// Whether the file has a histogram; otherwise `rows` holds what follows from the extremes.
    pub(super) has_histogram: bool,
    pub(super) period: Option<i64>,
}

impl Reading {
    /// Adds `count` samples that are in no row. One is the largest; the others lie between `low` and
    /// `maximum`, whose true value is up to `width` longer.
    pub(super) fn push_beyond(&mut self, low: i64, maximum: i64, width: i64, count: u64) {
        let high = maximum + width - 1;
        let largest = u64::from(count > 0);
        for (low, count) in [(low, count - largest), (maximum, largest)] {
            if count > 0 {
                self.rows.push(Row { low, high, count });
            }
        }
    }

    /// The fewest and the most samples above a deadline.
    pub(super) fn misses(&self, deadline: i64) -> (u64, u64) {
        let count = |is_above: &dyn Fn(&Row) -> bool| {
            let above = self.rows.iter().filter(|row| is_above(row));
            above.map(|row| row.count).sum::<u64>()
        };
        let fewest = count(&|row| row.low > deadline);
        let most = count(&|row| row.high > deadline);
        // A tool may count more samples than its rows have.
        let rowless = self.samples.saturating_sub(count(&|_| true));
        (fewest, most + rowless)
    }

    /// Bounds of a quantile.
    fn quantile(&self, probability: f64) -> (i64, i64) {
        let at = |rank: u64, end: fn(&Row) -> i64| {
            let mut rows: Vec<(i64, u64)> =
                self.rows.iter().map(|row| (end(row), row.count)).collect();
            rows.sort_unstable();
            let mut seen = 0;
            let row = rows.into_iter().find(|(_, count)| {
                seen += count;
                seen >= rank
            });
            row.map(|(end, _)| end)
        };
        let rank = probability * self.samples as f64;
        let low = at((rank.floor() as u64).max(1), |row| row.low);
        let high = at((rank.ceil() as u64 + 1).min(self.samples), |row| row.high);
        // The last sample of all is the maximum, also if it is in no row.
        let is_last = rank.ceil() as u64 + 1 >= self.samples;
        let high = high.filter(|high| !is_last || *high > self.maximum.1);
        (low.unwrap_or(0), high.unwrap_or(self.maximum.1))
    }

    /// Compares a series; returns a line for each wrong figure.
    pub(super) fn differences(&self, series: &Value, deadline: i64) -> Vec<String> {
        let numbers = &series["numbers"];
        let mut found = Vec::new();
        let mut expect = |what: &str, is_right: bool, right: String, got: &Value| {
            if !is_right {
                let name = format!("{} of CPU {}", self.probe, self.cpu);
                found.push(format!("{name}: {what} is {got}, not {right}"));
            }
        };
        let integer = |name: &str| numbers[name].as_i64().unwrap_or(i64::MIN);
        let is_within = |value: i64, (low, high): (i64, i64)| (low..=high).contains(&value);
        let samples = self.samples.to_string();
        let has_samples = numbers["samples"].as_u64() == Some(self.samples);
        expect(
            "the sample count",
            has_samples,
            samples,
            &numbers["samples"],
        );
        for (what, name, right) in [
            ("the minimum", "min_ns", self.minimum),
            ("the maximum", "max_ns", self.maximum),
        ] {
            let is_right = is_within(integer(name), right);
            expect(what, is_right, format!("{right:?}"), &numbers[name]);
        }
        if let Some((low, high)) = self.mean {
            let mean = numbers["mean_ns"].as_f64().unwrap_or(f64::NAN);
            let slack = 1e-9 * high;
            let is_right = mean >= low - slack && mean <= high + slack;
            let right = format!("from {low} to {high}");
            expect("the mean", is_right, right, &numbers["mean_ns"]);
        }
        if let Some(period) = self.period {
            let got = &series["schedule"]["period_ns"];
            expect("the period", got == period, period.to_string(), got);
        }
        for percentile in numbers["percentiles"].as_array().into_iter().flatten() {
            let probability = percentile["probability"].as_f64().unwrap_or_default();
            let right = self.quantile(probability);
            let value = percentile["value_ns"].as_i64().unwrap_or(i64::MIN);
            let what = format!("the quantile {probability}");
            let right_text = format!("{right:?}");
            expect(
                &what,
                is_within(value, right),
                right_text,
                &percentile["value_ns"],
            );
        }
        let (fewest, most) = self.misses(deadline);
        let is_right = match numbers["misses"].as_u64() {
            Some(misses) => (fewest..=most).contains(&misses),
            None => fewest < most || !self.has_histogram,
        };
        let what = format!("the count above {deadline} ns");
        let right = format!("from {fewest} to {most}");
        expect(&what, is_right, right, &numbers["misses"]);
        found
    }

    /// The readings of one probe as one.
    pub(super) fn merged(readings: &[&Self]) -> Self {
        let mut all = readings[0].clone();
        all.period = None;
        let (mut low, mut high) = (0.0, 0.0);
        for reading in readings {
            let (least, most) = reading.mean.unwrap_or((0.0, f64::INFINITY));
            low += least * reading.samples as f64;
            high += most * reading.samples as f64;
        }
        for reading in &readings[1..] {
            let lower = |a: (i64, i64), b: (i64, i64)| (a.0.min(b.0), a.1.min(b.1));
            let higher = |a: (i64, i64), b: (i64, i64)| (a.0.max(b.0), a.1.max(b.1));
            all.samples += reading.samples;
            all.minimum = lower(all.minimum, reading.minimum);
            all.maximum = higher(all.maximum, reading.maximum);
            all.rows.extend(&reading.rows);
            all.has_histogram &= reading.has_histogram;
        }
        all.mean = Some((low / all.samples as f64, high / all.samples as f64));
        all
    }
}

/// The numbers of a line.
pub(super) fn numbers(text: &str) -> Vec<i64> {
    let words = text.split_whitespace();
    words.map(|word| word.parse().unwrap()).collect()
}
