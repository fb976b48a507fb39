//! The plan as text for a terminal.

use std::fmt::{self, Write};

use super::costs;
use super::curve::{Curve, LimitMark};
use super::number::{bytes, dollars, percent, short};
use super::plan::{CapacityPlan, OTHER_TABLES, Processes, TablePlan};
use super::prices::LIST;
use super::reads::Consistency;

/// Columns and rows of the plot.
const WIDTH: usize = 72;
const HEIGHT: usize = 12;

/// The plan as tables.
pub(super) fn report(plan: &CapacityPlan) -> String {
    let mut text = String::new();
    let demand = &plan.demand;
    push(&mut text, format_args!("{} users at their peak\n", short(plan.usage.users)));
    for (name, value) in [
        ("connections", short(demand.connections)),
        ("messages/s", short(demand.messages)),
        ("pushes/s", short(demand.pushes)),
        ("watermarks/s", short(demand.watermarks)),
        ("notifications/s", short(demand.notices)),
        ("connects/s", short(demand.connects)),
        ("to the clients", format!("{}/s", bytes(plan.network.bytes_out))),
    ] {
        push(&mut text, format_args!("  {name:<18} {value:>10}\n"));
    }
    one_machine(&mut text, plan);
    fleet(&mut text, plan);
    limits(&mut text, plan);
    founding(&mut text, plan);
    text
}

fn one_machine(text: &mut String, plan: &CapacityPlan) {
    let one = &plan.one_machine;
    let verdict = if one.is_enough { "is enough" } else { "is not enough" };
    push(
        text,
        format_args!(
            "\nOne machine {verdict}: {} of its {} are used. A fleet from {} users on.\n",
            percent(one.used),
            one.short_of,
            short(one.users_max)
        ),
    );
}

fn fleet(text: &mut String, plan: &CapacityPlan) {
    push(text, format_args!("\nA fleet, for {} a month\n", dollars(plan.dollars_a_month)));
    let head = ["table", "write units/s", "read units/s", "stored", "a month"];
    push(text, format_args!("  {:<18}{:>14}{:>14}{:>12}{:>10}\n", head[0], head[1], head[2], head[3], head[4]));
    for TablePlan { name, write_units, read_units, bytes: stored, dollars_a_month } in &plan.tables {
        let (writes, reads, month) = (short(*write_units), short(*read_units), dollars(*dollars_a_month));
        push(text, format_args!("  {name:<18}{writes:>14}{reads:>14}{:>12}{month:>10}\n", bytes(*stored)));
    }
    push(text, format_args!("  Rarely used, and left out: {}\n", OTHER_TABLES[..7].join(", ")));
    push(text, format_args!("    {}\n", OTHER_TABLES[7..].join(", ")));
    reads(text, plan);
    let head = ["role", "processes", "cores each", "GiB each", "a month"];
    push(text, format_args!("\n  {:<18}{:>14}{:>14}{:>12}{:>10}\n", head[0], head[1], head[2], head[3], head[4]));
    for Processes { role, processes, cores, memory_gib, dollars_a_month } in &plan.processes {
        let (processes, month) = (short(*processes), dollars(*dollars_a_month));
        push(text, format_args!("  {role:<18}{processes:>14}{cores:>14}{memory_gib:>12}{month:>10}\n"));
    }
    let kafka = &plan.kafka;
    push(
        text,
        format_args!(
            "\n  Kafka: {} brokers, {} partitions; {}/s in, {}/s out, {} kept; {} a month\n",
            short(kafka.brokers),
            short(kafka.partitions),
            bytes(kafka.bytes_in),
            bytes(kafka.bytes_out),
            bytes(kafka.bytes_kept),
            dollars(kafka.dollars_a_month)
        ),
    );
    let redis = &plan.redis;
    push(
        text,
        format_args!(
            "  Redis: {} shards of 2 nodes; {} commands/s, {}; {} a month\n",
            short(redis.shards),
            short(redis.commands),
            bytes(redis.bytes),
            dollars(redis.dollars_a_month)
        ),
    );
    push(text, format_args!("  To the clients: {} a month\n", dollars(plan.network.dollars_a_month)));
    push(text, format_args!("  List prices of {}, unless a flag sets another\n", LIST.basis()));
}

