//! The legal states of a disk after a power cut.
//!
//! A recording is the file operations of a process in the order in which they were seen. Every operation has two
//! moments: it began and it ended. A cut at moment `m` happens when exactly the events before `m` have happened, so an
//! operation with `began < m <= ended` was in flight. The rules:
//!
//! - **Data.** What a sync of a file covers is on the disk: all changes that had ended when the sync began. Of every
//!   later change, and of every change in flight, any units may be on the disk, in any combination; a unit (a sector of
//!   512 bytes or a page of 4,096) is old or new, never mixed. A unit that was written several times may hold any of
//!   its versions.
//! - **Size.** The size is one that the file has had since its last sync. If it is below the end of the data, that data
//!   is not there; it may be ahead, and then zeros are in between. After a truncation that is on the disk nothing older
//!   is.
//! - **Names.** [`NameDurability::Ordered`] and [`NameDurability::Strict`] say which changes of names may be missing.
//!
//! A state is a function of recording, cut and seed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::disk::{DiskImage, DiskNode, FileContent, Inode};

/// One change, or one sync.
#[derive(Clone, Debug)]
pub(crate) enum FileAction {
    Write { inode: Inode, offset: u64, bytes: Arc<[u8]> },
    Resize { inode: Inode, size: u64 },
    Sync { inode: Inode, data_only: bool },
    Name(NameChange),
}

/// One operation on names, such as a creation or a rename.
#[derive(Clone, Debug)]
pub(crate) struct NameChange {
    /// The inode that gets or loses a name.
    pub(crate) object: Inode,
    pub(crate) edits: Vec<NameEdit>,
}

/// The change of one name of one directory.
#[derive(Clone, Debug)]
pub(crate) struct NameEdit {
    pub(crate) directory: Inode,
    pub(crate) name: String,
    pub(crate) to: Option<Inode>,
}

#[derive(Clone, Debug)]
pub(crate) struct FileOp {
    pub(crate) action: FileAction,
    pub(crate) began: usize,
    pub(crate) ended: usize,
    /// The path that it is about, as it was then.
    pub(crate) path: String,
}

/// The operations of one process on one directory.
#[derive(Clone)]
pub(crate) struct Recording {
    /// The disk before the recording, all of it synced. Inodes that were made later are here too, empty and without
    /// names.
    pub(crate) before: DiskImage,
    /// In the order in which they ended.
    pub(crate) ops: Vec<FileOp>,
    /// When each event was seen, in microseconds since the epoch.
    pub(crate) stamps: Vec<u64>,
}

/// Which changes of names may be missing after a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameDurability {
    /// As ext4, XFS and btrfs keep them: changes survive as a prefix of their order. A sync of a file or directory
    /// covers the changes that involve it, and so all before them.
    Ordered,
    /// As POSIX promises: a change of a directory's entries is durable once that directory was synced. Until then each
    /// may survive without the others. A rename is one change.
    Strict,
}

/// One power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) names: NameDurability,
    /// Bytes that the disk writes as a whole.
    pub(crate) unit: usize,
    pub(crate) moment: usize,
    pub(crate) seed: u64,
}

impl Cut {
    /// Names and unit.
    pub(crate) fn way(&self) -> String {
        let names = match self.names {
            NameDurability::Ordered => "ordered",
            NameDurability::Strict => "strict",
        };
        format!("{names}:{}", self.unit)
    }
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.way(), self.moment, self.seed)
    }
}

impl FromStr for Cut {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = || {
            let [names, unit, moment, seed] = text.split(':').collect::<Vec<_>>().try_into().ok()?;
            let names = match names {
                "ordered" => NameDurability::Ordered,
                "strict" => NameDurability::Strict,
                _ => return None,
            };
            Some(Self { names, unit: unit.parse().ok()?, moment: moment.parse().ok()?, seed: seed.parse().ok()? })
        };
        parsed().ok_or_else(|| format!("`{text}` is not a cut; it looks like `strict:512:1234:1`"))
    }
}

/// Which of several changes, in their order, survive.
#[derive(Clone, Copy, Debug)]
enum Pick {
    Nothing,
    Everything,
    /// Each with this probability.
    Each(f64),
    Prefix,
    Suffix,
    AllButOne,
    LastOnly,
}

impl Pick {
    fn random(random: &mut StdRng) -> Self {
        let all = [
            Self::Nothing,
            Self::Everything,
            Self::Each(0.5),
            Self::Each(0.95),
            Self::Prefix,
            Self::Suffix,
            // A hole in the middle is the hardest to notice, so it comes twice as often.
            Self::AllButOne,
            Self::AllButOne,
            Self::LastOnly,
        ];
        all[random.random_range(0..all.len())]
    }

