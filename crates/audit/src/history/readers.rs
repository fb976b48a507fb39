use std::collections::BTreeMap;

use domain::{ChatId, Sequence};

use super::chat::Floor;

/// State of one client: connections, pending requests and positions.
#[derive(Debug, Default)]
pub(super) struct ClientState {
    /// Whether it renders messages in order, so that it must receive all of them.
    pub(super) is_reader: bool,
    pub(super) is_stopped: bool,
    /// Number of connections so far.
    pub(super) connections: u64,
    /// Number of connects and disconnects.
    pub(super) breaks: u64,
    /// The entry of its last connect.
    pub(super) connected: u64,
    /// The last rendered sequence in each chat, or the start position.
    pub(super) positions: BTreeMap<ChatId, Sequence>,
    /// Pending syncs by chat and cursor, each with the oldest state that the response may show.
    pub(super) syncing: BTreeMap<(ChatId, Sequence), Floor>,
    /// Pending requests over REST.
    pub(super) asking: BTreeMap<ChatId, Floor>,
}

impl ClientState {
    pub(super) fn connect(&mut self, entry: u64) {
        self.connections += 1;
        self.connected = entry;
        self.disconnect();
    }

    /// Drops pending requests of the connection: they get no response.
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
