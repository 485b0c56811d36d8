//! The numbers that the independent reader finds in a file, in ns, and the values that `tardy show
//! --json` may print for them.

use serde_json::Value;

/// Samples with latencies from `low` to `high`, inclusive.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub(super) low: i64,
    pub(super) high: i64,
    pub(super) count: u64,
}

/// The numbers of one thread or of one column of a table.
#[derive(Debug, Clone)]
pub(super) struct Reading {
    pub(super) probe: &'static str,
    /// `None` for the only thread of a file, if it is not bound to a CPU.
    pub(super) cpu: Option<usize>,
    pub(super) samples: u64,
    /// Lowest and highest correct value.
    pub(super) minimum: (i64, i64),
    pub(super) maximum: (i64, i64),
    /// The range in which the true mean lies. It is a range because the mean in the file is
    /// rounded.
    pub(super) mean: Option<(f64, f64)>,
    /// Rows of the histogram, in order.
    pub(super) rows: Vec<Row>,
    /// Whether the file has a histogram. Otherwise `rows` holds samples derived from the extremes.
    pub(super) has_histogram: bool,
    pub(super) period: Option<i64>,
}

impl Reading {
    /// Adds `count` samples that lie beyond the file's rows. One of these samples is the largest;
    /// the others lie between `low` and the true maximum, which is less than `width` above
    /// `maximum`.
    pub(super) fn push_beyond(&mut self, low: i64, maximum: i64, width: i64, count: u64) {
        let high = maximum + width - 1;
        let largest = u64::from(count > 0);
        for (low, count) in [(low, count - largest), (maximum, largest)] {
            if count > 0 {
                self.rows.push(Row { low, high, count });
            }
        }
    }

    /// The rows, but with one sample of the highest row in a separate row: the maximum, because its
    /// value is known.
    fn placed(&self) -> Vec<Row> {
        let mut rows = self.rows.clone();
        let maximum = self.maximum.0;
        let highest = rows
            .iter_mut()
            .filter(|row| row.count > 0)
            .max_by_key(|row| row.high);
        if let Some(row) = highest
            && row.low < maximum
            && maximum <= row.high
        {
            row.count -= 1;
            let high = row.high;
            rows.push(Row {
                low: maximum,
                high,
                count: 1,
            });
        }
        rows
    }

    /// Smallest and largest possible number of samples above a deadline.
    pub(super) fn misses(&self, deadline: i64) -> (u64, u64) {
        let rows = self.placed();
        let count = |is_above: &dyn Fn(&Row) -> bool| {
            let above = rows.iter().filter(|row| is_above(row));
            above.map(|row| row.count).sum::<u64>()
        };
        let fewest = count(&|row| row.low > deadline);
        let most = count(&|row| row.high > deadline);
        // A tool may count samples that are in no row.
        let rowless = self.samples.saturating_sub(count(&|_| true));
        (fewest, most + rowless)
    }

