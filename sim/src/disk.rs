//! The disk of a node: named files. A power cut keeps everything synced and any part of the rest.

use std::collections::BTreeMap;

use crate::dice::Dice;

/// Simulates a file system.
///
/// A write stays in the page cache until its file is synced, and a name until the directory is synced. A process crash
/// loses neither. After a power cut, every unit written since the last sync has the synced content or any version
/// since, independently of the other units. Every changed name has either state.
pub(crate) struct SimDisk {
    /// Size of an atomic write: a sector or a page.
    unit: usize,
    files: BTreeMap<u64, DiskFile>,
    files_made: u64,
    names: BTreeMap<String, u64>,
    synced_names: BTreeMap<String, u64>,
}

#[derive(Clone, Default)]
struct DiskFile {
    /// The content that processes read.
    cached: Vec<u8>,
    synced: Vec<u8>,
    /// The contents of each unit since the last sync, in order; `None` is beyond the end of the file.
    versions: BTreeMap<usize, Vec<Option<Vec<u8>>>>,
}

impl SimDisk {
    /// An empty disk with atomic units of this many bytes.
    pub(crate) fn new(unit: usize) -> Self {
        Self { unit, files: BTreeMap::new(), files_made: 0, names: BTreeMap::new(), synced_names: BTreeMap::new() }
    }

    pub(crate) fn unit(&self) -> usize {
        self.unit
    }

    /// The names of all files, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        self.names.keys().cloned().collect()
    }

    /// The content of a file; empty if it does not exist.
    pub(crate) fn read(&self, name: &str) -> &[u8] {
        self.names.get(name).and_then(|id| self.files.get(id)).map_or(&[], |file| &file.cached)
    }

    /// Creates an empty file, replacing one with the same name.
    pub(crate) fn create(&mut self, name: &str) {
        self.files_made += 1;
        self.files.insert(self.files_made, DiskFile::default());
        self.names.insert(name.to_owned(), self.files_made);
    }

    /// Writes into a file at an offset.
    pub(crate) fn write(&mut self, name: &str, offset: usize, bytes: &[u8]) {
        let unit = self.unit;
        let Some(file) = self.file(name) else { return };
        let end = offset + bytes.len();
        if file.cached.len() < end {
            file.cached.resize(end, 0);
        }
        file.cached[offset..end].copy_from_slice(bytes);
        file.note(unit, offset..end);
    }

    /// Truncates a file.
    pub(crate) fn truncate(&mut self, name: &str, len: usize) {
        let unit = self.unit;
        let Some(file) = self.file(name) else { return };
        let end = file.cached.len();
        if len < end {
            file.cached.truncate(len);
            file.note(unit, len..end);
        }
    }

    /// Removes a name. The file is deleted once no power cut can restore the name.
    pub(crate) fn remove(&mut self, name: &str) {
        self.names.remove(name);
    }

    /// Makes the content of a file durable.
    pub(crate) fn sync(&mut self, name: &str) {
        let unit = self.unit;
        if let Some(file) = self.file(name) {
            file.sync(unit);
        }
    }

    /// Makes the names durable.
    pub(crate) fn sync_names(&mut self) {
        self.synced_names.clone_from(&self.names);
        let names = &self.names;
        self.files.retain(|id, _| names.values().any(|named| named == id));
    }

    /// Loses any part of the unsynced writes.
    pub(crate) fn cut_power(&mut self, dice: &Dice) {
        let unit = self.unit;
        self.files.values_mut().for_each(|file| file.cut_power(unit, dice));
        let (names, synced) = (&self.names, &self.synced_names);
        let changed = names.keys().chain(synced.keys()).filter(|name| names.get(*name) != synced.get(*name));
        let changed: std::collections::BTreeSet<String> = changed.cloned().collect();
        for name in changed {
            let after = if dice.chance(0.5) { self.names.get(&name) } else { self.synced_names.get(&name) };
            match after.copied() {
                Some(id) => drop(self.synced_names.insert(name, id)),
                None => drop(self.synced_names.remove(&name)),
            }
        }
        self.names = self.synced_names.clone();
        self.sync_names();
    }

    fn file(&mut self, name: &str) -> Option<&mut DiskFile> {
        self.names.get(name).and_then(|id| self.files.get_mut(id))
    }
}

