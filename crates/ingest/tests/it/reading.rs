use domain::{ChatId, IngestError, Sequence, UserId, WatermarkKind, Watermarks};
use ports::{AdvanceRequest, Ingest, Page, Signal, SyncRequest};
use tidings_ingest::Config;

use crate::world::{OPEN, World, request};

async fn sync(world: &World, user_id: UserId, chat_id: ChatId, after: u64, limit: usize) -> Result<Page, IngestError> {
    world.ingest.sync(SyncRequest { user_id, chat_id, after: Sequence(after), limit, assertion: None }).await
}

async fn chat_with(world: &World, messages: usize) -> (ChatId, UserId) {
    let user = world.user();
    let chat = world.group(user, &[]).await;
    for n in 0..messages {
        world.ingest.send(request(chat, user, &n.to_string())).await.unwrap();
    }
    (chat, user)
}

fn advance(user_id: UserId, chat_id: ChatId, kind: WatermarkKind, to: u64) -> AdvanceRequest {
    AdvanceRequest { user_id, chat_id, kind, to: Sequence(to), assertion: None }
}

#[tokio::test]
async fn g6_sync_returns_every_message_above_the_cursor_in_bounded_pages() {
    let world = World::new(OPEN, Config::default());
    let (chat, user) = chat_with(&world, 25).await;
    let (mut after, mut seen) = (3, Vec::new());
    loop {
        let page = sync(&world, user, chat, after, 10).await.unwrap();
        assert!(page.messages.len() <= 10);
        seen.extend(page.messages.iter().map(|message| message.sequence.0));
        if page.examined == page.head {
            break;
        }
        after = page.examined.0;
    }
    assert_eq!(seen, (4..=25).collect::<Vec<_>>());
}

#[tokio::test]
async fn only_members_sync_and_a_cursor_above_the_head_is_refused_with_the_head() {
    let world = World::new(OPEN, Config::default());
    let (chat, user) = chat_with(&world, 3).await;
    assert!(matches!(sync(&world, world.user(), chat, 0, 10).await, Err(IngestError::NotAMember)));
    let nowhere = ChatId::from_bytes([7; 16]);
    assert!(matches!(sync(&world, user, nowhere, 0, 10).await, Err(IngestError::ChatNotFound)));
    let refused = sync(&world, user, chat, 4, 10).await;
    assert!(matches!(refused, Err(IngestError::AboveHead { head: Sequence(3) })));
    assert!(sync(&world, user, chat, 3, 10).await.unwrap().messages.is_empty());
}

#[tokio::test]
async fn g7_a_watermark_never_passes_the_head_and_never_moves_back() {
    let world = World::new(OPEN, Config::default());
    let (chat, user) = chat_with(&world, 3).await;
    let advance = |to| world.ingest.advance(advance(user, chat, WatermarkKind::Delivered, to));
    assert!(matches!(advance(4).await, Err(IngestError::AboveHead { head: Sequence(3) })));
    let at_two = Watermarks { delivered: Sequence(2), read: Sequence(0) };
    assert_eq!(advance(2).await.unwrap(), at_two);
    assert_eq!(advance(1).await.unwrap(), at_two);
    let outsider = world.ingest.advance(self::advance(world.user(), chat, WatermarkKind::Read, 1)).await;
    assert!(matches!(outsider, Err(IngestError::NotAMember)));
}

#[tokio::test]
async fn g10_every_move_of_a_watermark_is_signalled_and_nothing_else_is() {
    let world = World::new(OPEN, Config::default());
    let (chat_id, user_id) = chat_with(&world, 3).await;
    for to in [2, 2, 1, 3, 4] {
        drop(world.ingest.advance(advance(user_id, chat_id, WatermarkKind::Read, to)).await);
    }
    let moved = |to| Signal::Receipt { chat_id, user_id, watermarks: Watermarks::at(Sequence(to)) };
    assert_eq!(*world.signals.0.lock().unwrap(), [moved(2), moved(3)]);
}