/// The reads with their consistency. The last figure is the price of the decision.
fn reads(text: &mut String, plan: &CapacityPlan) {
    let head = ["read", "units/s", "", "a month", "decision"];
    push(text, format_args!("\n  {:<49}{:>8}  {:<9}{:>8}{:>9}\n", head[0], head[1], head[2], head[3], head[4]));
    for read in &plan.reads {
        let (units, month, decision) =
            (short(read.units), dollars(read.dollars_a_month), dollars(read.decision_dollars_a_month));
        let sign = match read.consistency {
            Consistency::Strong => '+',
            Consistency::Eventual => '-',
        };
        push(
            text,
            format_args!(
                "  {:<49}{units:>8}  {:<9}{month:>8}{:>9}  {}\n",
                read.name,
                read.consistency.name(),
                format!("{sign}{decision}"),
                read.why
            ),
        );
    }
}

fn limits(text: &mut String, plan: &CapacityPlan) {
    let Some(first) = plan.limits.first() else { return };
    let verdict = match first.used() {
        used if used > 1.0 => "exceeded",
        used if used > 0.5 => "more than half used",
        _ => "at most half used",
    };
    push(text, format_args!("\nFirst bottleneck, {verdict}: {}.\n", first.name));
    push(text, format_args!("  Remedy: {}.\n", first.lifted_by));
    for limit in &plan.limits {
        let (used, demand, capacity) = (percent(limit.used()), short(limit.demand), short(limit.capacity));
        push(text, format_args!("  {used:>8}  {:<46}{demand:>8} of {capacity} {}\n", limit.name, limit.unit));
    }
}

fn founding(text: &mut String, plan: &CapacityPlan) {
    let units = |units: fn(&TablePlan) -> f64| short(plan.tables.iter().map(units).sum());
    let founding = &plan.founding;
    text.push_str("\nComparison with the original design\n");
    for (what, ours, original, document) in [
        ("write units/s", units(|table| table.write_units), short(founding.write_units), "ADR-004 §A, sends only"),
        ("read units/s", units(|table| table.read_units), short(founding.read_units), "ADR-004 §A, sends only"),
        (
            "Redis commands/s",
            short(plan.redis.commands),
            short(founding.redis_commands),
            "ADR-010 §3.1, heartbeats only",
        ),
        ("Redis memory", bytes(plan.redis.bytes), bytes(founding.redis_bytes), "ADR-010 §3.1, connections only"),
    ] {
        push(text, format_args!("  {what:<18}{ours:>10}   original {original:>10}   {document}\n"));
    }
}

