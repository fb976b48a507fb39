use std::fs::{self, File, TryLockError};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use anyhow::{Context, bail, ensure};
use domain::limits::RETENTION;
use domain::{Body, ChatId, ClientMessageId, ContentType, DeviceId, Timestamp, Ttl, UpdateAction, UserId};
use keyfile::{KeyFile, Keys};
use ports::lock;
use protocol::frame::{ClientFrame, Inbound, RequestId, SendMessage, UpdateMessage};
use protocol::rest::Tokens;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// State that survives between runs: the device, its tokens, and unsent messages and updates. Clones share one profile. A lock
/// admits one process at a time, because two processes with the same device would disconnect each other.
#[derive(Clone)]
pub(crate) struct Profile {
    shared: Arc<ProfileState>,
}

struct ProfileState {
    file: KeyFile<StoredProfile>,
    kept: Mutex<StoredProfile>,
    /// Released when the process ends, even in a crash.
    _lock: File,
}

/// The file of a profile, replaced atomically and readable by its owner only.
#[derive(Clone, Serialize, Deserialize)]
struct StoredProfile {
    server: String,
    device_id: DeviceId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tokens: Option<Tokens>,
    /// The owner of the tokens, so that a run can start without the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    person: Option<SignedInUser>,
    #[serde(default)]
    unsent: Vec<Unsent>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    unsent_updates: Vec<UnsentUpdate>,
}

impl Keys for StoredProfile {
    const FILE: &'static str = "session.json";
    const VERSION: u32 = 1;
    const LOSS: &'static str = "this device signs in again, and what it has not sent is lost";
}

/// The signed-in user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SignedInUser {
    pub(crate) user_id: UserId,
    pub(crate) name: String,
}

/// Unsent messages and updates of an earlier run.
pub(crate) struct TakenUp {
    /// In the order they were written.
    pub(crate) fresh: Vec<(SendMessage, Timestamp)>,
    /// In the order they were written.
    pub(crate) updates: Vec<UpdateMessage>,
    /// Messages and edits older than the server's deduplication window, as text only.
    pub(crate) stale: Vec<String>,
}

/// A message without a known result.
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

/// An update without a known result.
#[derive(Clone, Serialize, Deserialize)]
struct UnsentUpdate {
    client_message_id: ClientMessageId,
    /// The `update_message` frame that requests it.
    frame: String,
    written_at: Timestamp,
}

impl UnsentUpdate {
    fn new(update: &UpdateMessage, written_at: Timestamp) -> Self {
        let frame = Inbound { request_id: RequestId::new("u"), frame: ClientFrame::UpdateMessage(update.clone()) };
        Self { client_message_id: update.client_message_id, frame: frame.encode(), written_at }
    }

    /// A stored update was valid when it was written, but the file may have been edited by hand.
    fn parse(&self) -> Option<UpdateMessage> {
        match Inbound::parse(&self.frame).ok()?.frame {
            ClientFrame::UpdateMessage(update) => Some(update),
            _ => None,
        }
    }
}

impl Profile {
    /// The default server.
    const SERVER: &'static str = "http://127.0.0.1:8080";

    /// Opens or creates the named profile in the user's state directory.
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
        let file = KeyFile::<StoredProfile>::new(&directory);
        let kept = match (file.read()?, server) {
            (None, server) => StoredProfile {
                server: server.unwrap_or(Self::SERVER).to_owned(),
                device_id: Uuid::new_v4().into(),
                tokens: None,
                person: None,
                unsent: Vec::new(),
                unsent_updates: Vec::new(),
            },
            (Some(kept), Some(server)) if kept.server != server && kept.tokens.is_some() => {
                let known = kept.server;
                bail!("profile `{name}` is signed in at {known}; choose another one for {server} with --profile")
            }
            (Some(kept), server) => StoredProfile { server: server.map_or(kept.server, str::to_owned), ..kept },
        };
        Ok(Self { shared: Arc::new(ProfileState { file, kept: Mutex::new(kept), _lock: lock }) })
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

