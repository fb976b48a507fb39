//! The model against recordings that are small enough to know every legal state of.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::disk::{DiskImage, DiskNode, Inode, ROOT};
use crate::model::{Cut, FileAction, FileOp, NameChange, NameDurability, NameEdit, Recording, state};

/// Seeds that are tried: many more than there are states.
const SEEDS: u64 = 600;

/// A recording that is written by hand. Events are numbered as they are added.
struct RecordingScript {
    recording: Recording,
    events: usize,
}

impl RecordingScript {
    fn new() -> Self {
        Self { recording: Recording { before: DiskImage::empty(), ops: vec![], stamps: vec![] }, events: 0 }
    }

    /// An operation that nothing else happens during.
    fn op(&mut self, action: FileAction) -> &mut Self {
        self.recording.ops.push(FileOp { action, began: self.events, ended: self.events + 1, path: String::new() });
        self.events += 2;
        self
    }

    fn name(&mut self, object: Inode, edits: &[(Inode, &str, Option<Inode>)]) -> &mut Self {
        let edit =
            |&(directory, name, to): &(Inode, &str, Option<Inode>)| NameEdit { directory, name: name.to_owned(), to };
        self.op(FileAction::Name(NameChange { object, edits: edits.iter().map(edit).collect() }))
    }

    fn add(&mut self, node: DiskNode, directory: Inode, name: &str) -> Inode {
        let inode = self.recording.before.add(node);
        self.name(inode, &[(directory, name, Some(inode))]);
        inode
    }

    fn file(&mut self, directory: Inode, name: &str) -> Inode {
        self.add(DiskNode::File { content: Default::default(), mode: 0o600 }, directory, name)
    }

    fn write(&mut self, inode: Inode, offset: u64, bytes: &[u8]) -> &mut Self {
        self.op(FileAction::Write { inode, offset, bytes: Arc::from(bytes) })
    }

    fn sync(&mut self, inode: Inode) -> &mut Self {
        self.op(FileAction::Sync { inode, data_only: false })
    }

    /// Every state that a cut at a moment can leave, each as text: paths, sizes, and the first byte of every sector.
    fn states(&self, names: NameDurability, moment: usize) -> BTreeSet<String> {
        let cuts = (0..SEEDS).map(|seed| Cut { names, unit: 512, moment, seed });
        cuts.map(|cut| shown(&state(&self.recording, cut), ROOT)).collect()
    }
}