    /// For each of so many changes, whether it survives.
    fn of(self, count: usize, random: &mut StdRng) -> Vec<bool> {
        let somewhere = if count == 0 { 0 } else { random.random_range(0..count) };
        let survives = |n: usize, random: &mut StdRng| match self {
            Self::Nothing => false,
            Self::Everything => true,
            Self::Each(probability) => random.random_bool(probability),
            Self::Prefix => n < somewhere,
            Self::Suffix => n >= somewhere,
            Self::AllButOne => n != somewhere,
            Self::LastOnly => n + 1 == count,
        };
        (0..count).map(|n| survives(n, random)).collect()
    }
}

/// One legal state of the disk after a cut.
pub(crate) fn state(recording: &Recording, cut: Cut) -> DiskImage {
    let mut random = StdRng::seed_from_u64(cut.seed);
    let cached = Cached::at(recording, cut.moment);
    let overall = Pick::random(&mut random);
    let pick = |random: &mut StdRng| if random.random_bool(0.7) { overall } else { Pick::random(random) };

    let mut disk = recording.before.clone();
    let of_names = pick(&mut random);
    for edit in cached.surviving_edits(cut.names, of_names, &mut random) {
        apply(&mut disk, edit);
    }
    for (inode, file) in cached.files {
        let pick = pick(&mut random);
        let DiskNode::File { content, .. } = &mut disk.nodes[inode] else {
            panic!("inode {inode} has data and is no file")
        };
        *content = file.survivor(cut.unit, pick, &mut random);
    }
    disk
}

/// The state that a process sees at a moment: all operations that have ended by then.
pub(crate) fn seen(recording: &Recording, moment: usize) -> DiskImage {
    let mut disk = recording.before.clone();
    for op in recording.ops.iter().take_while(|op| op.ended < moment) {
        match &op.action {
            FileAction::Name(change) => change.edits.iter().for_each(|edit| apply(&mut disk, edit)),
            FileAction::Write { inode, .. } | FileAction::Resize { inode, .. } => {
                let DiskNode::File { content, .. } = &mut disk.nodes[*inode] else { panic!("{op:?}") };
                change(content, &op.action);
            }
            FileAction::Sync { .. } => {}
        }
    }
    disk
}

fn apply(disk: &mut DiskImage, edit: &NameEdit) {
    let key = (edit.directory, edit.name.clone());
    match edit.to {
        Some(inode) => disk.names.insert(key, inode),
        None => disk.names.remove(&key),
    };
}

fn change(content: &mut FileContent, action: &FileAction) {
    match action {
        FileAction::Write { offset, bytes, .. } => content.write(*offset, bytes),
        FileAction::Resize { size, .. } => content.resize(*size),
        FileAction::Sync { .. } | FileAction::Name(_) => unreachable!("only data changes a file"),
    }
}

/// The durable state, and the changes since.
struct Cached<'a> {
    files: BTreeMap<Inode, CachedFile<'a>>,
    /// All changes of names, in order.
    names: Vec<CachedName<'a>>,
    /// So many of them are durable where changes survive in order.
    ordered_durable: usize,
}

struct CachedFile<'a> {
    durable: FileContent,
    pending: Vec<&'a FileOp>,
}

struct CachedName<'a> {
    op: &'a FileOp,
    change: &'a NameChange,
    is_directory: bool,
    /// The directories that were synced since.
    synced: BTreeSet<Inode>,
}

impl<'a> Cached<'a> {
    fn at(recording: &'a Recording, moment: usize) -> Self {
        let mut cached = Self { files: BTreeMap::new(), names: vec![], ordered_durable: 0 };
        // Operations in flight come last, because they end last.
        for op in recording.ops.iter().filter(|op| op.began < moment) {
            match &op.action {
                FileAction::Write { inode, .. } | FileAction::Resize { inode, .. } => {
                    let file = cached.files.entry(*inode).or_insert_with(|| {
                        let DiskNode::File { content, .. } = &recording.before.nodes[*inode] else { panic!("{op:?}") };
                        CachedFile { durable: content.clone(), pending: vec![] }
                    });
                    file.pending.push(op);
                }
                FileAction::Name(change) => {
                    let is_directory = matches!(recording.before.nodes[change.object], DiskNode::Directory);
                    cached.names.push(CachedName { op, change, is_directory, synced: BTreeSet::new() });
                }
                FileAction::Sync { inode, data_only } if op.ended < moment => cached.sync(*inode, *data_only, op.began),
                FileAction::Sync { .. } => {}
            }
        }
        cached
    }

