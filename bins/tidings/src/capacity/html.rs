use html::{COLOURS, Escaped, Page, Plot, REPORT_STYLE, row};

use super::curve::{Curve, LimitMark};
use super::number::{bytes, dollars, percent, short};
use super::plan::CapacityPlan;
use super::text::letter;

/// Renders the plan as one self-contained page.
pub(super) fn page(plan: &CapacityPlan, curve: &Curve) -> String {
    let (demand, one) = (&plan.demand, &plan.one_machine);
    let (verdict, class) = if one.is_enough { ("is enough", "good") } else { ("is not enough", "bad") };
    let tables = plan.tables.iter().map(|table| {
        let units = [table.write_units, table.read_units].map(short);
        let [writes, reads] = units;
        row([table.name.to_owned(), writes, reads, bytes(table.bytes), dollars(table.dollars_a_month)])
    });
    let reads = plan.reads.iter().map(|read| {
        let month = [read.dollars_a_month, read.decision_dollars_a_month].map(dollars);
        let [month, decision] = month;
        let consistency = read.consistency.name().to_owned();
        row([read.name.to_owned(), short(read.units), consistency, month, decision, read.why.to_owned()])
    });
    let roles = plan.processes.iter().map(|role| {
        let figures = [role.processes, role.cores, role.memory_gib].map(short);
        let [processes, cores, memory] = figures;
        row([role.role.to_owned(), processes, cores, memory, dollars(role.dollars_a_month)])
    });
    let limits = plan.limits.iter().map(|limit| {
        row([
            limit.name.to_owned(),
            percent(limit.used()),
            short(limit.demand),
            short(limit.capacity),
            limit.lifted_by.to_owned(),
        ])
    });
    let (tables, reads): (String, String) = (tables.collect(), reads.collect());
    let (roles, limits): (String, String) = (roles.collect(), limits.collect());
    let (kafka, redis) = (&plan.kafka, &plan.redis);
    let body = format!(
        r#"<h1>{users} users at their peak</h1>
<p>{connections} connections, {messages} messages/s, {pushes} pushes/s, {out}/s to the clients.</p>
<p>One machine <strong class="{class}">{verdict}</strong>: {used} of its {short_of} are used. A fleet from {users_max} users on.</p>
<h2>A fleet, for {month} a month</h2>
<table><tr><th>table</th><th>write units/s</th><th>read units/s</th><th>stored</th><th>a month</th></tr>{tables}</table>
<table><tr><th>read</th><th>units/s</th><th></th><th>a month</th><th>price of the decision</th><th>why</th></tr>{reads}</table>
<table><tr><th>role</th><th>processes</th><th>cores each</th><th>GiB each</th><th>a month</th></tr>{roles}</table>
<p>Kafka: {brokers} brokers, {partitions} partitions, {bytes_in}/s in, {kept} kept, {kafka_month} a month.
Redis: {shards} shards, {commands} commands/s, {redis_bytes}, {redis_month} a month.</p>
<h2>Limits</h2>
<table class="limits"><tr><th>limit</th><th>used</th><th>demand</th><th>capacity</th><th>remedy</th></tr>{limits}</table>
<h2>Dollars a month over users</h2>
{plot}
<ol type="a">{marks}</ol>
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
        marks = marks(curve),
    );
    let title = format!("tidings capacity: {} users", short(plan.usage.users));
    Page { title: &title, style: REPORT_STYLE, script: "", body: &body }.to_string()
}

fn plot(curve: &Curve) -> String {
    let (low, high) = curve.decades();
    let y = |dollars: f64| (dollars.max(1.0).log10() - f64::from(low)) / f64::from(high - low);
    let mut plot = Plot::new(720.0, 320.0);
    for power in low..=high {
        let amount = 10f64.powi(power);
        plot.line(y(amount), &dollars(amount));
    }
    for users in Curve::tens() {
        plot.below(Curve::place(users), &short(users));
    }
    for (n, LimitMark { users, name }) in curve.marks.iter().enumerate() {
        plot.mark(n, Curve::place(*users), &letter(n).to_string(), name);
    }
    plot.curve(curve.points.iter().map(|(users, dollars)| (Curve::place(*users), y(*dollars))), COLOURS[0]);
    plot.finish("dollars a month over users")
}

/// The names of the marks in the plot.
fn marks(curve: &Curve) -> String {
    let mark = |LimitMark { users, name }: &LimitMark| format!("<li>{} users: {}</li>", short(*users), Escaped(name));
    curve.marks.iter().map(mark).collect()
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
            let shown = |text: &str| page.contains(&Escaped(text).to_string());
            assert!(shown(limit.name) && shown(limit.lifted_by), "{}", limit.name);
        }
        assert!(page.contains("3.00B users") && page.contains("<polyline"));
        assert!(!page.contains("://"), "nothing is loaded from elsewhere");
        assert!(!page.contains("NaN") && !page.contains("inf"), "every point is on the page");
    }
}