    /// Stores or clears the tokens. Blocks on the disk.
    pub(crate) fn keep_tokens(&self, tokens: Option<&Tokens>) -> anyhow::Result<()> {
        self.change(|kept| kept.tokens = tokens.cloned())
    }

    /// The signed-in user; `None` without tokens.
    pub(crate) fn person(&self) -> Option<SignedInUser> {
        let kept = self.kept();
        kept.person.clone().filter(|_| kept.tokens.is_some())
    }

    /// Stores the signed-in user. Blocks on the disk.
    pub(crate) fn keep_person(&self, person: &SignedInUser) -> anyhow::Result<()> {
        self.change(|kept| kept.person = Some(person.clone()))
    }

    /// Stores a message before it is sent. Blocks on the disk.
    pub(crate) fn keep_unsent(&self, message: &SendMessage, written_at: Timestamp) -> anyhow::Result<()> {
        let unsent = Unsent {
            client_message_id: message.client_message_id,
            chat_id: message.chat_id,
            content: message.body.content.as_str().to_owned(),
            content_type: message.body.content_type,
            ttl_seconds: message.ttl.map(|ttl| ttl.as_duration().as_secs()),
            written_at,
        };
        self.change(|kept| kept.unsent.push(unsent))
    }

    /// Stores an update before it is sent. Blocks on the disk.
    pub(crate) fn keep_unsent_update(&self, update: &UpdateMessage, written_at: Timestamp) -> anyhow::Result<()> {
        self.change(|kept| kept.unsent_updates.push(UnsentUpdate::new(update, written_at)))
    }

    /// Removes a message or an update after its result is known. Blocks on the disk.
    pub(crate) fn forget_unsent(&self, client_message_id: ClientMessageId) -> anyhow::Result<()> {
        self.change(|kept| {
            kept.unsent.retain(|unsent| unsent.client_message_id != client_message_id);
            kept.unsent_updates.retain(|unsent| unsent.client_message_id != client_message_id);
        })
    }

    /// Takes the unsent messages and updates of an earlier run. The server deduplicates sends for a week; an older message could be
    /// stored twice, so it is not sent again.
    pub(crate) fn take_up_unsent(&self, now: Timestamp) -> anyhow::Result<TakenUp> {
        let (mut fresh, mut stale) = (Vec::new(), Vec::new());
        for unsent in self.kept().unsent.clone() {
            let Unsent { client_message_id, chat_id, content, content_type, ttl_seconds, written_at } = unsent;
            if now.since(written_at) >= RETENTION {
                stale.push(content);
                continue;
            }
            // A stored message was valid when it was written, but the file may have been edited by hand.
            let Ok(content) = content.try_into() else { continue };
            let ttl = ttl_seconds.and_then(Ttl::from_secs);
            fresh.push((
                SendMessage { client_message_id, chat_id, body: Body::new(content, content_type), ttl },
                written_at,
            ));
        }
        let is_fresh = |written_at: Timestamp| now.since(written_at) < RETENTION;
        let (recent, old): (Vec<_>, Vec<_>) =
            self.kept().unsent_updates.clone().into_iter().partition(|unsent| is_fresh(unsent.written_at));
        stale.extend(old.iter().filter_map(UnsentUpdate::parse).filter_map(|update| match update.action {
            UpdateAction::Edit(body) => Some(body.content.as_str().to_owned()),
            UpdateAction::Delete | UpdateAction::React(_) | UpdateAction::Unreact(_) => None,
        }));
        if !stale.is_empty() || !old.is_empty() {
            self.change(|kept| {
                kept.unsent.retain(|unsent| is_fresh(unsent.written_at));
                kept.unsent_updates.retain(|unsent| is_fresh(unsent.written_at));
            })?;
        }
        let updates = recent.iter().filter_map(UnsentUpdate::parse).collect();
        Ok(TakenUp { fresh, updates, stale })
    }

