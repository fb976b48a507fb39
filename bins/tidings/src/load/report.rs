use std::fmt;

use serde::Serialize;
use tidings_metrics::HistogramBuckets;

use super::Workload;
use super::measure::Latencies;
use super::order::IntegrityViolations;

/// The results of a load.
#[derive(Debug, Serialize)]
pub(super) struct LoadReport {
    pub(super) workload: Workload,
    /// The setup, in words.
    pub(super) setup: String,
    /// The version and the command that reproduce it.
    pub(super) command: String,
    pub(super) durability: &'static str,
    pub(super) seconds: f64,
    /// Sends in flight in all chats together.
    pub(super) in_flight: usize,
    pub(super) figures: Vec<ReportFigure>,
    pub(super) latencies: Vec<LatencyRow>,
    /// Operations completed in each second of the window.
    pub(super) timeline: Vec<u64>,
    pub(super) integrity: IntegrityViolations,
    pub(super) server: Option<ServerFigures>,
    pub(super) store: Option<StoreFigures>,
}

#[derive(Debug, Serialize)]
pub(super) struct ReportFigure {
    pub(super) name: String,
    pub(super) value: f64,
    pub(super) unit: &'static str,
}

#[derive(Debug, Serialize)]
pub(super) struct LatencyRow {
    pub(super) name: String,
    pub(super) count: u64,
    /// Quantile, and its latency in milliseconds.
    pub(super) quantiles: Vec<(f64, f64)>,
}

/// Resources that the server used in the window.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct ServerFigures {
    pub(super) cpu_seconds: f64,
    pub(super) memory_kib: u64,
    /// Absent if there were no commits, or no metrics to read.
    pub(super) commits: Option<CommitFigures>,
}

/// Latency of store commits, fsync included. The server counts in buckets, so these figures are upper bounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct CommitFigures {
    pub(super) count: u64,
    pub(super) median_ms: f64,
    /// Commits that took more than ten times the median.
    pub(super) long: u64,
    /// Upper bound of the longest commit; absent if it exceeds the largest bucket.
    pub(super) longest_ms: Option<f64>,
}

impl CommitFigures {
    pub(super) fn of(commits: &HistogramBuckets) -> Option<Self> {
        let median = commits.quantile(0.5)?;
        Some(Self {
            count: commits.count() as u64,
            median_ms: median * 1e3,
            long: commits.above(10.0 * median) as u64,
            longest_ms: commits.greatest().filter(|bound| bound.is_finite()).map(|bound| bound * 1e3),
        })
    }
}

impl fmt::Display for CommitFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, median_ms, long, longest_ms } = *self;
        write!(f, "{} commits, median {median_ms:.2} ms, {} over ten times that", whole(count), whole(long))?;
        match longest_ms {
            Some(longest_ms) => write!(f, ", none over {longest_ms} ms"),
            None => write!(f, ", the longest over all buckets"),
        }
    }
}

/// Throughput of the store alone and of the disk alone, with as many sends in flight.
#[derive(Debug, Serialize)]
pub(super) struct StoreFigures {
    pub(super) in_flight: usize,
    pub(super) store_sends_per_second: f64,
    pub(super) raw_sends_per_second: f64,
}

/// The durability class of the embedded store, which every server uses.
const DURABILITY: &str = "D2: fsynced before the ack";
/// Column width for names of figures, unless one is longer.
const FIGURE_WIDTH: usize = 44;
const QUANTILES: [f64; 7] = [0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999];

impl LoadReport {
    pub(super) fn new(workload: Workload, setup: String, seconds: f64) -> Self {
        Self {
            workload,
            setup,
            command: String::new(),
            durability: DURABILITY,
            seconds,
            in_flight: 1,
            figures: Vec::new(),
            latencies: Vec::new(),
            timeline: Vec::new(),
            integrity: IntegrityViolations::default(),
            server: None,
            store: None,
        }
    }

    pub(super) fn figure(&mut self, name: impl Into<String>, value: f64, unit: &'static str) {
        self.figures.push(ReportFigure { name: name.into(), value, unit });
    }

    /// Adds a rate: per second of the window, and per CPU second of the server.
    pub(super) fn rate(&mut self, name: &str, count: u64, unit: &'static str) {
        self.figure(name, count as f64 / self.seconds, unit);
        if let Some(server) = self.server
            && server.cpu_seconds > 0.0
        {
            self.figure(format!("{name} per server core-second"), count as f64 / server.cpu_seconds, unit);
        }
    }

    /// Adds the server memory per connection, from KiB before and after.
    pub(super) fn server_memory(&mut self, before: u64, after: u64, connections: usize) {
        self.figure("server memory per connection", after.saturating_sub(before) as f64 / connections as f64, "KiB");
        self.figure("server memory before", before as f64 / 1024.0, "MiB");
        self.figure("server memory after", after as f64 / 1024.0, "MiB");
    }

    pub(super) fn latency(&mut self, name: impl Into<String>, latencies: &Latencies) {
        let quantile = |q| (q, latencies.quantile(q).as_secs_f64() * 1e3);
        let quantiles = QUANTILES.into_iter().map(quantile).collect();
        self.latencies.push(LatencyRow { name: name.into(), count: latencies.count(), quantiles });
    }
}

