use async_trait::async_trait;
use aws_sdk_dynamodb::types::AttributeValue;
use domain::limits::BLOCKS_MAX;
use domain::{ChatId, ChatRefusal, DirectPair, UserId};
use ports::{BlockStore, NewDirectChat, SendRefusal, StoreError};

use crate::DynamoStore;
use crate::chats::pair_key;
use crate::db::{self, Bound, Query};
use crate::item::{Item, Key, Row, item, number, text};
use crate::schema::Table;
use crate::write::{Change, Condition, Write};

/// Stands among the blocks of a user for all of them, and sorts before them: it counts them, so that of concurrent ones
/// none goes beyond the bound.
const ALL_BLOCKS: &str = "#";
/// On the row of a member of a direct chat whom the other has blocked, and on the row of that other. The commit of a send
/// looks at the row of its sender anyway.
const BLOCKED: &str = "blocked";
const BLOCKING: &str = "blocking";

#[async_trait]
impl BlockStore for DynamoStore {
    async fn block(&self, user_id: UserId, blocked_id: UserId) -> Result<bool, StoreError> {
        db::undisturbed(|| async move {
            let Found { is_blocked, count, chat } = self.look_up_block(user_id, blocked_id).await?;
            if is_blocked {
                return Ok(Some(true));
            }
            if count.unwrap_or(0) >= BLOCKS_MAX as u64 {
                return Ok(Some(false));
            }
            let writes = || {
                let counted = counted(user_id, count, count.unwrap_or(0) + 1);
                let mut writes = vec![Write::create(block_key(user_id, blocked_id), Item::new()), counted];
                match &chat {
                    Some(members) => writes.extend(marks(members, user_id, Some(AttributeValue::Bool(true)))),
                    // Whoever opens the chat of the two at this moment demands that there is no block.
                    None => writes.extend(pair_of(user_id, blocked_id).map(Write::check_absent)),
                }
                writes
            };
            Ok(self.db().transact(writes).await?.is_committed().then_some(true))
        })
        .await
    }

    async fn unblock(&self, user_id: UserId, blocked_id: UserId) -> Result<(), StoreError> {
        db::undisturbed(|| async move {
            let Found { is_blocked, count, chat } = self.look_up_block(user_id, blocked_id).await?;
            if !is_blocked {
                return Ok(Some(()));
            }
            let writes = || {
                let counted = counted(user_id, count, count.unwrap_or(0).saturating_sub(1));
                let mut writes = vec![Write::delete(block_key(user_id, blocked_id)).if_there(), counted];
                // Where there is no chat there will be none before this is done.
                writes.extend(chat.iter().flat_map(|members| marks(members, user_id, None)));
                writes
            };
            Ok(self.db().transact(writes).await?.is_committed().then_some(()))
        })
        .await
    }

    async fn blocks(&self, user_id: UserId, after: Option<UserId>, limit: usize) -> Result<Vec<UserId>, StoreError> {
        let bound = Bound::Above(after.map_or_else(|| text(ALL_BLOCKS), text));
        let query =
            Query { bound: Some(bound), attributes: &["blocked_id"], ..Query::partition(Table::Blocks, user_id) };
        let items = self.db().query(&query, limit).await?;
        items.iter().map(|item| Row { table: Table::Blocks, item }.parsed("blocked_id")).collect()
    }

    async fn blocked(&self, pairs: &[(UserId, UserId)]) -> Result<Vec<bool>, StoreError> {
        let keys: Vec<Key> = pairs.iter().map(|(user_id, blocked_id)| block_key(*user_id, *blocked_id)).collect();
        Ok(self.db().get_many(&keys).await?.into_iter().map(|item| item.is_some()).collect())
    }
}

/// Who has blocked whom, as an item of the table says; `None` for the one that counts them.
pub(crate) fn read_block(item: &Item) -> Result<Option<(UserId, UserId)>, StoreError> {
    let row = Row { table: Table::Blocks, item };
    if row.text("blocked_id")? == ALL_BLOCKS {
        return Ok(None);
    }
    Ok(Some((row.parsed("user_id")?, row.parsed("blocked_id")?)))
}

/// What there is about one user and another.
struct Found {
    is_blocked: bool,
    /// How many the first has blocked; absent before the first block.
    count: Option<u64>,
    /// The rows of the two in their direct chat, with who they are of. Whose account is gone has none.
    chat: Option<Vec<(UserId, Key)>>,
}