/// Dollars over users on logarithmic axes, with a letter at each limit.
pub(super) fn plot(curve: &Curve) -> String {
    let (low, high) = curve.decades();
    let column = |users: f64| (Curve::place(users) * (WIDTH - 1) as f64).round() as usize;
    let row = |dollars: f64| {
        let height = (dollars.max(1.0).log10() - f64::from(low)) / f64::from(high - low);
        HEIGHT - 1 - (height * (HEIGHT - 1) as f64).round() as usize
    };
    let mut cells = vec![vec![' '; WIDTH]; HEIGHT];
    for mark in &curve.marks {
        let column = column(mark.users);
        cells.iter_mut().for_each(|row| row[column] = ':');
    }
    for window in curve.points.windows(2) {
        let (from, to) = (column(window[0].0), column(window[1].0));
        cells[row(window[0].1)][from..=to].fill('*');
    }
    for (n, mark) in curve.marks.iter().enumerate() {
        // Marks in the same column are listed one below the other.
        if let Some(row) = cells.get_mut(n) {
            row[column(mark.users)] = letter(n);
        }
    }
    let asked = curve.points.iter().rfind(|(users, _)| *users <= curve.asked).or(curve.points.first());
    if let Some((_, dollars)) = asked {
        cells[row(*dollars)][column(curve.asked)] = '@';
    }
    let mut text = "\nDollars a month over users; @ marks the given number of users\n".to_owned();
    for (n, row) in cells.iter().enumerate() {
        let line: String = row.iter().collect();
        let power = f64::from(high) - f64::from(high - low) * n as f64 / (HEIGHT - 1) as f64;
        let label = if n % 3 == 2 || n == 0 { dollars(10f64.powf(power)) } else { String::new() };
        push(&mut text, format_args!("{label:>8} |{}\n", line.trim_end()));
    }
    let mut axis = vec![' '; WIDTH + 6];
    for users in Curve::tens() {
        for (n, character) in format!("10^{:.0}", users.log10()).chars().enumerate() {
            axis[column(users) + n] = character;
        }
    }
    push(&mut text, format_args!("{:>8} +{}\n", "", "-".repeat(WIDTH)));
    push(&mut text, format_args!("{:>10}{}\n", "", axis.iter().collect::<String>().trim_end()));
    for (n, LimitMark { users, name }) in curve.marks.iter().enumerate() {
        push(&mut text, format_args!("  {} {:>8}  {name}\n", letter(n), short(*users)));
    }
    text
}

/// Every input figure.
pub(super) fn costs() -> String {
    let mut text = "\nInput figures\n".to_owned();
    for cost in costs::ALL {
        let (value, basis) = (figure(cost.value), cost.basis.name());
        push(&mut text, format_args!("  {value:>8} {:<14}{:<62}{basis}: {}\n", cost.unit, cost.name, cost.source));
    }
    text
}

/// A figure as shown in the cost table; small values are in millionths.
fn figure(value: f64) -> String {
    if value < 0.01 { format!("{:.1}e-6", value * 1e6) } else { short(value) }
}

/// The letter of the n-th limit in a plot.
pub(super) fn letter(n: usize) -> char {
    char::from(b'a' + (n % 26) as u8)
}