impl LatencyRow {
    pub(super) fn milliseconds(&self, quantile: f64) -> f64 {
        self.quantiles.iter().find(|(q, _)| *q == quantile).map_or(0.0, |(_, milliseconds)| *milliseconds)
    }
}

impl fmt::Display for LoadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.setup)?;
        writeln!(f, "{}, measured for {:.1} s", self.durability, self.seconds)?;
        writeln!(f, "{}\n", self.command)?;
        let width = self.figures.iter().map(|figure| figure.name.len()).max().unwrap_or(0).max(FIGURE_WIDTH);
        for ReportFigure { name, value, unit } in &self.figures {
            writeln!(f, "{name:<width$} {:>12} {unit}", grouped(*value))?;
        }
        if !self.latencies.is_empty() {
            writeln!(f, "\n{:<28} {:>10} {:>9} {:>9} {:>9}", "ms", "count", "p50", "p95", "p99")?;
        }
        for row in &self.latencies {
            let [p50, p95, p99] = [0.5, 0.95, 0.99].map(|quantile| row.milliseconds(quantile));
            writeln!(f, "{:<28} {:>10} {p50:>9.2} {p95:>9.2} {p99:>9.2}", row.name, row.count)?;
        }
        if let Some(server) = &self.server {
            let memory = server.memory_kib as f64 / 1024.0;
            writeln!(f, "\nserver: {:.2} CPU seconds, {memory:.0} MiB", server.cpu_seconds)?;
            if let Some(commits) = &server.commits {
                writeln!(f, "store: {commits}")?;
            }
        }
        if let Some(store) = &self.store {
            writeln!(f, "\nwith {} sends in flight, in the same directory:", store.in_flight)?;
            writeln!(f, "{:<width$} {:>12} sends/s", "the store alone", grouped(store.store_sends_per_second))?;
            writeln!(
                f,
                "{:<width$} {:>12} sends/s",
                "append and fdatasync alone",
                grouped(store.raw_sends_per_second)
            )?;
        }
        let IntegrityViolations { lost, doubled, reordered } = self.integrity;
        writeln!(f, "\nlost {lost}, doubled {doubled}, reordered {reordered}")
    }
}

/// A readable number: an integer in groups of three, or with two decimals if it is small.
pub(super) fn grouped(value: f64) -> String {
    if value.abs() < 100.0 {
        return format!("{value:.2}");
    }
    let text = whole(value.abs().round() as u64);
    if value < 0.0 { format!("-{text}") } else { text }
}

/// An integer in groups of three.
pub(super) fn whole(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use expect_test::expect;
    use tidings_metrics::Scrape;

    use super::*;

    #[test]
    fn numbers_are_grouped_for_reading() {
        for (value, text) in
            [(0.0, "0.00"), (99.5, "99.50"), (100.0, "100"), (1234567.8, "1,234,568"), (-1000.0, "-1,000")]
        {
            assert_eq!(grouped(value), text);
        }
    }

    #[test]
    fn long_commits_take_ten_medians_or_more() {
        let commits = "took_bucket{le=\"0.001\"} 80\ntook_bucket{le=\"0.005\"} 95\ntook_bucket{le=\"0.01\"} 98\n";
        let and_all = |all: u32| Scrape::of(&format!("{commits}took_bucket{{le=\"+Inf\"}} {all}")).buckets("took");
        let expected = CommitFigures { count: 98, median_ms: 0.6125, long: 3, longest_ms: Some(10.0) };
        assert_eq!(CommitFigures::of(&and_all(98)), Some(expected));
        let figures = CommitFigures::of(&and_all(99)).unwrap();
        assert_eq!((figures.long, figures.longest_ms), (4, None));
        assert_eq!(CommitFigures::of(&HistogramBuckets::default()), None);
    }

    #[test]
    fn a_report_for_people() {
        let mut latencies = Latencies::default();
        (1..=100).for_each(|n| latencies.record(Duration::from_millis(n)));
        let mut report = LoadReport::new(Workload::Pairs, "100 direct chats, 1 in flight in each".to_owned(), 10.0);
        let commits = CommitFigures { count: 12_345, median_ms: 0.456, long: 7, longest_ms: Some(25.0) };
        report.server = Some(ServerFigures { cpu_seconds: 5.0, memory_kib: 40 * 1024, commits: Some(commits) });
        report.rate("messages delivered", 50_000, "msg/s");
        report.latency("send to ack", &latencies);
        report.integrity.lost = 1;
        expect![[r#"
            100 direct chats, 1 in flight in each
            D2: fsynced before the ack, measured for 10.0 s


            messages delivered                                  5,000 msg/s
            messages delivered per server core-second          10,000 msg/s

            ms                                count       p50       p95       p99
            send to ack                         100     50.17     95.23     99.33

            server: 5.00 CPU seconds, 40 MiB
            store: 12,345 commits, median 0.46 ms, 7 over ten times that, none over 25 ms

            lost 1, doubled 0, reordered 0
        "#]]
        .assert_eq(&report.to_string());
    }
}
