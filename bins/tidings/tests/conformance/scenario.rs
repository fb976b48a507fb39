//! The list of scenarios, in the format of `clients/conformance/README.md`. Unknown verbs and fields fail.

use std::collections::BTreeMap;

use domain::{Body, ContentType, Metadata, Reaction, UpdateAction};
use serde::{Deserialize, Deserializer};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScenarioList {
    version: u32,
    scenarios: Vec<ConformanceScenario>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConformanceScenario {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) settings: BTreeMap<String, String>,
    pub(crate) steps: Vec<ScenarioStep>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum ScenarioStep {
    SignIn { device: String, user: String },
    Connect { device: String },
    Disconnect { device: String },
    RestartDevice { device: String },
    OpenAgain { device: String, r#as: String },
    Cut { device: String },
    Block { device: String },
    Stall { device: String },
    Unblock { device: String },
    Hold { device: String },
    Release { device: String },
    KillServer {},
    StopServer {},
    StartServer {},
    CreateChat { device: String, chat: String, r#type: domain::ChatType, users: Vec<String> },
    AddMember { device: String, chat: String, user: String },
    RemoveMember { device: String, chat: String, user: String },
    Leave { device: String, chat: String },
    Send(SendStep),
    Queue(SendStep),
    Update(UpdateStep),
    QueueUpdate(UpdateStep),
    MarkRead { device: String, chat: String, sequence: u64 },
    Typing { device: String, chat: String, is_typing: bool },
    Watch { device: String, users: Vec<String> },
    Unwatch { device: String, users: Vec<String> },
    SetVisibility { device: String, visibility: domain::PresenceVisibility },
    RevokeSession { device: String, target: String },
    ExpectConnected { device: String },
    ExpectDisconnected { device: String },
    ExpectMessages { device: String, chat: String, contents: MessageContents },
    ExpectCopies { device: String, chat: String, messages: Vec<ExpectedCopy> },
    ExpectHistoryCopies { device: String, chat: String, messages: Vec<ExpectedCopy> },
    ExpectHeld { device: String, chat: String, content: String },
    ExpectAcked { device: String },
    ExpectQueued { device: String, contents: MessageContents },
    ExpectFailed { device: String, id: String, code: protocol::ErrorCode, reason: Option<String> },
    ExpectHistory { device: String, chat: String, contents: MessageContents },
    ExpectUnread { device: String, chat: String, count: u64 },
    ExpectWatermarks(ExpectedWatermarks),
    ExpectReceipt(ExpectedWatermarks),
    ExpectTyping { device: String, chat: String, user: String, is_typing: bool },
    ExpectPresence { device: String, user: String, status: protocol::frame::PresenceStatus },
    ExpectExpired { device: String, chat: String, sequences: Vec<u64> },
    ExpectChatUpdated { device: String, chat: String, change: protocol::frame::ChatChangeKind, user: Option<String> },
    ExpectChatGone { device: String, chat: String },
    ExpectStopped { device: String, reason: Stopped },
    ExpectTokenRenewed { device: String },
    ExpectHistoryRefused { device: String, chat: String, code: protocol::ErrorCode },
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SendStep {
    pub(crate) device: String,
    pub(crate) chat: String,
    pub(crate) contents: MessageContents,
    pub(crate) id: Option<String>,
    pub(crate) ttl_seconds: Option<u64>,
    pub(crate) deduplicated: Option<bool>,
    pub(crate) metadata: Option<Metadata>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct UpdateStep {
    pub(crate) device: String,
    pub(crate) chat: String,
    pub(crate) sequence: u64,
    pub(crate) action: UpdateVerb,
    pub(crate) content: Option<String>,
    pub(crate) reaction: Option<String>,
    pub(crate) id: Option<String>,
    pub(crate) deduplicated: Option<bool>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum UpdateVerb {
    Edit,
    Delete,
    React,
    Unreact,
}

impl UpdateStep {
    pub(crate) fn action(&self) -> UpdateAction {
        let reaction = || -> Reaction {
            self.reaction.as_ref().expect("it has a reaction").parse().expect("reactions of scenarios are valid")
        };
        match self.action {
            UpdateVerb::Edit => {
                let content = self.content.clone().expect("an edit has a content");
                let content = content.try_into().expect("texts of scenarios are contents");
                UpdateAction::Edit(Body::new(content, ContentType::Text))
            }
            UpdateVerb::Delete => UpdateAction::Delete,
            UpdateVerb::React => UpdateAction::React(reaction()),
            UpdateVerb::Unreact => UpdateAction::Unreact(reaction()),
        }
    }
}

/// A message after updates.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExpectedCopy {
    pub(crate) content: String,
    #[serde(default)]
    pub(crate) edits: u32,
    #[serde(default)]
    pub(crate) reactions: Vec<ExpectedReaction>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExpectedReaction {
    pub(crate) reaction: String,
    pub(crate) count: u32,
    #[serde(default)]
    pub(crate) mine: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExpectedWatermarks {
    pub(crate) device: String,
    pub(crate) chat: String,
    pub(crate) user: String,
    pub(crate) delivered: Option<u64>,
    pub(crate) read: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Stopped {
    SignedOut,
    DuplicateConnection,
}

/// Texts; `1..600` expands to that many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MessageContents(pub(crate) Vec<String>);

impl<'de> Deserialize<'de> for MessageContents {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut contents = Vec::new();
        for text in Vec::<String>::deserialize(deserializer)? {
            let range = text.split_once("..").and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
            match range {
                Some((first, last)) => contents.extend((first..=last).map(|n: u64| n.to_string())),
                None => contents.push(text),
            }
        }
        Ok(Self(contents))
    }
}

/// Every scenario, in the order of the list.
pub(crate) fn all() -> Vec<ConformanceScenario> {
    let text = include_str!("../../../../clients/conformance/scenarios.json");
    let list: ScenarioList = serde_json::from_str(text).expect("every verb and field is known");
    assert_eq!(list.version, 1);
    list.scenarios
}

impl ConformanceScenario {
    /// The name as an identifier: other characters than letters and digits become underscores.
    pub(crate) fn test_name(&self) -> String {
        let words = self.name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
        words.collect::<Vec<_>>().join("_").to_lowercase()
    }
}
