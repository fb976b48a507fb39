use html::{COLOURS, Escaped, Page, Plot, REPORT_STYLE, row};

use super::report::{LatencyRow, LoadReport, grouped, whole};

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 240.0;

/// Renders the report as one self-contained page.
pub(super) fn page(report: &LoadReport) -> String {
    let mut figures: Vec<[String; 3]> = vec![];
    let mut figure = |name: &str, value: String, unit: &str| figures.push([name.to_owned(), value, unit.to_owned()]);
    for found in &report.figures {
        figure(&found.name, grouped(found.value), found.unit);
    }
    if let Some(server) = &report.server {
        figure("server CPU", grouped(server.cpu_seconds), "s");
        figure("server memory", grouped(server.memory_kib as f64 / 1024.0), "MiB");
        if let Some(commits) = &server.commits {
            figure("commits of the store", whole(commits.count), "");
            figure("commit, median", grouped(commits.median_ms), "ms");
            figure("commits over ten medians", whole(commits.long), "");
            let longest = commits.longest_ms.map_or_else(|| "over all buckets".to_owned(), grouped);
            figure("longest commit, at most", longest, "ms");
        }
    }
    if let Some(store) = &report.store {
        figure("the store alone", grouped(store.store_sends_per_second), "sends/s");
        figure("append and fdatasync alone", grouped(store.raw_sends_per_second), "sends/s");
    }
    let figures: String = figures.into_iter().map(row).collect();
    let latencies = report.latencies.iter().map(|latency| {
        let quantiles = [0.5, 0.95, 0.99, 0.999].map(|quantile| format!("{:.2}", latency.milliseconds(quantile)));
        row([latency.name.clone(), latency.count.to_string()].into_iter().chain(quantiles))
    });
    let latencies: String = latencies.collect();
    let integrity = report.integrity;
    let (verdict, class) = if integrity.is_sound() { ("sound", "good") } else { ("DAMAGED", "bad") };
    let body = format!(
        r#"<h1>{setup}</h1>
<p>{durability}, measured for {seconds:.1} s. <strong class="{class}">{verdict}</strong>: lost {lost}, doubled {doubled}, reordered {reordered}.</p>
<p><code>{command}</code></p>
<table>{figures}</table>
<h2>Latency</h2>
<table><tr><th>ms</th><th>count</th><th>p50</th><th>p95</th><th>p99</th><th>p99.9</th></tr>{latencies}</table>
{percentiles}
<h2>Throughput</h2>
{throughput}
"#,
        setup = Escaped(&report.setup),
        command = Escaped(&report.command),
        durability = Escaped(report.durability),
        seconds = report.seconds,
        lost = integrity.lost,
        doubled = integrity.doubled,
        reordered = integrity.reordered,
        percentiles = percentile_plot(&report.latencies),
        throughput = throughput_plot(&report.timeline),
    );
    let title = format!("tidings load: {}", report.setup);
    Page { title: &title, style: REPORT_STYLE, script: "", body: &body }.to_string()
}

/// Latency over percentiles on logarithmic axes, to give the tail as much space as the middle.
fn percentile_plot(rows: &[LatencyRow]) -> String {
    let rows: Vec<&LatencyRow> = rows.iter().filter(|row| row.count > 0).collect();
    let milliseconds = || rows.iter().flat_map(|row| row.quantiles.iter().map(|(_, ms)| ms.max(0.001)));
    let (low, high) = milliseconds().fold((f64::MAX, f64::MIN), |(low, high), ms| (low.min(ms), high.max(ms)));
    if rows.is_empty() {
        return String::new();
    }
    let (bottom, top) = (low.log10().floor(), high.log10().ceil().max(low.log10().floor() + 1.0));
    let x = |quantile: f64| share(-(1.0 - quantile).log10(), (0.3, 4.0));
    let y = |ms: f64| share(ms.max(0.001).log10(), (bottom, top));
    let mut plot = Plot::new(WIDTH, HEIGHT);
    for power in bottom as i32..=top as i32 {
        let ms = 10f64.powi(power);
        plot.line(y(ms), &format!("{ms} ms"));
    }
    for (quantile, name) in [(0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9"), (0.9999, "p99.99")] {
        plot.below(x(quantile), name);
    }
    for (n, row) in rows.iter().enumerate() {
        let colour = COLOURS[n % COLOURS.len()];
        plot.curve(row.quantiles.iter().map(|(quantile, ms)| (x(*quantile), y(*ms))), colour);
        plot.legend(n, &row.name, colour);
    }
    plot.finish("latency over percentiles")
}

/// Operations completed in each second.
fn throughput_plot(timeline: &[u64]) -> String {
    let Some(most) = timeline.iter().copied().max().filter(|most| *most > 0) else { return String::new() };
    let step = 1.0 / timeline.len() as f64;
    let mut plot = Plot::new(WIDTH, HEIGHT);
    for (n, done) in timeline.iter().enumerate() {
        plot.bar(step * n as f64, step * 0.9, *done as f64 / most as f64, COLOURS[0]);
    }
    plot.line(1.0, &grouped(most as f64));
    plot.below(0.0, "0 s");
    plot.below(1.0, &format!("{} s", timeline.len()));
    plot.finish("operations completed in each second")
}

/// The position of a value in a range, from 0 to 1.
fn share(value: f64, (low, high): (f64, f64)) -> f64 {
    (value - low) / (high - low)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::load::Workload;
    use crate::load::measure::Latencies;

    #[test]
    fn a_page_stands_alone_and_shows_every_figure() {
        let mut latencies = Latencies::default();
        (1..=1000).for_each(|n| latencies.record(Duration::from_micros(n * 100)));
        let mut report = LoadReport::new(Workload::Pairs, "<pairs>".to_owned(), 10.0);
        report.rate("messages", 1000, "msg/s");
        report.latency("send to ack", &latencies);
        report.timeline = vec![90, 110, 100];
        let page = page(&report);
        for part in
            ["&lt;pairs&gt;", "<td>messages</td><td>100</td>", "<polyline", "<rect", "prefers-color-scheme: dark"]
        {
            assert!(page.contains(part), "{part}");
        }
        assert!(!page.contains("://"), "nothing is loaded from elsewhere");
        assert!(!page.contains("NaN") && !page.contains("inf"), "every point is on the page");
    }

    #[test]
    fn an_empty_report_is_a_page_too() {
        let page = page(&LoadReport::new(Workload::Idle, "idle".to_owned(), 1.0));
        assert!(page.contains("sound") && !page.contains("NaN"));
    }
}
