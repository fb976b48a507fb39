use std::fs::{self, File, TryLockError};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, bail, ensure};
use domain::limits::RETENTION;
use domain::{ChatId, ClientMessageId, ContentType, DeviceId, Timestamp, Ttl, UserId};
use keyfile::{KeyFile, Keys};
use protocol::frame::SendMessage;
use protocol::rest::Tokens;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// What is kept between runs: who this device is, how it proves that, and what it has not sent yet. Clones are the same
/// profile. One process has it at a time, because two with the same device would throw each other out.
#[derive(Clone)]
pub(crate) struct Profile {
    shared: Arc<Shared>,
}

struct Shared {
    file: KeyFile<Kept>,
    kept: Mutex<Kept>,
    /// Let go when the process ends, however it ends.
    _lock: File,
}

/// The file of a profile. Written whole or not at all, for the eyes of its owner alone.
#[derive(Clone, Serialize, Deserialize)]
struct Kept {
    server: String,
    device_id: DeviceId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tokens: Option<Tokens>,
    /// Whose they are, so that a run can begin without the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    person: Option<Person>,
    #[serde(default)]
    unsent: Vec<Unsent>,
}

impl Keys for Kept {
    const FILE: &'static str = "session.json";
    const VERSION: u32 = 1;
    const LOSS: &'static str = "this device signs in again, and what it has not sent is lost";
}

/// Who is signed in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Person {
    pub(crate) user_id: UserId,
    pub(crate) name: String,
}

/// What an earlier run has not sent.
pub(crate) struct TakenUp {
    /// In the order it was written.
    pub(crate) fresh: Vec<(SendMessage, Timestamp)>,
    /// Older than a server recognizes sends, as text alone.
    pub(crate) stale: Vec<String>,
}

/// A message that is not known to be sent.
#[derive(Clone, Serialize, Deserialize)]
struct Unsent {
    client_message_id: ClientMessageId,
    chat_id: ChatId,
    content: String,
    content_type: ContentType,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ttl_seconds: Option<u64>,
    written_at: Timestamp,
}

impl Profile {
    /// The server of somebody who has named none.
    const SERVER: &'static str = "http://127.0.0.1:8080";

    /// Opens the profile of that name in the user's state directory, and makes it if there is none.
    pub(crate) fn open(name: &str, server: Option<&str>) -> anyhow::Result<Self> {
        let is_plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
        ensure!(is_plain, "profile `{name}` is no name; use letters, digits, - and _");
        let directory = state_directory()?.join("tidings").join("chat").join(name);
        Self::open_in(directory, name, server)
    }

