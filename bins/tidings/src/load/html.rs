use std::fmt::Write;

use super::report::{LatencyRow, Report, grouped, whole};

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 240.0;
const MARGIN: f64 = 48.0;
/// Tells the lines of a plot apart, in light and in dark.
const COLOURS: [&str; 6] = ["#2f6fde", "#d9822b", "#2a9d6f", "#b23a8e", "#7a6ff0", "#8a8f98"];

/// The report as one page that needs nothing else.
pub(super) fn page(report: &Report) -> String {
    let mut figures = String::new();
    for figure in &report.figures {
        row(&mut figures, &[&figure.name, &grouped(figure.value), figure.unit]);
    }
    let mut latencies = String::new();
    for latency in &report.latencies {
        let cells = [0.5, 0.95, 0.99, 0.999].map(|quantile| format!("{:.2}", latency.milliseconds(quantile)));
        row(&mut latencies, &[&latency.name, &latency.count.to_string(), &cells[0], &cells[1], &cells[2], &cells[3]]);
    }
    if let Some(server) = &report.server {
        row(&mut figures, &["server CPU", &grouped(server.cpu_seconds), "s"]);
        row(&mut figures, &["server memory", &grouped(server.memory_kib as f64 / 1024.0), "MiB"]);
        if let Some(commits) = &server.commits {
            row(&mut figures, &["commits of the store", &whole(commits.count), ""]);
            row(&mut figures, &["commit, median", &grouped(commits.median_ms), "ms"]);
            row(&mut figures, &["commits over ten medians", &whole(commits.long), ""]);
            let longest = commits.longest_ms.map_or_else(|| "over all buckets".to_owned(), grouped);
            row(&mut figures, &["longest commit, at most", &longest, "ms"]);
        }
    }
    if let Some(store) = &report.store {
        row(&mut figures, &["the store alone", &grouped(store.store_sends_per_second), "sends/s"]);
        row(&mut figures, &["append and fdatasync alone", &grouped(store.raw_sends_per_second), "sends/s"]);
    }
    let integrity = report.integrity;
    let (verdict, class) = if integrity.is_sound() { ("sound", "good") } else { ("DAMAGED", "bad") };
    format!(
        r#"<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>tidings load: {setup}</title>
<style>
:root {{ color-scheme: light dark; --ink: #1c2024; --paper: #ffffff; --line: #d5d9de; --good: #1a7f4b; --bad: #c62828; }}
@media (prefers-color-scheme: dark) {{ :root {{ --ink: #e6e8ea; --paper: #14171a; --line: #363c43; --good: #4cc38a; --bad: #ff6b6b; }} }}
body {{ font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 720px; margin: 2rem auto; padding: 0 1rem; }}
h1 {{ font-size: 1.3rem; }} h2 {{ font-size: 1.05rem; margin-top: 2rem; }}
table {{ border-collapse: collapse; width: 100%; }} td, th {{ padding: .25rem .5rem; border-bottom: 1px solid var(--line); text-align: right; }}
td:first-child, th:first-child {{ text-align: left; }} .good {{ color: var(--good); }} .bad {{ color: var(--bad); }}
svg {{ width: 100%; height: auto; }} svg text {{ fill: var(--ink); font: 11px system-ui, sans-serif; }} .axis {{ stroke: var(--line); fill: none; }}
</style></head><body>
<h1>{setup}</h1>
<p>{durability}, measured for {seconds:.1} s. <strong class="{class}">{verdict}</strong>: lost {lost}, doubled {doubled}, reordered {reordered}.</p>
<p><code>{command}</code></p>
<table>{figures}</table>
<h2>Latency</h2>
<table><tr><th>ms</th><th>count</th><th>p50</th><th>p95</th><th>p99</th><th>p99.9</th></tr>{latencies}</table>
{percentiles}
<h2>Throughput</h2>
{throughput}
</body></html>
"#,
        setup = escape(&report.setup),
        command = escape(&report.command),
        durability = escape(report.durability),
        seconds = report.seconds,
        lost = integrity.lost,
        doubled = integrity.doubled,
        reordered = integrity.reordered,
        percentiles = percentile_plot(&report.latencies),
        throughput = throughput_plot(&report.timeline),
    )
}

fn row(table: &mut String, cells: &[&str]) {
    table.push_str("<tr>");
    for cell in cells {
        push(table, format_args!("<td>{}</td>", escape(cell)));
    }
    table.push_str("</tr>");
}

/// Milliseconds over percentiles, both in nines and in tens, so that the tail has as much room as the middle.
fn percentile_plot(rows: &[LatencyRow]) -> String {
    let rows: Vec<&LatencyRow> = rows.iter().filter(|row| row.count > 0).collect();
    let milliseconds = || rows.iter().flat_map(|row| row.quantiles.iter().map(|(_, ms)| ms.max(0.001)));
    let (low, high) = milliseconds().fold((f64::MAX, f64::MIN), |(low, high), ms| (low.min(ms), high.max(ms)));
    if rows.is_empty() {
        return String::new();
    }
    let (bottom, top) = (low.log10().floor(), high.log10().ceil().max(low.log10().floor() + 1.0));
    let x = |quantile: f64| scale(-(1.0 - quantile).log10(), (0.3, 4.0), (MARGIN, WIDTH - 24.0));
    let y = |ms: f64| scale(ms.max(0.001).log10(), (bottom, top), (HEIGHT - MARGIN, 16.0));
    let mut plot = String::new();
    for power in bottom as i32..=top as i32 {
        let (ms, y) = (10f64.powi(power), y(10f64.powi(power)));
        push(&mut plot, format_args!(r#"<path class="axis" d="M{MARGIN} {y:.1}H{WIDTH}"/>"#));
        push(
            &mut plot,
            format_args!(r#"<text x="{}" y="{:.1}" text-anchor="end">{ms} ms</text>"#, MARGIN - 4.0, y + 4.0),
        );
    }
    for (quantile, name) in [(0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9"), (0.9999, "p99.99")] {
        let (x, y) = (x(quantile), HEIGHT - MARGIN + 16.0);
        push(&mut plot, format_args!(r#"<text x="{x:.1}" y="{y:.1}" text-anchor="middle">{name}</text>"#));
    }
    for (n, row) in rows.iter().enumerate() {
        let colour = COLOURS[n % COLOURS.len()];
        let points: Vec<String> = row.quantiles.iter().map(|(q, ms)| format!("{:.1},{:.1}", x(*q), y(*ms))).collect();
        push(
            &mut plot,
            format_args!(r#"<polyline points="{}" fill="none" stroke="{colour}" stroke-width="2"/>"#, points.join(" ")),
        );
        let x = MARGIN + 110.0 * n as f64;
        push(
            &mut plot,
            format_args!(r#"<text x="{x}" y="{:.1}" style="fill:{colour}">{}</text>"#, HEIGHT - 8.0, escape(&row.name)),
        );
    }
    svg(&plot)
}

/// Things done in each second.
fn throughput_plot(timeline: &[u64]) -> String {
    let Some(most) = timeline.iter().copied().max().filter(|most| *most > 0) else { return String::new() };
    let step = (WIDTH - MARGIN - 16.0) / timeline.len() as f64;
    let mut plot = String::new();
    for (n, done) in timeline.iter().enumerate() {
        let top = scale(*done as f64, (0.0, most as f64), (HEIGHT - MARGIN, 16.0));
        let (x, width, height) = (MARGIN + step * n as f64, step * 0.9, HEIGHT - MARGIN - top);
        let bar =
            format!(r#"<rect x="{x:.1}" y="{top:.1}" width="{width:.1}" height="{height:.1}" fill="{}"/>"#, COLOURS[0]);
        plot.push_str(&bar);
    }
    let most = grouped(most as f64);
    push(&mut plot, format_args!(r#"<text x="{}" y="20" text-anchor="end">{most}</text>"#, MARGIN - 4.0));
    let below = HEIGHT - MARGIN + 16.0;
    push(&mut plot, format_args!(r#"<text x="{MARGIN}" y="{below}">0 s</text>"#));
    let end = WIDTH - 16.0;
    push(&mut plot, format_args!(r#"<text x="{end}" y="{below}" text-anchor="end">{} s</text>"#, timeline.len()));
    svg(&plot)
}

fn svg(content: &str) -> String {
    format!(r#"<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">{content}</svg>"#)
}

/// Maps a value from one range to another.
fn scale(value: f64, (from_low, from_high): (f64, f64), (to_low, to_high): (f64, f64)) -> f64 {
    to_low + (value - from_low) / (from_high - from_low) * (to_high - to_low)
}

fn push(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    text.write_fmt(arguments).expect("a string takes any text");
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
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
        let mut report = Report::new(Workload::Pairs, "<pairs>".to_owned(), 10.0);
        report.rate("messages", 1000, "msg/s");
        report.latency("send to ack", &latencies);
        report.timeline = vec![90, 110, 100];
        let page = page(&report);
        for part in
            ["&lt;pairs&gt;", "<td>messages</td><td>100</td>", "<polyline", "<rect", "prefers-color-scheme: dark"]
        {
            assert!(page.contains(part), "{part}");
        }
        assert!(!page.contains("http"), "nothing is loaded from elsewhere");
        assert!(!page.contains("NaN") && !page.contains("inf"), "every point is on the page");
    }

    #[test]
    fn an_empty_report_is_a_page_too() {
        let page = page(&Report::new(Workload::Idle, "idle".to_owned(), 1.0));
        assert!(page.contains("sound") && !page.contains("NaN"));
    }
}