fn push(text: &mut String, arguments: fmt::Arguments<'_>) {
    text.write_fmt(arguments).expect("a string takes any text");
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::capacity::curve::tests::curve;
    use crate::capacity::machine::tests::machine;
    use crate::capacity::plan::plan;
    use crate::capacity::prices::tests::prices;
    use crate::capacity::usage::tests::usage;

    #[test]
    fn a_report_for_people() {
        let plan = plan(&usage(&["--users", "1M"]), &machine(), &prices());
        expect![[r#"
            1.00M users at their peak
              connections              225K
              messages/s                694
              pushes/s                2.54K
              watermarks/s            4.44K
              notifications/s         1.40K
              connects/s                260
              to the clients      3.82 MB/s

            One machine is not enough: 450 % of its connections are used. A fleet from 222K users on.

            A fleet, for $31.7K a month
              table              write units/s  read units/s      stored   a month
              messages                   2.22K         8.18K     5.67 TB    $3.53K
              message_locations          1.39K          17.4     1.39 TB    $1.11K
              chat_counters              3.82K         23.5K     7.94 GB    $4.67K
              idempotency_keys           1.53K             0     54.2 GB      $850
              updates                      139          26.2      241 GB      $139
              reactions                    139         1.16K      190 GB      $251
              chats                          0         6.61K     6.00 GB      $725
              chat_memberships           1.53K         13.7K     6.00 GB    $2.34K
              delivery_state             8.89K         14.8K     6.00 GB    $6.49K
              sessions                     125           521         0 B      $125
              users                        347         14.6K     1.90 GB    $1.79K
              notices                    14.0K           700         0 B    $7.74K
              push_devices                   0         4.51K         0 B      $494
              restrictions                   0             4         0 B     $1.31
              expirations                    0          6.40         0 B     $2.10
              outbox                         0            32         0 B     $10.5
              Rarely used, and left out: user_keys, direct_chats, one_time_codes, dead_letters, requests, contacts, blocks
                reports, invitations, passkeys, deletions

              read                                              units/s            a month decision
              messages that a device has missed                     566  strong      $62.0   +$31.0  G6: sync returns every visible message
              updates that a device has missed                     26.2  strong      $2.87   +$1.43  G6: sync returns every update
              messages of these updates                             467  strong      $51.1   +$25.5  G6: sync returns the current state
              the message of an update                             69.4  strong      $7.60   +$3.80  an update is decided on the state that its commit replaces
              the head that an update moves                        69.4  strong      $7.60   +$3.80  an update is decided on the state that its commit replaces
              the role of a member who updates a message           69.4  strong      $7.60   +$3.80  an update is decided on the state that its commit replaces
              the reactions of a member who reacts                 69.4  strong      $7.60   +$3.80  an update is decided on the state that its commit replaces
              the caller's reactions on a page of history         1.09K  strong       $120   +$59.9  G6: a member sees what the acknowledgement said
              pages of history                                    1.56K  strong       $171   +$85.5  G6: an acknowledged message is in every page at once
              unread messages of an inbox, which are counted      1.30K  strong       $143   +$71.3  G10: the count agrees with the history
              a message at its location                            17.4  strong      $1.90   +$0.95  G6, G11: as in history
              the location of a message, by its id                 17.4  strong      $1.90   +$0.95  an acknowledged message is found by its id at once
              messages of a notice: its text and its count        4.20K  strong       $460    +$230  what was read, muted or left meanwhile is not notified
              heads of an inbox                                   5.21K  strong       $570    +$285  G6: an acknowledged message is in the inbox at once
              heads of a page of an inbox, and of its counts      10.4K  strong     $1.14K    +$570  G10: preview and count agree with the history
              the head of a page of history                         521  strong      $57.0   +$28.5  a client compares it with what it has
              the head above which no watermark moves             4.44K  strong       $487    +$243  G7: an old head would refuse a valid ack
              heads for the text and the count of a notice        2.80K  strong       $307    +$153  what was read, muted or left meanwhile is not notified
              unpublished chats, in `dirty-index`                    32  eventual    $10.5   -$10.5  the relay sweeps every second, so a later sweep finds it
              the watermark before it moves                       4.44K  strong       $487    +$243  G7: it never moves back
              the chats of a user                                   254  strong      $27.8   +$13.9  G6: a chat that somebody was added to is listed at once
              watermarks of a page of an inbox, or of history     8.70K  strong       $952    +$476  G10: status and count follow an ack at once
              watermarks for a notice                             1.40K  strong       $153   +$76.6  what was read, muted or left meanwhile is not notified
              chats of a page of an inbox                         5.21K  strong       $570    +$285  the answer to one's own change shows it
              the chat of a notice                                1.40K  strong       $153   +$76.6  what was read, muted or left meanwhile is not notified
              memberships of a page of an inbox                   10.4K  strong     $1.14K    +$570  G4: a removed member reads nothing more
              who reads history, or a message by its id           1.06K  strong       $116   +$58.0  G4: a removed member reads nothing more
              members that get a push, after a cache miss          69.4  strong      $7.60   +$3.80  only members receive: the cache is filled with this
              members of a chat with a new notice                   694  strong      $76.0   +$38.0  a removed member is not notified
              the membership for a notice                         1.40K  strong       $153   +$76.6  what was read, muted or left meanwhile is not notified
              devices of offline members, and of a notice         4.51K  strong       $494    +$247  a device that has signed out is not notified
              the session of a connection                           521  strong      $57.0   +$28.5  a revoked session connects nowhere
              changed restrictions of users                           4  strong      $1.31   +$0.66  a suspension holds within a second, everywhere
              presence: the user, and who may see it              1.74K  strong       $190   +$95.1  privacy: a block or a hidden status holds at once
              people of a page of an inbox                        11.5K  strong     $1.25K    +$627  a deleted account has no name
              the sender that a notice names                      1.40K  strong       $153   +$76.6  what was read, muted or left meanwhile is not notified
              notices that are due, in `due-index`                  700  eventual    $76.6   -$76.6  the claim is conditional, so a stale entry claims nothing
              messages that have expired                           6.40  strong      $2.10   +$1.05  a purge repeats at once: a stale page would be its last one
              unpublished events, in `age-index`                     32  eventual    $10.5   -$10.5  the relay sweeps every second, so a later sweep finds it

              role                   processes    cores each    GiB each   a month
              gateway                        5             1           1      $164
              ingest                         2             2           2      $131
              fanout                         2             1           1     $65.6
              api                            2             1           1     $65.6

              Kafka: 3 brokers, 12 partitions; 667 KB/s in, 2.00 MB/s out, 403 GB kept; $487 a month
              Redis: 1 shards of 2 nodes; 31.3K commands/s, 464 MB; $231 a month
              To the clients: $301 a month
              List prices of us-east-1, as of 2025-11, unless a flag sets another

            First bottleneck, more than half used: notices that are due, in `due-index`.
              Remedy: more partitions of the index (DUE_SHARDS), or a longer notify.silence_seconds.
                  70 %  notices that are due, in `due-index`             5.60K of 8.00K write units/s
                  59 %  the busiest table, reading                       23.5K of 40.0K read units/s
                  35 %  the busiest table, writing                       14.0K of 40.0K write units/s
                 9.5 %  unpublished chats, in `dirty-index`              1.53K of 16.0K write units/s
                 3.2 %  readers of the log, one for each partition         764 of 24.0K events/s
                 2.0 %  one chat, in one partition of `messages`            20 of 1.00K write units/s

            Comparison with the original design
              write units/s          34.1K   original      5.21K   ADR-004 §A, sends only
              read units/s           88.4K   original      1.56K   ADR-004 §A, sends only
              Redis commands/s       31.3K   original       225K   ADR-010 §3.1, heartbeats only
              Redis memory          464 MB   original     112 MB   ADR-010 §3.1, connections only
        "#]]
        .assert_eq(&report(&plan));
    }

    #[test]
    fn a_plot_for_people() {
        expect![[r#"

            Dollars a month over users; @ marks the given number of users
              $1.00B |                        a       :: :     :    :
                     |                        :       b: :     :    :                    *****
              $53.4M |                        :       :c :     :    :              *******
                     |                        :       :: d     :    :        *******
                     |                        :       :: :     e    : ********
               $658K |                        :       :: :     :****f**
                     |                        :       ::*********   :
                     |                        :   **@****:     :    :
              $8.11K |                    *********   :: :     :    :
                     |*********************   :       :: :     :    :
                     |                        :       :: :     :    :
                $100 |                        :       :: :     :    :
                     +------------------------------------------------------------------------
                      10^3      10^4      10^5      10^6       10^7      10^8      10^9      10^10
              a     222K  limit of one machine: connections
              b    1.43M  notices that are due, in `due-index`
              c    1.70M  the busiest table, reading
              d    2.86M  the busiest table, writing
              e    10.5M  unpublished chats, in `dirty-index`
              f    31.4M  readers of the log, one for each partition
        "#]]
        .assert_eq(&plot(&curve(&["--users", "1M"])));
    }

    #[test]
    fn a_plot_fits_any_number_of_users() {
        for users in ["1", "1K", "10B", "100B"] {
            let plot = plot(&curve(&["--users", users, "--messages", "1000000", "--peak", "1000"]));
            assert!(plot.contains('@') && !plot.contains("NaN"), "{plot}");
        }
    }

    #[test]
    fn every_cost_names_its_source() {
        for cost in costs::ALL {
            assert!(cost.value > 0.0 && cost.value.is_finite() && !cost.source.is_empty(), "{}", cost.name);
            let line = costs().lines().filter(|line| line.contains(cost.name)).count();
            assert!(line >= 1, "{}", cost.name);
        }
    }
}
