use serde_json::{Value, json};
use tidings_metrics::{Kind, Metric, Unit};

/// A plot of some expressions.
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) description: String,
    /// Grafana's name of the unit.
    pub(crate) unit: &'static str,
    /// Each with the legend of its lines.
    pub(crate) expressions: Vec<(String, String)>,
}

impl Panel {
    /// The usual plot of a metric: counters as rates, histograms as percentiles, gauges as they are.
    pub(crate) fn of(metric: &'static Metric) -> Self {
        let name = metric.name;
        let labels: Vec<&str> = metric.labels.iter().map(|label| label.name).collect();
        let legend =
            |labels: &[&str]| labels.iter().map(|label| format!("{{{{{label}}}}}")).collect::<Vec<_>>().join(" ");
        let expressions = match metric.kind {
            Kind::Counter if labels.is_empty() => {
                vec![(format!("sum(rate({name}[$__rate_interval]))"), "all".to_owned())]
            }
            Kind::Counter => {
                vec![(format!("sum by ({}) (rate({name}[$__rate_interval]))", labels.join(", ")), legend(&labels))]
            }
            Kind::Gauge if metric.is_moment() => vec![(format!("{name} * 1000"), legend(&["instance"]))],
            Kind::Gauge => {
                let lines = [&["instance"], &labels[..]].concat();
                vec![(format!("max by ({}) ({name})", lines.join(", ")), legend(&lines))]
            }
            Kind::Histogram(_) if labels.is_empty() => quantiles(name).into(),
            Kind::Histogram(_) => {
                let lines = [&["le"], &labels[..]].concat().join(", ");
                let rate = format!("sum by ({lines}) (rate({name}_bucket[$__rate_interval]))");
                vec![(format!("histogram_quantile(0.99, {rate})"), format!("99 % {}", legend(&labels)))]
            }
        };
        let title = name.strip_prefix("tidings_").unwrap_or(name).trim_end_matches("_total").replace('_', " ");
        Self { title, description: metric.meaning.to_owned(), unit: unit(metric), expressions }
    }

    pub(crate) fn json(&self, id: usize, place: Value) -> Value {
        let source = json!({ "type": "prometheus", "uid": "${datasource}" });
        let targets: Vec<Value> = self
            .expressions
            .iter()
            .zip('A'..)
            .map(|((expr, legend), id)| {
                json!({ "refId": id, "datasource": source, "expr": expr, "legendFormat": legend })
            })
            .collect();
        json!({
            "id": id,
            "type": "timeseries",
            "title": self.title,
            "description": self.description,
            "datasource": source,
            "gridPos": place,
            "fieldConfig": { "defaults": { "unit": self.unit, "min": 0 }, "overrides": [] },
            "options": { "legend": { "displayMode": "list", "placement": "bottom" }, "tooltip": { "mode": "multi" } },
            "targets": targets,
        })
    }
}

/// The percentiles of a histogram.
pub(crate) fn quantiles(name: &str) -> [(String, String); 3] {
    [("0.5", "50 %"), ("0.9", "90 %"), ("0.99", "99 %")].map(|(quantile, legend)| {
        let rate = format!("sum by (le) (rate({name}_bucket[$__rate_interval]))");
        (format!("histogram_quantile({quantile}, {rate})"), legend.to_owned())
    })
}

fn unit(metric: &Metric) -> &'static str {
    let is_rate = metric.kind == Kind::Counter;
    match metric.unit() {
        Unit::Seconds if metric.is_moment() => "dateTimeFromNow",
        // Seconds per second are cores, or a share of time.
        Unit::Seconds if is_rate => "short",
        Unit::Seconds => "s",
        Unit::Bytes if is_rate => "Bps",
        Unit::Bytes => "bytes",
        Unit::Ratio => "percentunit",
        Unit::Count if is_rate => "ops",
        Unit::Count => "short",
    }
}
