use super::{Attribute, Definition, Projection, Table};

/// A readable overview of the tables: keys, index, TTL, backup, and content.
pub fn show() -> String {
    let mut rows = vec![["table", "key", "index", "ends", "backup", "holds"].map(str::to_owned)];
    rows.extend(Table::ALL.map(row));
    let mut widths = [0; 5];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.len().max(*width);
        }
    }
    let line = |[cells @ .., holds]: &[String; 6]| {
        let padded = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}  "));
        format!("{}{holds}\n", padded.collect::<String>())
    };
    rows.iter().map(line).collect()
}

fn row(table: Table) -> [String; 6] {
    let Definition { name, partition_key, sort_key, index, expires, backed_up } = table.definition();
    let index = index.map(|index| {
        let projection = match index.projection {
            Projection::Keys => "keys",
            Projection::All => "all",
        };
        format!("{} ({}; {projection})", index.name, key(index.partition_key, index.sort_key))
    });
    [
        name.to_owned(),
        key(partition_key, sort_key),
        index.unwrap_or("-".to_owned()),
        if expires { "ttl" } else { "-" }.to_owned(),
        if backed_up { "yes" } else { "no" }.to_owned(),
        holds(table).to_owned(),
    ]
}

fn key(partition_key: &str, sort_key: Option<Attribute>) -> String {
    match sort_key {
        None => partition_key.to_owned(),
        Some(Attribute::Text(name)) => format!("{partition_key}, {name}"),
        Some(Attribute::Number(name)) => format!("{partition_key}, {name} (number)"),
    }
}

fn holds(table: Table) -> &'static str {
    match table {
        Table::Users => "users",
        Table::UserKeys => "users by the digest of a phone number or external subject",
        Table::Chats => "chats; every change increments the version",
        Table::ChatMemberships => "members of chats",
        Table::Messages => "messages; some expire",
        Table::MessageLocations => "chat and sequence of each message, by its id",
        Table::Expirations => "expiry times of messages, for the purge",
        Table::ChatCounters => "last sequence, last message, published sequence; no role deletes one",
        Table::IdempotencyKeys => "sends of the last 7 days, to detect retries",
        Table::DeliveryState => "watermarks of members; one item per membership",
        Table::Sessions => "logins",
        Table::DirectChats => "the one direct chat of each pair",
        Table::OneTimeCodes => "codes that were sent, as digests",
        Table::Outbox => "events of chats and members that wait for the log",
        Table::PushDevices => "devices: their session, and how they are notified",
        Table::Notices => "pending notifications",
        Table::DeadLetters => "undelivered events and notifications, and unreadable records, for 7 days",
        Table::Requests => "answers to REST requests with an idempotency key, for a day",
        Table::Contacts => "contacts of each user",
        Table::Blocks => "blocks of each user",
        Table::Reports => "reports of users, for 90 days after they are resolved",
        Table::Invitations => "invitations of users to groups, for 30 days",
        Table::Restrictions => "suspensions and revoked tokens of users; changes of the last hour",
        Table::Passkeys => "passkeys of users, and the owner of each credential id",
        Table::Deletions => "accounts with an unfinished deletion",
        Table::Updates => "edits, deletions and reactions of messages, as entries of their chats",
        Table::Reactions => "reactions of each member on a message",
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn every_table_has_a_line() {
        expect![[r#"
            table              key                         index                                         ends  backup  holds
            users              user_id                     -                                             -     yes     users
            user_keys          user_key                    -                                             -     yes     users by the digest of a phone number or external subject
            chats              chat_id                     -                                             -     yes     chats; every change increments the version
            chat_memberships   chat_id, user_id            -                                             -     yes     members of chats
            messages           chat_id, sequence (number)  message_id-index (message_id; keys)           ttl   yes     messages; some expire
            message_locations  message_id                  -                                             ttl   yes     chat and sequence of each message, by its id
            expirations        shard, place                -                                             -     yes     expiry times of messages, for the purge
            chat_counters      chat_id                     dirty-index (dirty_shard, dirty_since; keys)  -     yes     last sequence, last message, published sequence; no role deletes one
            idempotency_keys   chat_id, send_key           -                                             ttl   yes     sends of the last 7 days, to detect retries
            delivery_state     user_id, chat_id            -                                             -     yes     watermarks of members; one item per membership
            sessions           session_id                  -                                             ttl   yes     logins
            direct_chats       pair                        -                                             -     yes     the one direct chat of each pair
            one_time_codes     phone_hash                  -                                             ttl   no      codes that were sent, as digests
            outbox             shard, place                age-index (shard, event_time; keys)           -     yes     events of chats and members that wait for the log
            push_devices       user_id, device_id          -                                             ttl   yes     devices: their session, and how they are notified
            notices            user_id, chat_device        due-index (due_shard, due_at (number); all)   ttl   yes     pending notifications
            dead_letters       shard, dead_letter_id       -                                             ttl   yes     undelivered events and notifications, and unreadable records, for 7 days
            requests           user_id, request_key        -                                             ttl   yes     answers to REST requests with an idempotency key, for a day
            contacts           user_id, contact_id         -                                             -     yes     contacts of each user
            blocks             user_id, blocked_id         -                                             -     yes     blocks of each user
            reports            list, report_id             -                                             ttl   yes     reports of users, for 90 days after they are resolved
            invitations        list, place                 -                                             ttl   yes     invitations of users to groups, for 30 days
            restrictions       list, place                 -                                             ttl   yes     suspensions and revoked tokens of users; changes of the last hour
            passkeys           list, place                 -                                             -     yes     passkeys of users, and the owner of each credential id
            deletions          shard, user_id              -                                             -     yes     accounts with an unfinished deletion
            updates            chat_id, sequence (number)  -                                             ttl   yes     edits, deletions and reactions of messages, as entries of their chats
            reactions          message_id, user_id         -                                             -     yes     reactions of each member on a message
        "#]].assert_eq(&show());
    }
}