fn shown(disk: &DiskImage, directory: Inode) -> String {
    let entry = |(name, inode): (&str, Inode)| match &disk.nodes[inode] {
        DiskNode::Directory => format!("{name}/({})", shown(disk, inode)),
        DiskNode::File { content, .. } => {
            let sectors = content.size().div_ceil(512);
            let first = |number| match content.unit(512, number)[0] {
                0 => '0',
                byte => char::from(byte),
            };
            format!("{name}={}:{}", content.size(), (0..sectors).map(first).collect::<String>())
        }
    };
    disk.entries(directory).map(entry).collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn check(found: BTreeSet<String>, expected: &[&str]) {
    assert_eq!(found, expected.iter().map(|state| (*state).to_owned()).collect());
}

#[test]
fn synced_data_is_there_and_later_sectors_survive_in_any_combination() {
    let mut script = RecordingScript::new();
    let file = script.file(ROOT, "f");
    script.write(file, 0, &[b'a'; 1536]).sync(file);
    script.write(file, 512, &[b'b'; 1024]);
    let all = ["f=1536:aaa", "f=1536:aba", "f=1536:aab", "f=1536:abb"];
    check(script.states(NameDurability::Ordered, script.events), &all);
    // In flight it may have happened in part, and before it began not at all.
    check(script.states(NameDurability::Ordered, script.events - 1), &all);
    check(script.states(NameDurability::Ordered, script.events - 2), &all[..1]);
}

#[test]
fn the_size_may_lag_the_data_or_lead_it() {
    let mut script = RecordingScript::new();
    let file = script.file(ROOT, "f");
    script.write(file, 0, &[b'a'; 512]).sync(file);
    script.write(file, 512, &[b'b'; 512]);
    check(script.states(NameDurability::Ordered, script.events), &["f=512:a", "f=1024:a0", "f=1024:ab"]);
}

#[test]
fn after_a_truncation_nothing_older_shows() {
    let mut script = RecordingScript::new();
    let file = script.file(ROOT, "f");
    script.write(file, 0, &[b'a'; 1024]).sync(file);
    script.op(FileAction::Resize { inode: file, size: 0 }).write(file, 0, &[b'b'; 1024]);
    check(
        script.states(NameDurability::Ordered, script.events),
        &["f=1024:aa", "f=0:", "f=1024:00", "f=1024:b0", "f=1024:0b", "f=1024:bb"],
    );
}

#[test]
fn a_sync_covers_operations_that_ended_before_it_began_once_it_ends() {
    let mut script = RecordingScript::new();
    let file = script.file(ROOT, "f");
    script.sync(file).write(file, 0, &[b'a'; 512]);
    let syncing = script.events;
    script.sync(file);
    let either = ["f=0:", "f=512:0", "f=512:a"];
    check(script.states(NameDurability::Ordered, syncing + 1), &either);
    check(script.states(NameDurability::Ordered, syncing + 2), &["f=512:a"]);
    // A write that began before the sync and ended in the middle of it is not covered.
    script.recording.ops[2].ended = syncing + 1;
    script.recording.ops[3].ended = syncing + 2;
    check(script.states(NameDurability::Ordered, syncing + 3), &either);
}

#[test]
fn ordered_names_survive_as_a_prefix_and_a_sync_of_a_file_covers_its_own() {
    let mut script = RecordingScript::new();
    script.file(ROOT, "a");
    let b = script.file(ROOT, "b");
    script.sync(b);
    let c = script.file(ROOT, "c");
    script.name(c, &[(ROOT, "c", None), (ROOT, "d", Some(c))]);
    check(script.states(NameDurability::Ordered, script.events), &["a=0: b=0:", "a=0: b=0: c=0:", "a=0: b=0: d=0:"]);
    // A sync of `b` alone says nothing about what came after its creation.
    script.sync(b);
    check(script.states(NameDurability::Ordered, script.events), &["a=0: b=0:", "a=0: b=0: c=0:", "a=0: b=0: d=0:"]);
    script.sync(ROOT);
    check(script.states(NameDurability::Ordered, script.events), &["a=0: b=0: d=0:"]);
}

#[test]
fn strict_names_survive_each_without_the_others_until_their_directory_is_synced() {
    let mut script = RecordingScript::new();
    let directory = script.add(DiskNode::Directory, ROOT, "d");
    let a = script.file(directory, "a");
    script.file(directory, "b");
    script.sync(a);
    let empty = ["", "d/()", "d/(a=0:)", "d/(b=0:)", "d/(a=0: b=0:)"];
    check(script.states(NameDurability::Strict, script.events), &empty);
    // The entries of `d` are durable, its own name is not.
    script.sync(directory);
    check(script.states(NameDurability::Strict, script.events), &["", "d/(a=0: b=0:)"]);
    script.sync(ROOT);
    check(script.states(NameDurability::Strict, script.events), &["d/(a=0: b=0:)"]);
}

#[test]
fn a_rename_is_one_change_and_replaces_or_does_not() {
    let mut script = RecordingScript::new();
    let old = script.file(ROOT, "f");
    script.write(old, 0, b"o").sync(old);
    let new = script.file(ROOT, "t");
    script.write(new, 0, b"n").sync(new).sync(ROOT);
    script.name(new, &[(ROOT, "t", None), (ROOT, "f", Some(new))]);
    for names in [NameDurability::Ordered, NameDurability::Strict] {
        check(script.states(names, script.events), &["f=1:n", "f=1:o t=1:n"]);
    }
}

#[test]
fn one_seed_is_one_state() {
    let mut script = RecordingScript::new();
    let file = script.file(ROOT, "f");
    script.write(file, 0, &[b'a'; 20 * 512]);
    let cut = Cut { names: NameDurability::Strict, unit: 512, moment: script.events, seed: 7 };
    let [first, second] = [(), ()].map(|()| state(&script.recording, cut));
    assert_eq!(first.difference(&second), [""; 0]);
    assert_eq!(cut.to_string().parse(), Ok(cut));
}