impl DiskFile {
    /// Records the new content of the units in a range.
    fn note(&mut self, unit: usize, range: std::ops::Range<usize>) {
        for n in range.start / unit..range.end.div_ceil(unit) {
            let bytes = piece(&self.cached, n, unit).map(<[u8]>::to_vec);
            self.versions.entry(n).or_default().push(bytes);
        }
    }

    fn sync(&mut self, unit: usize) {
        self.synced.resize(self.cached.len(), 0);
        for n in std::mem::take(&mut self.versions).into_keys() {
            if let Some(changed) = piece(&self.cached, n, unit) {
                self.synced[n * unit..][..changed.len()].copy_from_slice(changed);
            }
        }
    }

    fn cut_power(&mut self, unit: usize, dice: &Dice) {
        let units = self.versions.last_key_value().map_or(0, |(n, _)| n + 1).max(self.synced.len().div_ceil(unit));
        let mut left = vec![];
        for n in 0..units {
            let versions = self.versions.get(&n).map_or(&[][..], Vec::as_slice);
            let drawn = if versions.is_empty() { 0 } else { dice.index(versions.len() + 1) };
            let kept = match drawn.checked_sub(1) {
                Some(version) => versions[version].as_deref(),
                None => piece(&self.synced, n, unit),
            };
            if let Some(kept) = kept {
                // The gap is a hole and reads as zeros.
                left.resize(n * unit, 0);
                left.extend_from_slice(kept);
            }
        }
        *self = Self { cached: left.clone(), synced: left, versions: BTreeMap::new() };
    }
}

/// A unit of a file; `None` beyond its end.
fn piece(bytes: &[u8], n: usize, unit: usize) -> Option<&[u8]> {
    let start = n * unit;
    (start < bytes.len()).then(|| &bytes[start..bytes.len().min(start + unit)])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// All observed contents of a file after power cuts.
    fn after_cuts(disk: impl Fn() -> SimDisk) -> BTreeSet<Vec<u8>> {
        let cut = |seed| {
            let mut disk = disk();
            disk.cut_power(&Dice::of(seed, "disk"));
            disk.read("file").to_vec()
        };
        (0..200).map(cut).collect()
    }

    fn with_synced(bytes: &[u8]) -> SimDisk {
        let mut disk = SimDisk::new(2);
        disk.create("file");
        disk.write("file", 0, bytes);
        disk.sync("file");
        disk.sync_names();
        disk
    }

    #[test]
    fn synced_content_survives_a_power_cut() {
        assert_eq!(after_cuts(|| with_synced(b"aabbc")), BTreeSet::from([b"aabbc".to_vec()]));
    }

    #[test]
    fn any_part_of_the_unsynced_writes_survives() {
        let written = || {
            let mut disk = with_synced(b"aa");
            disk.write("file", 2, b"bbcc");
            disk
        };
        let all = [&b"aa"[..], b"aabb", b"aa\0\0cc", b"aabbcc"].map(<[u8]>::to_vec);
        assert_eq!(after_cuts(written), BTreeSet::from(all));
    }

    #[test]
    fn a_unit_that_was_written_twice_has_one_of_its_states() {
        let written = || {
            let mut disk = with_synced(b"aa");
            disk.write("file", 0, b"bb");
            disk.write("file", 0, b"cc");
            disk
        };
        assert_eq!(after_cuts(written), BTreeSet::from([b"aa", b"bb", b"cc"].map(|bytes| bytes.to_vec())));
    }

    #[test]
    fn an_end_that_was_cut_off_may_come_back() {
        let written = || {
            let mut disk = with_synced(b"aabb");
            disk.truncate("file", 2);
            disk
        };
        assert_eq!(after_cuts(written), BTreeSet::from([b"aa".to_vec(), b"aabb".to_vec()]));
    }

    #[test]
    fn a_name_is_durable_with_its_directory() {
        let made = |sync_names| {
            move || {
                let mut disk = SimDisk::new(2);
                disk.create("file");
                disk.write("file", 0, b"aa");
                disk.sync("file");
                if sync_names {
                    disk.sync_names();
                }
                disk
            }
        };
        assert_eq!(after_cuts(made(true)), BTreeSet::from([b"aa".to_vec()]));
        assert_eq!(after_cuts(made(false)), BTreeSet::from([vec![], b"aa".to_vec()]));
        let removed = || {
            let mut disk = made(true)();
            disk.remove("file");
            disk
        };
        assert_eq!(after_cuts(removed), BTreeSet::from([vec![], b"aa".to_vec()]));
    }
}
