//! Measures the embedded store on a directory: `limit DIRECTORY [MESSAGES]`.
//!
//! First what it takes at three depths beside what the disk alone does, then a sustained load of `MESSAGES` (a million)
//! over 10,000 chats in batches of 500, and how long the store takes to open after that.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::{ChatId, Content, ContentType, UserId};
use ports::{ChatWriter, Clock, Ids, MessageWriter, NewGroup, NewMessage, RandomIds, SystemClock};
use tidings_embedded::{Config, EmbeddedStore, store_limit};
use uuid::Uuid;

/// As in the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const CHATS: usize = 10_000;
const BATCH: usize = 500;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let directory = args.next().ok_or("name a directory")?;
    let messages: usize = args.next().map_or(Ok(1_000_000), |text| text.parse())?;
    let directory = tempfile::tempdir_in(directory)?;
    for in_flight in [1, 64, 1024] {
        let limit =
            store_limit(&directory.path().join(in_flight.to_string()), in_flight, Duration::from_secs(5)).await?;
        println!(
            "in flight {:>5}   store {:>8.0}/s   raw {:>8.0}/s   longest {:?}",
            limit.in_flight, limit.store_sends_per_second, limit.raw_sends_per_second, limit.longest_send
        );
    }
    sustained(&directory.path().join("sustained"), messages).await
}

async fn sustained(directory: &Path, messages: usize) -> Result<(), Box<dyn std::error::Error>> {
    let store = open(directory)?;
    let sender = RandomIds.ulid().into();
    let mut chats = vec![];
    for _ in 0..CHATS / BATCH {
        let created = (0..BATCH).map(|_| store.create_group(group(sender)));
        for chat in futures_util::future::try_join_all(created).await? {
            chats.push(chat.chat().chat_id);
        }
    }
    let mut times = vec![];
    let started = Instant::now();
    for n in 0..messages / BATCH {
        let batch = (0..BATCH).map(|m| message(chats[(n * 7919 + m * 104_729) % CHATS], sender)).collect();
        let sent = Instant::now();
        store.append(batch).await?;
        times.push(sent.elapsed());
    }
    let rate = messages as f64 / started.elapsed().as_secs_f64();
    times.sort_unstable();
    let median = times[times.len() / 2];
    let stalls = times.iter().filter(|time| **time > 10 * median).count();
    println!(
        "sustained {rate:.0}/s   batch median {median:?}   p99 {:?}   longest {:?}   over 10 medians {stalls}",
        times[times.len() * 99 / 100],
        times[times.len() - 1]
    );
    let closing = Instant::now();
    store.close().await;
    println!("close {:?}", closing.elapsed());
    let opening = Instant::now();
    let store = open(directory)?;
    println!("open {:?}", opening.elapsed());
    store.close().await;
    Ok(())
}

fn open(directory: &Path) -> Result<EmbeddedStore, tidings_embedded::OpenError> {
    EmbeddedStore::open(directory, Config::default(), Arc::new(SystemClock), Arc::new(RandomIds))
}

fn group(owner: UserId) -> NewGroup {
    NewGroup {
        chat_id: RandomIds.ulid().into(),
        name: "limit".to_owned().try_into().expect("the name is valid"),
        created_by: owner,
        members: vec![],
        created_at: SystemClock.now(),
    }
}

fn message(chat_id: ChatId, sender_id: UserId) -> NewMessage {
    NewMessage {
        chat_id,
        sender_id,
        client_message_id: Uuid::new_v4().into(),
        message_id: RandomIds.ulid().into(),
        content: Content::try_from("x".repeat(128)).expect("the content is valid"),
        content_type: ContentType::Text,
        ttl: None,
        created_at: SystemClock.now(),
        origin_connection_id: None,
    }
}
