use super::curve::{Curve, Mark};
use super::number::{bytes, dollars, percent, short};
use super::plan::Plan;
use super::text::{letter, push};

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 320.0;
const MARGIN: f64 = 56.0;

/// The plan as one page that needs nothing else.
pub(super) fn page(plan: &Plan, curve: &Curve) -> String {
    let (demand, one) = (&plan.demand, &plan.one_machine);
    let (verdict, class) = if one.is_enough { ("is enough", "good") } else { ("is not enough", "bad") };
    let tables = rows(plan.tables.iter().map(|table| {
        let units = [table.write_units, table.read_units].map(short);
        let [writes, reads] = units;
        vec![table.name.to_owned(), writes, reads, bytes(table.bytes), dollars(table.dollars_a_month)]
    }));
    let roles = rows(plan.processes.iter().map(|role| {
        let figures = [role.processes, role.cores, role.memory_gib].map(short);
        let [processes, cores, memory] = figures;
        vec![role.role.to_owned(), processes, cores, memory, dollars(role.dollars_a_month)]
    }));
    let limits = rows(plan.limits.iter().map(|limit| {
        vec![
            limit.name.to_owned(),
            percent(limit.used()),
            short(limit.demand),
            short(limit.capacity),
            limit.lifted_by.to_owned(),
        ]
    }));
    let (kafka, redis) = (&plan.kafka, &plan.redis);
    format!(
        r#"<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>tidings capacity: {users} users</title>
<style>
:root {{ color-scheme: light dark; --ink: #1c2024; --paper: #ffffff; --line: #d5d9de; --good: #1a7f4b; --bad: #c62828; --mark: #2f6fde; }}
@media (prefers-color-scheme: dark) {{ :root {{ --ink: #e6e8ea; --paper: #14171a; --line: #363c43; --good: #4cc38a; --bad: #ff6b6b; --mark: #6ea8ff; }} }}
body {{ font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 800px; margin: 2rem auto; padding: 0 1rem; }}
h1 {{ font-size: 1.3rem; }} h2 {{ font-size: 1.05rem; margin-top: 2rem; }}
table {{ border-collapse: collapse; width: 100%; }} td, th {{ padding: .25rem .5rem; border-bottom: 1px solid var(--line); text-align: right; vertical-align: top; }}
td:first-child, th:first-child {{ text-align: left; }} td {{ white-space: nowrap; }} .limits td:first-child, .limits td:last-child {{ text-align: left; white-space: normal; }} table + table {{ margin-top: 1.5rem; }} .good {{ color: var(--good); }} .bad {{ color: var(--bad); }}
svg {{ width: 100%; height: auto; }} svg text {{ fill: var(--ink); font: 11px system-ui, sans-serif; }}
.axis {{ stroke: var(--line); fill: none; }} .curve {{ stroke: var(--mark); fill: none; stroke-width: 2; }} .end {{ stroke: var(--bad); stroke-dasharray: 3 3; fill: none; }}
</style></head><body>
<h1>{users} users at their peak</h1>
<p>{connections} connections, {messages} messages/s, {pushes} pushes/s, {out}/s to the clients.</p>
<p>One machine <strong class="{class}">{verdict}</strong>: {used} of its {short_of} are used. A fleet from {users_max} users on.</p>
<h2>A fleet, for {month} a month</h2>
<table><tr><th>table</th><th>write units/s</th><th>read units/s</th><th>stored</th><th>a month</th></tr>{tables}</table>
<table><tr><th>role</th><th>processes</th><th>cores each</th><th>GiB each</th><th>a month</th></tr>{roles}</table>
<p>Kafka: {brokers} brokers, {partitions} partitions, {bytes_in}/s in, {kept} kept, {kafka_month} a month.
Redis: {shards} shards, {commands} commands/s, {redis_bytes}, {redis_month} a month.</p>
<h2>What ends first</h2>
<table class="limits"><tr><th>limit</th><th>used</th><th>asked</th><th>there&nbsp;is</th><th>what lifts it</th></tr>{limits}</table>
<h2>Dollars a month over users</h2>
{plot}
</body></html>
"#,
        users = short(plan.usage.users),
        connections = short(demand.connections),
        messages = short(demand.messages),
        pushes = short(demand.pushes),
        out = bytes(plan.network.bytes_out),
        used = percent(one.used),
        short_of = one.short_of,
        users_max = short(one.users_max),
        month = dollars(plan.dollars_a_month),
        brokers = short(kafka.brokers),
        partitions = short(kafka.partitions),
        bytes_in = bytes(kafka.bytes_in),
        kept = bytes(kafka.bytes_kept),
        kafka_month = dollars(kafka.dollars_a_month),
        shards = short(redis.shards),
        commands = short(redis.commands),
        redis_bytes = bytes(redis.bytes),
        redis_month = dollars(redis.dollars_a_month),
        plot = plot(curve),
    )
}

/// Rows of a table. Everything in them is ours: names from the code, and numbers.
fn rows(rows: impl Iterator<Item = Vec<String>>) -> String {
    rows.map(|cells| {
        let cells: String = cells.iter().map(|cell| format!("<td>{cell}</td>")).collect();
        format!("<tr>{cells}</tr>")
    })
    .collect()
}

fn plot(curve: &Curve) -> String {
    let (low, high) = curve.decades();
    let x = |users: f64| MARGIN + Curve::place(users) * (WIDTH - MARGIN - 24.0);
    let y = |dollars: f64| {
        let share = (dollars.max(1.0).log10() - f64::from(low)) / f64::from(high - low);
        HEIGHT - MARGIN - share * (HEIGHT - MARGIN - 16.0)
    };
    let (mut svg, mut ends) = (String::new(), String::new());
    for power in low..=high {
        let (at, label) = (y(10f64.powi(power)), dollars(10f64.powi(power)));
        push(&mut svg, format_args!(r#"<path class="axis" d="M{MARGIN} {at:.1}H{WIDTH}"/>"#));
        let left = MARGIN - 4.0;
        push(&mut svg, format_args!(r#"<text x="{left}" y="{:.1}" text-anchor="end">{label}</text>"#, at + 4.0));
    }
    for users in Curve::tens() {
        let below = HEIGHT - MARGIN + 16.0;
        push(
            &mut svg,
            format_args!(r#"<text x="{:.1}" y="{below}" text-anchor="middle">{}</text>"#, x(users), short(users)),
        );
    }
    for (n, Mark { users, name }) in curve.marks.iter().enumerate() {
        let (at, bottom) = (x(*users), HEIGHT - MARGIN);
        push(&mut svg, format_args!(r#"<path class="end" d="M{at:.1} 16V{bottom}"><title>{name}</title></path>"#));
        let letter = letter(n);
        push(&mut svg, format_args!(r#"<text x="{:.1}" y="{:.1}">{letter}</text>"#, at + 3.0, 26.0 + 13.0 * n as f64));
        push(&mut ends, format_args!("<li>{} users: {name}</li>", short(*users)));
    }
    let points: Vec<String> =
        curve.points.iter().map(|(users, dollars)| format!("{:.1},{:.1}", x(*users), y(*dollars))).collect();
    push(&mut svg, format_args!(r#"<polyline class="curve" points="{}"/>"#, points.join(" ")));
    let label = "dollars a month over users";
    format!(
        r#"<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{svg}</svg><ol type="a">{ends}</ol>"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capacity::curve::tests::curve;
    use crate::capacity::machine::tests::machine;
    use crate::capacity::plan::plan;
    use crate::capacity::prices::tests::prices;
    use crate::capacity::usage::tests::usage;

    #[test]
    fn a_page_stands_alone_and_shows_every_table_and_limit() {
        let arguments = ["--users", "3B"];
        let plan = plan(&usage(&arguments), &machine(), &prices());
        let page = page(&plan, &curve(&arguments));
        for table in &plan.tables {
            assert!(page.contains(&format!("<td>{}</td>", table.name)), "{}", table.name);
        }
        for limit in &plan.limits {
            assert!(page.contains(limit.name) && page.contains(limit.lifted_by), "{}", limit.name);
        }
        assert!(page.contains("3.00B users") && page.contains("<polyline"));
        assert!(!page.contains("http"), "nothing is loaded from elsewhere");
        assert!(!page.contains("NaN") && !page.contains("inf"), "every point is on the page");
    }
}
