//! Selection of the moments to cut.

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::disk::{DiskNode, Inode};
use crate::model::{Cut, FileAction, FileOp, NameDurability, Recording, seen, state};

/// The purpose of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FileKind {
    /// The journal of the engine, `*.jnl`.
    Journal,
    /// A table of the engine, or the file that lists the tables.
    Table,
    Directory,
    /// Keys, the format, backups and other files.
    Other,
}

impl FileKind {
    pub(crate) fn of(recording: &Recording, op: &FileOp) -> Self {
        let inode = match &op.action {
            FileAction::Write { inode, .. } | FileAction::Resize { inode, .. } | FileAction::Sync { inode, .. } => {
                *inode
            }
            FileAction::Name(change) => change.object,
        };
        let path = &op.path;
        if matches!(recording.before.nodes[inode], DiskNode::Directory) {
            Self::Directory
        } else if path.ends_with(".jnl") {
            Self::Journal
        } else if path.contains("/keyspaces/") {
            Self::Table
        } else {
            Self::Other
        }
    }
}

/// Bytes of several sectors, enough for a hole.
const MUCH: usize = 2048;
/// The group of syncs that cover at least [`MUCH`] bytes.
const MUCH_SYNCED: &str = "sync of much";

/// The operations of a recording, in groups of similar risk.
fn groups(recording: &Recording) -> BTreeMap<(&'static str, FileKind), Vec<&FileOp>> {
    let mut groups: BTreeMap<_, Vec<&FileOp>> = BTreeMap::new();
    // Bytes of each file that were written since its last sync.
    let mut unsynced: BTreeMap<Inode, usize> = BTreeMap::new();
    for op in &recording.ops {
        let what = match &op.action {
            FileAction::Write { inode, bytes, .. } => {
                *unsynced.entry(*inode).or_default() += bytes.len();
                "write"
            }
            FileAction::Resize { .. } => "resize",
            FileAction::Sync { inode, .. } if unsynced.remove(inode).unwrap_or(0) >= MUCH => MUCH_SYNCED,
            FileAction::Sync { .. } => "sync",
            FileAction::Name(change) if change.edits.len() > 1 => "rename",
            FileAction::Name(change) if change.edits[0].to.is_some() => "create",
            FileAction::Name(_) => "remove",
        };
        groups.entry((what, FileKind::of(recording, op))).or_default().push(op);
    }
    groups
}

/// Picks cuts, each in the middle of an operation or right after it. Half of them hit the journal, most of these during
/// a large sync; a quarter hit any kind of operation, however rare, and the others any operation. A few come after the
/// last operation.
pub(crate) fn cuts(recording: &Recording, count: usize, seed: u64) -> Vec<Cut> {
    let mut random = StdRng::seed_from_u64(seed);
    let groups = groups(recording);
    let none = vec![];
    let of_journal = [MUCH_SYNCED, MUCH_SYNCED, MUCH_SYNCED, "write"]
        .map(|what| groups.get(&(what, FileKind::Journal)).unwrap_or(&none));
    let groups: Vec<_> = groups.values().collect();
    let ways = [
        (NameDurability::Ordered, 512),
        (NameDurability::Strict, 512),
        (NameDurability::Ordered, 4096),
        (NameDurability::Strict, 4096),
    ];
    let mut cuts = vec![];
    for number in 0..count {
        let group = match number % 4 {
            0 | 2 => of_journal[random.random_range(0..of_journal.len())],
            1 => groups[random.random_range(0..groups.len())],
            _ => &none,
        };
        let op = match group.len() {
            0 => &recording.ops[random.random_range(0..recording.ops.len())],
            len => group[random.random_range(0..len)],
        };
        let moment = match random.random_range(0..20) {
            0 => recording.stamps.len(),
            1..14 => op.ended,
            _ => op.ended + 1,
        };
        let (names, unit) = ways[random.random_range(0..ways.len())];
        cuts.push(Cut { names, unit, moment, seed: random.random() });
    }
    cuts
}

/// A cut in the middle of a sync of the journal, which loses a part of the data to be synced.
pub(crate) fn torn_journal(recording: &Recording, seed: u64) -> Cut {
    let mut random = StdRng::seed_from_u64(seed);
    let is_sync =
        |op: &&FileOp| matches!(op.action, FileAction::Sync { .. }) && FileKind::of(recording, op) == FileKind::Journal;
    let syncs: Vec<_> = recording.ops.iter().filter(is_sync).collect();
    loop {
        let moment = syncs[random.random_range(0..syncs.len())].ended;
        let cut = Cut { names: NameDurability::Ordered, unit: 512, moment, seed: random.random() };
        let is_whole = state(recording, cut).difference(&seen(recording, moment)).is_empty();
        if !is_whole {
            return cut;
        }
    }
}

/// The same recording with ineffective syncs of one kind.
pub(crate) fn without_syncs(recording: &Recording, kind: FileKind) -> Recording {
    let mut without = recording.clone();
    let is_left_out = |op: &FileOp| matches!(op.action, FileAction::Sync { .. }) && FileKind::of(recording, op) == kind;
    without.ops.retain(|op| !is_left_out(op));
    assert!(without.ops.len() < recording.ops.len(), "there is no sync of {kind:?} to leave out");
    without
}