impl DynamoStore {
    async fn look_up_block(&self, user_id: UserId, blocked_id: UserId) -> Result<Found, StoreError> {
        let mut keys = vec![block_key(user_id, blocked_id), Key::of(Table::Blocks, user_id, ALL_BLOCKS)];
        keys.extend(pair_of(user_id, blocked_id));
        let mut found = self.db().get_many(&keys).await?.into_iter();
        let (block, all, pair) = (found.next().flatten(), found.next().flatten(), found.next().flatten());
        let count = all.map(|item| Row { table: Table::Blocks, item: &item }.number("count")).transpose()?;
        let chat = match pair {
            None => None,
            Some(pair) => {
                let chat_id: ChatId = Row { table: Table::DirectChats, item: &pair }.parsed("chat_id")?;
                let users = [user_id, blocked_id];
                let keys = users.map(|user_id| Key::of(Table::ChatMemberships, chat_id, user_id));
                let rows = self.db().get_many(&keys).await?;
                let members = users.into_iter().zip(keys).zip(rows).filter(|(_, row)| row.is_some());
                Some(members.map(|(member, _)| member).collect())
            }
        };
        Ok(Found { is_blocked: block.is_some(), count, chat })
    }
}

fn block_key(user_id: UserId, blocked_id: UserId) -> Key {
    Key::of(Table::Blocks, user_id, blocked_id)
}

/// Where the direct chat of two is found; nobody has one with themselves.
fn pair_of(user_id: UserId, blocked_id: UserId) -> Option<Key> {
    DirectPair::new(user_id, blocked_id).map(pair_key)
}

fn counted(user_id: UserId, before: Option<u64>, after: u64) -> Write {
    let all = Key::of(Table::Blocks, user_id, ALL_BLOCKS);
    Write::put(all, item([("count", Some(number(after)))])).when(Condition::is("count", before.map(number)))
}

/// Sets or takes the marks by which a commit knows that one of two has blocked the other.
fn marks(members: &[(UserId, Key)], blocker: UserId, mark: Option<AttributeValue>) -> impl Iterator<Item = Write> {
    members.iter().map(move |(user_id, key)| {
        let name = if *user_id == blocker { BLOCKING } else { BLOCKED };
        Write::update(key.clone(), vec![Change::Set(name, mark.clone())]).if_there()
    })
}

/// Where the blocks are by which one of a pair keeps away the other: first of the first, then of the second.
pub(crate) fn keys_of(pair: DirectPair) -> [Key; 2] {
    let [one, other] = pair.users();
    [block_key(one, other), block_key(other, one)]
}

/// Why a chat is not opened, from what is found at [`keys_of`] its pair.
pub(crate) fn refusal(found: Vec<Option<Item>>, chat: &NewDirectChat) -> Option<ChatRefusal> {
    let blockers = chat.pair.users().into_iter().zip(found).filter_map(|(user_id, block)| block.map(|_| user_id));
    let blockers: Vec<UserId> = blockers.collect();
    match blockers.contains(&chat.created_by) {
        true => Some(ChatRefusal::Blocking),
        false => (!blockers.is_empty()).then_some(ChatRefusal::Blocked),
    }
}

/// Demands of the row of a member that no block keeps them from writing.
pub(crate) fn unless_kept_away(member: Write) -> Write {
    member.when(Condition::Absent(BLOCKED)).when(Condition::Absent(BLOCKING))
}

/// What keeps a member from writing. Who has blocked each other is each told of what they can undo themselves.
pub(crate) fn kept_away(member: &Item) -> Option<SendRefusal> {
    if member.contains_key(BLOCKING) {
        Some(SendRefusal::Blocking)
    } else {
        member.contains_key(BLOCKED).then_some(SendRefusal::Blocked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Server;

    #[tokio::test]
    async fn a_user_blocks_as_many_as_the_bound_and_no_more() {
        let server = Server::with_tables().await;
        let store = server.store();
        let [user_id, one, other] = [1, 2, 3].map(|n| UserId::from_bytes([n; 16]));
        let nearly_all = item([("count", Some(number(BLOCKS_MAX as u64 - 1)))]);
        server.put(Key::of(Table::Blocks, user_id, ALL_BLOCKS), nearly_all).await;
        assert!(store.block(user_id, one).await.unwrap());
        assert!(!store.block(user_id, other).await.unwrap());
        assert!(store.block(user_id, one).await.unwrap(), "one who is blocked stays so");
        store.unblock(user_id, one).await.unwrap();
        assert!(store.block(user_id, other).await.unwrap());
    }
}
