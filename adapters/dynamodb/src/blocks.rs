use async_trait::async_trait;
use aws_sdk_dynamodb::types::AttributeValue;
use domain::limits::BLOCKS_MAX;
use domain::{ChatId, ChatRefusal, DirectPair, UserId};
use ports::{BlockStore, NewDirectChat, SendRefusal, StoreError};

use crate::DynamoStore;
use crate::chats::pair_key;
use crate::db::{self, Bound, PartitionQuery};
use crate::item::{DynamoItem, ItemKey, ItemReader, item, number, text};
use crate::schema::Table;
use crate::write::{AttributeChange, Condition, Write};

/// Sort key of the item that counts a user's blocks; it sorts before them. The count keeps concurrent blocks within the
/// limit.
const ALL_BLOCKS: &str = "#";
/// Marks in a direct chat: on the member who is blocked, and on the member who blocks. The commit of a send reads the
/// sender's membership anyway.
const BLOCKED: &str = "blocked";
const BLOCKING: &str = "blocking";

#[async_trait]
impl BlockStore for DynamoStore {
    async fn block(&self, user_id: UserId, blocked_id: UserId) -> Result<bool, StoreError> {
        db::undisturbed(|| async move {
            let BlockState { is_blocked, count, chat } = self.look_up_block(user_id, blocked_id).await?;
            if is_blocked {
                return Ok(Some(true));
            }
            if count.unwrap_or(0) >= BLOCKS_MAX as u64 {
                return Ok(Some(false));
            }
            let writes = || {
                let counted = counted(user_id, count, count.unwrap_or(0) + 1);
                let mut writes = vec![Write::create(block_key(user_id, blocked_id), DynamoItem::new()), counted];
                match &chat {
                    Some(members) => writes.extend(marks(members, user_id, Some(AttributeValue::Bool(true)))),
                    // A concurrent creation of their direct chat requires that there is no block, so one of the two
                    // fails.
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
            let BlockState { is_blocked, count, chat } = self.look_up_block(user_id, blocked_id).await?;
            if !is_blocked {
                return Ok(Some(()));
            }
            let writes = || {
                let counted = counted(user_id, count, count.unwrap_or(0).saturating_sub(1));
                let mut writes = vec![Write::delete(block_key(user_id, blocked_id)).if_there(), counted];
                // If there is no chat now, none can be created before this commits, since the block still exists.
                writes.extend(chat.iter().flat_map(|members| marks(members, user_id, None)));
                writes
            };
            Ok(self.db().transact(writes).await?.is_committed().then_some(()))
        })
        .await
    }

    async fn blocks(&self, user_id: UserId, after: Option<UserId>, limit: usize) -> Result<Vec<UserId>, StoreError> {
        let bound = Bound::Above(after.map_or_else(|| text(ALL_BLOCKS), text));
        let query = PartitionQuery {
            bound: Some(bound),
            attributes: &["blocked_id"],
            ..PartitionQuery::partition(Table::Blocks, user_id)
        };
        let items = self.db().query(&query, limit).await?;
        items.iter().map(|item| ItemReader { table: Table::Blocks, item }.parsed("blocked_id")).collect()
    }

    async fn blocked(&self, pairs: &[(UserId, UserId)]) -> Result<Vec<bool>, StoreError> {
        let keys: Vec<ItemKey> = pairs.iter().map(|(user_id, blocked_id)| block_key(*user_id, *blocked_id)).collect();
        Ok(self.db().get_many(&keys).await?.into_iter().map(|item| item.is_some()).collect())
    }
}

/// The blocker and the blocked user of an item; `None` for the item that counts the blocks.
pub(crate) fn read_block(item: &DynamoItem) -> Result<Option<(UserId, UserId)>, StoreError> {
    let row = ItemReader { table: Table::Blocks, item };
    if row.text("blocked_id")? == ALL_BLOCKS {
        return Ok(None);
    }
    Ok(Some((row.parsed("user_id")?, row.parsed("blocked_id")?)))
}

/// The stored state between two users.
struct BlockState {
    is_blocked: bool,
    /// Number of users whom the first has blocked; absent before the first block.
    count: Option<u64>,
    /// The membership rows of their direct chat, each with its user. A deleted account has no row.
    chat: Option<Vec<(UserId, ItemKey)>>,
}

impl DynamoStore {
    async fn look_up_block(&self, user_id: UserId, blocked_id: UserId) -> Result<BlockState, StoreError> {
        let mut keys = vec![block_key(user_id, blocked_id), ItemKey::of(Table::Blocks, user_id, ALL_BLOCKS)];
        keys.extend(pair_of(user_id, blocked_id));
        let mut found = self.db().get_many(&keys).await?.into_iter();
        let (block, all, pair) = (found.next().flatten(), found.next().flatten(), found.next().flatten());
        let count = all.map(|item| ItemReader { table: Table::Blocks, item: &item }.number("count")).transpose()?;
        let chat = match pair {
            None => None,
            Some(pair) => {
                let chat_id: ChatId = ItemReader { table: Table::DirectChats, item: &pair }.parsed("chat_id")?;
                let users = [user_id, blocked_id];
                let keys = users.map(|user_id| ItemKey::of(Table::ChatMemberships, chat_id, user_id));
                let rows = self.db().get_many(&keys).await?;
                let members = users.into_iter().zip(keys).zip(rows).filter(|(_, row)| row.is_some());
                Some(members.map(|(member, _)| member).collect())
            }
        };
        Ok(BlockState { is_blocked: block.is_some(), count, chat })
    }
}

pub(crate) fn block_key(user_id: UserId, blocked_id: UserId) -> ItemKey {
    ItemKey::of(Table::Blocks, user_id, blocked_id)
}

/// The key of the direct chat of two users; `None` if both are the same.
fn pair_of(user_id: UserId, blocked_id: UserId) -> Option<ItemKey> {
    DirectPair::new(user_id, blocked_id).map(pair_key)
}

fn counted(user_id: UserId, before: Option<u64>, after: u64) -> Write {
    let all = ItemKey::of(Table::Blocks, user_id, ALL_BLOCKS);
    Write::put(all, item([("count", Some(number(after)))])).when(Condition::is("count", before.map(number)))
}

/// Sets or removes the marks that tell a commit about a block.
fn marks(members: &[(UserId, ItemKey)], blocker: UserId, mark: Option<AttributeValue>) -> impl Iterator<Item = Write> {
    members.iter().map(move |(user_id, key)| {
        let name = if *user_id == blocker { BLOCKING } else { BLOCKED };
        Write::update(key.clone(), vec![AttributeChange::Set(name, mark.clone())]).if_there()
    })
}

/// The keys of the two possible blocks of a pair: by the first user, then by the second.
pub(crate) fn keys_of(pair: DirectPair) -> [ItemKey; 2] {
    let [one, other] = pair.users();
    [block_key(one, other), block_key(other, one)]
}

/// Why a chat is refused, given the items at [`keys_of`] its pair.
pub(crate) fn refusal(found: Vec<Option<DynamoItem>>, chat: &NewDirectChat) -> Option<ChatRefusal> {
    let blockers = chat.pair.users().into_iter().zip(found).filter_map(|(user_id, block)| block.map(|_| user_id));
    let blockers: Vec<UserId> = blockers.collect();
    match blockers.contains(&chat.created_by) {
        true => Some(ChatRefusal::Blocking),
        false => (!blockers.is_empty()).then_some(ChatRefusal::Blocked),
    }
}

/// Adds the conditions that no block prevents the member from writing.
pub(crate) fn unless_blocked(member: Write) -> Write {
    member.when(Condition::Absent(BLOCKED)).when(Condition::Absent(BLOCKING))
}

/// The block that prevents a member from writing. If both have blocked each other, each gets the refusal that they can
/// undo.
pub(crate) fn block_of(member: &DynamoItem) -> Option<SendRefusal> {
    if member.contains_key(BLOCKING) {
        Some(SendRefusal::Blocking)
    } else {
        member.contains_key(BLOCKED).then_some(SendRefusal::Blocked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::DynamoServer;

    #[tokio::test]
    async fn a_user_blocks_as_many_as_the_bound_and_no_more() {
        let server = DynamoServer::with_tables().await;
        let store = server.store();
        let [user_id, one, other] = [1, 2, 3].map(|n| UserId::from_bytes([n; 16]));
        let nearly_all = item([("count", Some(number(BLOCKS_MAX as u64 - 1)))]);
        server.put(ItemKey::of(Table::Blocks, user_id, ALL_BLOCKS), nearly_all).await;
        assert!(store.block(user_id, one).await.unwrap());
        assert!(!store.block(user_id, other).await.unwrap());
        assert!(store.block(user_id, one).await.unwrap(), "one who is blocked stays so");
        store.unblock(user_id, one).await.unwrap();
        assert!(store.block(user_id, other).await.unwrap());
    }
}
