use anyhow::ensure;
use serde::Deserialize;

/// The comparable results of one run of a load.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct BenchSample(pub(super) Vec<Measure>);

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Measure {
    /// The name with its unit.
    pub(super) name: String,
    pub(super) value: f64,
    pub(super) better: Better,
}

/// Which of two values is the better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Better {
    More,
    Less,
}

/// The report of `tidings load --json`.
#[derive(Deserialize)]
struct BenchReport {
    figures: Vec<BenchFigure>,
    latencies: Vec<Latency>,
    integrity: BenchIntegrity,
    server: Option<BenchServer>,
}

#[derive(Deserialize)]
struct BenchFigure {
    name: String,
    value: f64,
    unit: String,
}

#[derive(Deserialize)]
struct Latency {
    name: String,
    count: u64,
    /// Share of all, and milliseconds.
    quantiles: Vec<(f64, f64)>,
}

#[derive(Deserialize)]
struct BenchIntegrity {
    lost: u64,
    doubled: u64,
    reordered: u64,
}

#[derive(Deserialize)]
struct BenchServer {
    memory_kib: f64,
}

/// The compared quantiles: the median, and the tail as far as a run of seconds can measure it.
const QUANTILES: [(f64, &str); 2] = [(0.5, "p50"), (0.99, "p99")];

impl BenchSample {
    /// Reads a report. The report of a load with integrity violations is an error, because its figures are not valid.
    pub(super) fn read(json: &[u8]) -> anyhow::Result<Self> {
        let BenchReport { figures, latencies, integrity, server } = serde_json::from_slice(json)?;
        let BenchIntegrity { lost, doubled, reordered } = integrity;
        ensure!(lost + doubled + reordered == 0, "lost {lost}, doubled {doubled}, reordered {reordered}");
        let mut measures: Vec<Measure> = figures.into_iter().filter_map(BenchFigure::measure).collect();
        // A latency without samples has quantiles of zero, which are not times.
        measures.extend(latencies.iter().filter(|latency| latency.count > 0).flat_map(Latency::measures));
        measures.extend(server.map(|server| Measure {
            name: "server memory, MiB".to_owned(),
            value: server.memory_kib / 1024.0,
            better: Better::Less,
        }));
        Ok(Self(measures))
    }
}

impl BenchFigure {
    /// The comparable form of a figure. Other units are counts or ratios, for which neither direction is better.
    fn measure(self) -> Option<Measure> {
        let Self { name, value, unit } = self;
        let better = match unit.as_str() {
            "s" | "ms" | "us" | "KiB" | "MiB" => Better::Less,
            rate if rate.ends_with("/s") => Better::More,
            _ => return None,
        };
        Some(Measure { name: format!("{name}, {unit}"), value, better })
    }
}

impl Latency {
    fn measures(&self) -> impl Iterator<Item = Measure> {
        let measure = |(quantile, label)| {
            let (_, milliseconds) = self.quantiles.iter().find(|(q, _)| *q == quantile)?;
            Some(Measure { name: format!("{} {label}, ms", self.name), value: *milliseconds, better: Better::Less })
        };
        QUANTILES.into_iter().filter_map(measure)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn report() -> Value {
        json!({
            "workload": "pairs",
            "figures": [
                { "name": "messages delivered", "value": 15000.0, "unit": "msg/s" },
                { "name": "messages delivered per server core-second", "value": 13000.0, "unit": "msg/s" },
                { "name": "sends refused", "value": 3.0, "unit": "" },
                { "name": "server memory after", "value": 70.5, "unit": "MiB" },
            ],
            "latencies": [
                { "name": "send to ack", "count": 100, "quantiles": [[0.5, 5.8], [0.95, 12.0], [0.99, 19.0]] },
                { "name": "never", "count": 0, "quantiles": [[0.5, 0.0], [0.99, 0.0]] },
            ],
            "integrity": { "lost": 0, "doubled": 0, "reordered": 0 },
            "server": { "cpu_seconds": 11.0, "memory_kib": 40960 },
            "store": null,
        })
    }

    fn read(report: &Value) -> anyhow::Result<BenchSample> {
        BenchSample::read(report.to_string().as_bytes())
    }

    #[test]
    fn of_a_report_rates_times_and_memory_are_compared() {
        let expected = [
            ("messages delivered, msg/s", 15000.0, Better::More),
            ("messages delivered per server core-second, msg/s", 13000.0, Better::More),
            ("server memory after, MiB", 70.5, Better::Less),
            ("send to ack p50, ms", 5.8, Better::Less),
            ("send to ack p99, ms", 19.0, Better::Less),
            ("server memory, MiB", 40.0, Better::Less),
        ];
        let expected = expected.map(|(name, value, better)| Measure { name: name.to_owned(), value, better }).to_vec();
        assert_eq!(read(&report()).unwrap(), BenchSample(expected));
    }

    #[test]
    fn a_load_that_was_not_sound_counts_for_nothing() {
        for what in ["lost", "doubled", "reordered"] {
            let mut report = report();
            report["integrity"][what] = json!(2);
            let refusal = read(&report).unwrap_err().to_string();
            assert!(refusal.contains(&format!("{what} 2")), "{refusal}");
        }
    }

    #[test]
    fn a_server_that_is_not_known_has_no_memory() {
        let mut report = report();
        report["server"] = Value::Null;
        let BenchSample(measures) = read(&report).unwrap();
        assert!(measures.iter().all(|measure| measure.name != "server memory, MiB"));
    }

    #[test]
    fn an_invalid_report_is_refused() {
        assert!(BenchSample::read(b"{}").is_err());
        assert!(BenchSample::read(b"the server did not start").is_err());
    }
}