    fn change(&self, change: impl FnOnce(&mut StoredProfile)) -> anyhow::Result<()> {
        let mut kept = self.kept();
        change(&mut kept);
        self.shared.file.write(&kept).context("the profile cannot be kept")
    }

    fn kept(&self) -> MutexGuard<'_, StoredProfile> {
        lock(&self.shared.kept)
    }
}

/// The directory for program state that users do not edit (XDG_STATE_HOME).
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
            body: Body::new(format!("message {n}").try_into().unwrap(), ContentType::Text),
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
    fn unsent_messages_are_resumed_in_order_within_the_deduplication_window() {
        let directory = tempfile::tempdir().unwrap();
        let profile = open(&directory, None).unwrap();
        let written_at = Timestamp::from_millis(1_000_000);
        for n in 1..=3 {
            profile.keep_unsent(&message(n), written_at + Duration::from_secs(n.into())).unwrap();
        }
        profile.forget_unsent(message(2).client_message_id).unwrap();
        drop(profile);

        let profile = open(&directory, None).unwrap();
        let TakenUp { fresh, stale, .. } = profile.take_up_unsent(written_at).unwrap();
        let sends: Vec<SendMessage> = fresh.into_iter().map(|(send, _)| send).collect();
        assert_eq!((sends, stale), (vec![message(1), message(3)], vec![]));
        let TakenUp { fresh, stale, .. } =
            profile.take_up_unsent(written_at + Duration::from_secs(1) + RETENTION).unwrap();
        assert_eq!((fresh.len(), stale), (1, vec!["message 1".to_owned()]));
        assert_eq!(profile.take_up_unsent(written_at).unwrap().fresh.len(), 1, "what is let go is gone");
    }

    #[test]
    fn unsent_updates_are_resumed_in_order_within_the_deduplication_window() {
        let update = |n: u8, action| UpdateMessage {
            client_message_id: ClientMessageId::from_bytes([n; 16]),
            chat_id: ChatId::from_bytes([9; 16]),
            target: domain::Sequence(7),
            action,
        };
        let edit = Body::new("second".to_owned().try_into().unwrap(), ContentType::Text);
        let all = [
            update(1, UpdateAction::Edit(edit)),
            update(2, UpdateAction::React("👍".parse().unwrap())),
            update(3, UpdateAction::Delete),
            update(4, UpdateAction::Unreact("ok".parse().unwrap())),
        ];
        let directory = tempfile::tempdir().unwrap();
        let profile = open(&directory, None).unwrap();
        let written_at = Timestamp::from_millis(1_000_000);
        for (n, update) in (1..).zip(&all) {
            profile.keep_unsent_update(update, written_at + Duration::from_secs(n)).unwrap();
        }
        profile.forget_unsent(all[2].client_message_id).unwrap();
        drop(profile);

        let profile = open(&directory, None).unwrap();
        let TakenUp { fresh, updates, stale } = profile.take_up_unsent(written_at).unwrap();
        assert_eq!((fresh, stale), (vec![], vec![]));
        assert_eq!(updates, [all[0].clone(), all[1].clone(), all[3].clone()]);
        let TakenUp { updates, stale, .. } =
            profile.take_up_unsent(written_at + Duration::from_secs(2) + RETENTION).unwrap();
        assert_eq!((updates, stale), (vec![all[3].clone()], vec!["second".to_owned()]));
        assert_eq!(profile.take_up_unsent(written_at).unwrap().updates.len(), 1, "what is let go is gone");
    }

    #[test]
    fn a_name_stays_in_its_directory() {
        for name in ["", "../me", "a/b", "a b"] {
            let refusal = Profile::open(name, None).err().unwrap().to_string();
            assert_eq!(refusal, format!("profile `{name}` is no name; use letters, digits, - and _"));
        }
    }
}
