use std::collections::BTreeMap;

use domain::{ChatId, Sequence};

use super::chat::Floor;

/// One client: its connections, its questions, and how far it has come.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// Whether it hands out messages in order, and is owed all of them.
    pub(super) is_reader: bool,
    pub(super) is_stopped: bool,
    /// How many connections it has had.
    pub(super) connections: u64,
    /// How often a connection began or ended.
    pub(super) breaks: u64,
    /// The entry in which its last connection stood.
    pub(super) connected: u64,
    /// The last sequence that it handed out in each chat, or the place from which it began.
    pub(super) positions: BTreeMap<ChatId, Sequence>,
    /// Syncs without an answer, by chat and cursor, each with what it must see.
    pub(super) syncing: BTreeMap<(ChatId, Sequence), Floor>,
    /// Questions over REST without an answer.
    pub(super) asking: BTreeMap<ChatId, Floor>,
}

impl Reader {
    pub(super) fn connect(&mut self, entry: u64) {
        self.connections += 1;
        self.connected = entry;
        self.disconnect();
    }

    /// What was asked on the connection is not answered any more.
    pub(super) fn disconnect(&mut self) {
        self.breaks += 1;
        self.syncing.clear();
    }

    pub(super) fn restart(&mut self, positions: &[(ChatId, Sequence)]) {
        self.is_reader = true;
        self.is_stopped = false;
        self.positions = positions.iter().copied().collect();
    }
}