    fn open_in(directory: PathBuf, name: &str, server: Option<&str>) -> anyhow::Result<Self> {
        let shown = directory.display();
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&directory).with_context(|| format!("cannot make `{shown}`"))?;
        let lock = File::create(directory.join("lock")).with_context(|| format!("cannot write to `{shown}`"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                bail!("another `tidings chat` has profile `{name}`; end it, or choose another one with --profile")
            }
            Err(TryLockError::Error(error)) => return Err(error).with_context(|| format!("cannot lock `{shown}`")),
        }
        let file = KeyFile::<Kept>::new(&directory);
        let kept = match (file.read()?, server) {
            (None, server) => Kept {
                server: server.unwrap_or(Self::SERVER).to_owned(),
                device_id: Uuid::new_v4().into(),
                tokens: None,
                person: None,
                unsent: Vec::new(),
            },
            (Some(kept), Some(server)) if kept.server != server && kept.tokens.is_some() => {
                let known = kept.server;
                bail!("profile `{name}` is signed in at {known}; choose another one for {server} with --profile")
            }
            (Some(kept), server) => Kept { server: server.map_or(kept.server, str::to_owned), ..kept },
        };
        Ok(Self { shared: Arc::new(Shared { file, kept: Mutex::new(kept), _lock: lock }) })
    }

    pub(crate) fn server(&self) -> String {
        self.kept().server.clone()
    }

    pub(crate) fn device_id(&self) -> DeviceId {
        self.kept().device_id
    }

    /// The tokens of the last sign-in, unless it has ended.
    pub(crate) fn tokens(&self) -> Option<Tokens> {
        self.kept().tokens.clone()
    }

    /// Keeps tokens, or forgets them. Blocks on the disk.
    pub(crate) fn keep_tokens(&self, tokens: Option<&Tokens>) -> anyhow::Result<()> {
        self.change(|kept| kept.tokens = tokens.cloned())
    }

    /// Who is signed in; nobody without tokens.
    pub(crate) fn person(&self) -> Option<Person> {
        let kept = self.kept();
        kept.person.clone().filter(|_| kept.tokens.is_some())
    }

    /// Keeps who is signed in. Blocks on the disk.
    pub(crate) fn keep_person(&self, person: &Person) -> anyhow::Result<()> {
        self.change(|kept| kept.person = Some(person.clone()))
    }

    /// Keeps a message that is about to be sent. Blocks on the disk.
    pub(crate) fn keep_unsent(&self, message: &SendMessage, written_at: Timestamp) -> anyhow::Result<()> {
        let SendMessage { client_message_id, chat_id, content, content_type, ttl } = message.clone();
        let ttl_seconds = ttl.map(|ttl| ttl.as_duration().as_secs());
        let content = content.into();
        let unsent = Unsent { client_message_id, chat_id, content, content_type, ttl_seconds, written_at };
        self.change(|kept| kept.unsent.push(unsent))
    }

    /// Forgets a message of which it is known what became. Blocks on the disk.
    pub(crate) fn forget_unsent(&self, client_message_id: ClientMessageId) -> anyhow::Result<()> {
        self.change(|kept| kept.unsent.retain(|unsent| unsent.client_message_id != client_message_id))
    }

    /// What an earlier run has not sent. A server recognizes a send for a week; what is older could be doubled, so it is let
    /// go.
    pub(crate) fn take_up_unsent(&self, now: Timestamp) -> anyhow::Result<TakenUp> {
        let (mut fresh, mut stale) = (Vec::new(), Vec::new());
        for unsent in self.kept().unsent.clone() {
            let Unsent { client_message_id, chat_id, content, content_type, ttl_seconds, written_at } = unsent;
            if now.since(written_at) >= RETENTION {
                stale.push(content);
                continue;
            }
            // What is kept was a message when it was written; a file that was changed by hand may say anything.
            let Ok(content) = content.try_into() else { continue };
            let ttl = ttl_seconds.and_then(Ttl::from_secs);
            fresh.push((SendMessage { client_message_id, chat_id, content, content_type, ttl }, written_at));
        }
        if !stale.is_empty() {
            self.change(|kept| kept.unsent.retain(|unsent| now.since(unsent.written_at) < RETENTION))?;
        }
        Ok(TakenUp { fresh, stale })
    }

    fn change(&self, change: impl FnOnce(&mut Kept)) -> anyhow::Result<()> {
        let mut kept = self.kept();
        change(&mut kept);
        self.shared.file.write(&kept).context("the profile cannot be kept")
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Nothing panics while it holds the lock, and a whole value is always there.
        self.shared.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where programs keep what they need again and nobody edits.
fn state_directory() -> anyhow::Result<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
        .context("neither XDG_STATE_HOME nor HOME names a directory to keep the sign-in in")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;

    use super::*;

    fn tokens() -> Tokens {
        Tokens {
            access_token: "access".into(),
            refresh_token: "refresh".into(),
            token_type: "Bearer".to_owned(),
            expires_in: 3600,
        }
    }

    fn message(n: u8) -> SendMessage {
        SendMessage {
            client_message_id: ClientMessageId::from_bytes([n; 16]),
            chat_id: ChatId::from_bytes([9; 16]),
            content: format!("message {n}").try_into().unwrap(),
            content_type: ContentType::Text,
            ttl: Ttl::from_secs(60),
        }
    }

    fn open(directory: &tempfile::TempDir, server: Option<&str>) -> anyhow::Result<Profile> {
        Profile::open_in(directory.path().join("me"), "me", server)
    }

    #[test]
    fn a_profile_is_the_same_device_in_every_run_and_closed_to_others() {
        let directory = tempfile::tempdir().unwrap();
        let profile = open(&directory, None).unwrap();
        assert_eq!((profile.server().as_str(), profile.tokens()), ("http://127.0.0.1:8080", None));
        profile.keep_tokens(Some(&tokens())).unwrap();
        let device_id = profile.device_id();
        drop(profile);

        let again = open(&directory, None).unwrap();
        assert_eq!((again.device_id(), again.tokens()), (device_id, Some(tokens())));
        let file = directory.path().join("me/session.json");
        assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn two_processes_do_not_share_a_profile_nor_one_profile_two_servers() {
        let directory = tempfile::tempdir().unwrap();
        let profile = open(&directory, Some("http://one")).unwrap();
        let refusal = open(&directory, None).err().unwrap().to_string();
        assert_eq!(refusal, "another `tidings chat` has profile `me`; end it, or choose another one with --profile");
        profile.keep_tokens(Some(&tokens())).unwrap();
        drop(profile);
        let refusal = open(&directory, Some("http://two")).err().unwrap().to_string();
        assert_eq!(
            refusal,
            "profile `me` is signed in at http://one; choose another one for http://two with --profile"
        );
    }

    #[test]
    fn what_was_not_sent_is_taken_up_in_order_for_as_long_as_the_server_recognizes_it() {
        let directory = tempfile::tempdir().unwrap();
        let profile = open(&directory, None).unwrap();
        let written_at = Timestamp::from_millis(1_000_000);
        for n in 1..=3 {
            profile.keep_unsent(&message(n), written_at + Duration::from_secs(n.into())).unwrap();
        }
        profile.forget_unsent(message(2).client_message_id).unwrap();
        drop(profile);

        let profile = open(&directory, None).unwrap();
        let TakenUp { fresh, stale } = profile.take_up_unsent(written_at).unwrap();
        let sends: Vec<SendMessage> = fresh.into_iter().map(|(send, _)| send).collect();
        assert_eq!((sends, stale), (vec![message(1), message(3)], vec![]));
        let TakenUp { fresh, stale } = profile.take_up_unsent(written_at + Duration::from_secs(1) + RETENTION).unwrap();
        assert_eq!((fresh.len(), stale), (1, vec!["message 1".to_owned()]));
        assert_eq!(profile.take_up_unsent(written_at).unwrap().fresh.len(), 1, "what is let go is gone");
    }

    #[test]
    fn a_name_stays_in_its_directory() {
        for name in ["", "../me", "a/b", "a b"] {
            let refusal = Profile::open(name, None).err().unwrap().to_string();
            assert_eq!(refusal, format!("profile `{name}` is no name; use letters, digits, - and _"));
        }
    }
}