    /// Applies a sync that has ended: it covers what had ended when it began.
    fn sync(&mut self, inode: Inode, data_only: bool, began: usize) {
        if let Some(file) = self.files.get_mut(&inode) {
            let (covered, pending) = file.pending.iter().partition(|op| op.ended < began);
            file.pending = pending;
            let covered: Vec<&FileOp> = covered;
            covered.into_iter().for_each(|op| change(&mut file.durable, &op.action));
        }
        if data_only {
            return;
        }
        for (count, name) in (1..).zip(&mut self.names).take_while(|(_, name)| name.op.ended < began) {
            let is_its_directory = name.change.edits.iter().any(|edit| edit.directory == inode);
            if is_its_directory {
                name.synced.insert(inode);
            }
            if is_its_directory || name.change.object == inode {
                self.ordered_durable = self.ordered_durable.max(count);
            }
        }
    }

    fn surviving_edits(&self, names: NameDurability, pick: Pick, random: &mut StdRng) -> Vec<&'a NameEdit> {
        match names {
            NameDurability::Ordered => {
                let (least, most) = (self.ordered_durable, self.names.len());
                let count = match pick {
                    Pick::Nothing => least,
                    Pick::Everything => most,
                    _ => random.random_range(least..=most),
                };
                self.names[..count].iter().flat_map(|name| &name.change.edits).collect()
            }
            NameDurability::Strict => {
                let open: Vec<bool> = self.names.iter().map(|name| !name.is_durable()).collect();
                let mut chosen = pick.of(open.iter().filter(|open| **open).count(), random).into_iter();
                let mut edits = vec![];
                for (name, open) in self.names.iter().zip(open) {
                    let is_chosen = !open || chosen.next().expect("there is one for each");
                    let survives = |edit: &&NameEdit| is_chosen || name.synced.contains(&edit.directory);
                    edits.extend(name.change.edits.iter().filter(survives));
                }
                edits
            }
        }
    }
}

impl CachedName<'_> {
    /// Whether it is durable as a whole where every directory has to be synced. No file system gives a directory two
    /// names, so a directory that has moved has moved once either end is synced.
    fn is_durable(&self) -> bool {
        let mut edits = self.change.edits.iter().map(|edit| self.synced.contains(&edit.directory));
        if self.is_directory { edits.any(|synced| synced) } else { edits.all(|synced| synced) }
    }
}

impl CachedFile<'_> {
    /// One of the contents that the file may have.
    fn survivor(self, unit: usize, pick: Pick, random: &mut StdRng) -> FileContent {
        let Self { durable: mut start, pending } = self;
        match pick {
            Pick::Nothing => return start,
            Pick::Everything => {
                pending.iter().for_each(|op| change(&mut start, &op.action));
                return start;
            }
            _ => {}
        }
        // Changes before a truncation that survives do not show, and those after one that does not survive do not
        // either.
        let mut epochs = vec![(start.clone(), vec![])];
        let mut now = start;
        for op in pending {
            let size = now.size();
            change(&mut now, &op.action);
            if now.size() < size {
                epochs.push((now.clone(), vec![]));
            } else {
                epochs.last_mut().expect("there is one").1.push(op);
            }
        }
        let (start, changes) = epochs.swap_remove(random.random_range(0..epochs.len()));

        let mut sizes = vec![start.size()];
        let mut versions: Vec<(u64, Vec<Vec<u8>>)> = vec![];
        let mut index = BTreeMap::new();
        let mut now = start.clone();
        for op in changes {
            change(&mut now, &op.action);
            sizes.push(now.size());
            let FileAction::Write { offset, bytes, .. } = &op.action else { continue };
            if bytes.is_empty() {
                continue;
            }
            for number in offset / unit as u64..=(offset + bytes.len() as u64 - 1) / unit as u64 {
                let at = *index.entry(number).or_insert_with(|| {
                    versions.push((number, vec![]));
                    versions.len() - 1
                });
                versions[at].1.push(now.unit(unit, number).to_owned());
            }
        }
        let mut content = start;
        for ((number, versions), survives) in versions.iter().zip(pick.of(versions.len(), random)) {
            if survives {
                let is_last = matches!(pick, Pick::Each(_)) && random.random_bool(0.3);
                let version = if is_last { random.random_range(0..versions.len()) } else { versions.len() - 1 };
                content.put(number * unit as u64, &versions[version]);
            }
        }
        let last = sizes.len() - 1;
        let size = if random.random_bool(0.6) { last } else { random.random_range(0..=last) };
        content.resize(sizes[size]);
        content
    }
}
