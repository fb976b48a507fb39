use std::cmp::Reverse;

use aws_lc_rs::digest;
use domain::ChatId;

/// Ranks processes for a chat: the first is the owner, and the next takes over while the first is unavailable.
///
/// Rendezvous hashing: every process has a weight for every chat, and the heaviest is first. So callers with the same
/// list agree on the owner without coordination, and a process that joins or leaves moves only its own chats.
pub(crate) fn rank<T>(chat_id: ChatId, mut processes: Vec<T>, id: impl Fn(&T) -> &str) -> Vec<T> {
    processes.sort_by_cached_key(|process| Reverse(weight(chat_id, id(process))));
    processes
}

/// Must be the same on every machine and in every version: two versions share the chats during a rolling update.
fn weight(chat_id: ChatId, id: &str) -> u64 {
    let mut context = digest::Context::new(&digest::SHA256);
    context.update(&chat_id.to_bytes());
    context.update(id.as_bytes());
    let mut first = [0; 8];
    first.copy_from_slice(&context.finish().as_ref()[..8]);
    u64::from_be_bytes(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chats() -> impl Iterator<Item = ChatId> {
        (0..10_000u128).map(|n| ChatId::from_bytes(n.to_be_bytes()))
    }

    fn owner<'a>(chat_id: ChatId, processes: &[&'a str]) -> &'a str {
        rank(chat_id, processes.to_vec(), |id| *id)[0]
    }

    #[test]
    fn weights_are_stable() {
        assert_eq!(weight(ChatId::from_bytes([7; 16]), "ingest-1"), 18_105_742_021_629_350_656);
        assert_eq!(weight(ChatId::from_bytes([7; 16]), "ingest-2"), 8_819_604_019_052_234_252);
    }

    #[test]
    fn every_process_owns_about_as_many_chats() {
        let processes = ["a", "b", "c", "d", "e"];
        for process in processes {
            let owned = chats().filter(|chat_id| owner(*chat_id, &processes) == process).count();
            assert!((1850..2150).contains(&owned), "{process} owns {owned} of 10000");
        }
    }

    #[test]
    fn a_process_that_goes_moves_its_own_chats_alone_and_to_the_next_in_rank() {
        let (all, fewer) = (["a", "b", "c", "d", "e"], ["a", "b", "d", "e"]);
        for chat_id in chats() {
            let ranking = rank(chat_id, all.to_vec(), |id| *id);
            let heir = if ranking[0] == "c" { ranking[1] } else { ranking[0] };
            assert_eq!(owner(chat_id, &fewer), heir);
        }
    }

    #[test]
    fn the_order_in_which_processes_are_known_does_not_matter() {
        for chat_id in chats().take(100) {
            assert_eq!(owner(chat_id, &["a", "b", "c"]), owner(chat_id, &["c", "a", "b"]));
        }
    }
}