    /// Lowest and highest possible value of a quantile.
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
        // The sample of the highest rank is the maximum, even if it is in no row.
        let is_last = rank.ceil() as u64 + 1 >= self.samples;
        let high = high.filter(|high| !is_last || *high > self.maximum.1);
        (low.unwrap_or(0), high.unwrap_or(self.maximum.1))
    }

    pub(super) fn name(&self) -> String {
        self.cpu.map_or_else(
            || self.probe.to_owned(),
            |cpu| format!("{} of CPU {cpu}", self.probe),
        )
    }

    /// Compares this reading with the series of a run, and returns a line for each wrong figure.
    pub(super) fn differences(&self, series: &Value, deadline: i64) -> Vec<String> {
        let numbers = &series["numbers"];
        let mut found = Vec::new();
        let mut expect = |what: &str, is_right: bool, right: String, got: &Value| {
            if !is_right {
                let name = self.name();
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
        let between = &numbers["misses_between"];
        let (least, got) = match numbers["misses"].as_u64() {
            Some(misses) => (Some((misses, misses)), &numbers["misses"]),
            None => (between[0].as_u64().zip(between[1].as_u64()), between),
        };
        // If the file does not determine the number of misses, `show` may print bounds.
        let is_right = match least {
            Some((least, largest)) => least <= fewest && most <= largest,
            None => !self.has_histogram,
        };
        let what = format!("the count above {deadline} ns");
        let right = format!("from {fewest} to {most}");
        expect(&what, is_right, right, got);
        found
    }

    /// Checks the verdict on a deadline: it must follow from the smallest and the largest possible
    /// number of misses.
    pub(super) fn against_verdict(&self, verdict: &Value, deadline: i64) -> Vec<String> {
        let (fewest, most) = self.misses(deadline);
        let evidence = &verdict["evidence"];
        let least = evidence["misses"].as_u64().unwrap_or(u64::MAX);
        let undecided = evidence["misses_undecided"].as_u64().unwrap_or(0);
        let is_possible = match verdict["outcome"].as_str() {
            Some("passed") => most == 0,
            Some("failed") => fewest > 0,
            // Even if no sample can be a miss, the verdict may be inconclusive, because the tool
            // may not have counted the skipped periods, for example.
            Some("inconclusive") => fewest == 0,
            _ => false,
        };
        let holds = least <= fewest && most <= least.saturating_add(undecided);
        let mut found = Vec::new();
        if !is_possible || !holds {
            found.push(format!(
                "{} to {} samples are above {deadline} ns, but the verdict is {} with {least} and \
                 {undecided} undecided",
                fewest, most, verdict["outcome"]
            ));
        }
        found
    }

    /// Checks the output of `tardy compare --json` with this reading as the base and `new` as the
    /// other side: each verdict on a quantile or the maximum must be possible with the numbers in
    /// the files.
    pub(super) fn against_comparison(&self, new: &Self, table: &Value) -> Vec<String> {
        let mut found = Vec::new();
        let mut expect =
            |what: &str, base: (i64, i64), new: (i64, i64), verdict: &Value, margin: f64| {
                let (least, most) = ((new.0 - base.1) as f64, (new.1 - base.0) as f64);
                let is_possible = match verdict.as_str() {
                    Some("better") => least < -margin,
                    Some("worse") => most > margin,
                    Some("equivalent") => least <= margin && most >= -margin,
                    _ => true,
                };
                if !is_possible {
                    found.push(format!(
                        "{what} is {verdict} within {margin}, but changed by {least} to {most} ns"
                    ));
                }
            };
        for row in table["rows"].as_array().into_iter().flatten() {
            let quantile = row["quantile"].as_f64().unwrap();
            expect(
                &format!("the quantile {quantile}"),
                self.quantile(quantile),
                new.quantile(quantile),
                &row["verdict"],
                row["margin_ns"].as_f64().unwrap(),
            );
        }
        let with_rest = |(low, high): (i64, i64), reading: &Self| {
            let rows = reading.rows.iter().map(|row| row.high);
            (low, rows.max().unwrap_or(high).max(high))
        };
        expect(
            "the maximum",
            with_rest(self.maximum, self),
            with_rest(new.maximum, new),
            &table["maxima"]["verdict"],
            0.0,
        );
        found
    }

    /// Merges the readings of one probe.
    pub(super) fn merged(readings: &[&Self]) -> Self {
        let mut all = readings[0].clone();
        all.rows = readings[0].placed();
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
            all.rows.extend(reading.placed());
            all.has_histogram &= reading.has_histogram;
        }
        all.mean = Some((low / all.samples as f64, high / all.samples as f64));
        all
    }
}

/// The numbers in a line.
pub(super) fn numbers(text: &str) -> Vec<i64> {
    let words = text.split_whitespace();
    words.map(|word| word.parse().unwrap()).collect()
}

/// The greatest common divisor.
pub(super) fn divisor(one: i64, other: i64) -> i64 {
    if other == 0 {
        one
    } else {
        divisor(other, one % other)
    }
}
