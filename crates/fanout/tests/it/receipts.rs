use domain::{ChatId, Sequence, UserId, Watermarks};
use ports::{Signal, SignalSender};
use protocol::frame::{ReceiptBody, ServerFrame};

use crate::world::World;

async fn moved(world: &World, chat_id: ChatId, user_id: UserId, delivered: u64, read: u64) {
    let watermarks = Watermarks { delivered: Sequence(delivered), read: Sequence(read) };
    assert!(world.fanout.signal(Signal::Receipt { chat_id, user_id, watermarks }).await.unwrap());
}

fn tell(world: &World) {
    let fanout = world.fanout.clone();
    tokio::spawn(async move { fanout.push_receipts().await });
}

fn receipt(frame: &ServerFrame) -> &ReceiptBody {
    let ServerFrame::Receipt(receipt) = frame else { panic!("{frame:?}") };
    receipt
}

#[tokio::test(start_paused = true)]
async fn g10_moves_within_the_debounce_are_pushed_once_to_all_members_and_the_readers_own_devices() {
    let mut world = World::new();
    let (reader, other) = (world.user(), world.user());
    world.connect(reader, "a").await;
    world.connect(other, "a").await;
    let chat = world.group(reader, &[other]).await;
    tell(&world);
    for (delivered, read) in [(1, 0), (3, 1), (2, 2)] {
        moved(&world, chat, reader, delivered, read).await;
    }
    let pushes = world.pushes(1).await;
    let expected =
        ReceiptBody { chat_id: chat, user_id: reader, delivered_sequence: Sequence(3), read_sequence: Sequence(2) };
    assert_eq!(receipt(&pushes[0].2), &expected);
    let mut recipients = pushes[0].1.recipients.clone();
    recipients.sort();
    assert_eq!(recipients, [reader, other]);

    moved(&world, chat, reader, 4, 4).await;
    assert_eq!(receipt(&world.pushes(1).await[0].2).read_sequence, Sequence(4));
}

#[tokio::test(start_paused = true)]
async fn g10_receipts_are_pushed_in_chats_of_up_to_a_hundred_members() {
    let mut world = World::new();
    let members: Vec<_> = (0..101).map(|_| world.user()).collect();
    world.connect(members[0], "a").await;
    let large = world.group(members[0], &members[1..]).await;
    let small = world.group(members[0], &members[1..100]).await;
    moved(&world, large, members[1], 1, 1).await;
    moved(&world, small, members[1], 2, 2).await;
    tell(&world);
    let pushes = world.pushes(1).await;
    assert_eq!(receipt(&pushes[0].2).chat_id, small);
}

#[tokio::test(start_paused = true)]
async fn receipts_of_former_members_are_not_pushed() {
    let mut world = World::new();
    let (owner, stranger) = (world.user(), world.user());
    world.connect(owner, "a").await;
    let chat = world.group(owner, &[]).await;
    moved(&world, chat, stranger, 1, 1).await;
    moved(&world, chat, owner, 1, 1).await;
    tell(&world);
    assert_eq!(receipt(&world.pushes(1).await[0].2).user_id, owner);
}
