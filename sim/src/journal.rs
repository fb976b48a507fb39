//! The journal of a node on its [disk](crate::disk): records are appended, and a full journal is replaced by a new one.
//!
//! A record has a number, a length and a checksum. It is acknowledged after its file is synced, and a file is used only
//! after its name is durable. Recovery finds every synced record, truncates a torn one, and syncs the rest before the
//! node serves it.
//!
//! The rows of a record are in the store itself. The bytes here decide whether the record exists.

use crate::bugs::Bug;
use crate::dice::Dice;
use crate::disk::SimDisk;

const MAGIC: u32 = 0x7469_6469;
/// Magic, number, length and checksum.
const HEADER_BYTES: usize = 4 + 8 + 4 + 8;
/// Size at which a new journal is started.
const JOURNAL_BYTES_MAX: usize = 8 * 1024;
/// Size of the file that lists the records without need of a journal.
const TABLES_BYTES: usize = 3000;
/// Sizes of an atomic disk write: a sector or a page.
const UNITS: [usize; 2] = [512, 4096];

/// The journal of a node.
pub(crate) struct Journal {
    disk: SimDisk,
    bug: Option<Bug>,
    generation: u64,
    /// Offset of the next record.
    end: usize,
    /// The last record that was started.
    last: u64,
    /// The last acknowledged record.
    synced: u64,
    /// A record that is being written to the page cache.
    on_its_way: Option<Vec<u8>>,
    rotation: Option<Rotation>,
    /// A torn record that a broken recovery has accepted.
    torn: Option<u64>,
    is_refused: bool,
}

/// The next step of a journal rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rotation {
    WriteTables,
    SyncTables,
    MakeJournal,
    SyncNames,
    RemoveOld,
}

/// Result of a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Recovered {
    /// The last recovered record.
    pub(crate) last: u64,
    /// The last acknowledged record.
    pub(crate) answered: u64,
    /// Whether recovery found a torn record at the end.
    pub(crate) was_torn: bool,
}

/// Why a node does not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecoveryRefused {
    /// The last record is torn, and this broken recovery does not truncate it.
    Torn,
    /// Records are missing before later ones.
    Damaged,
}

impl Journal {
    pub(crate) fn new(bug: Option<Bug>, dice: &Dice) -> Self {
        let mut disk = SimDisk::new(UNITS[dice.index(UNITS.len())]);
        disk.create(&journal(0));
        disk.sync(&journal(0));
        disk.sync_names();
        Self {
            disk,
            bug,
            generation: 0,
            end: 0,
            last: 0,
            synced: 0,
            on_its_way: None,
            rotation: None,
            torn: None,
            is_refused: false,
        }
    }

    /// Runs the next step of a rotation, if one is due; `false` if there is nothing to do.
    pub(crate) fn rotate(&mut self) -> bool {
        let step = match self.rotation {
            Some(step) => step,
            None if self.end >= JOURNAL_BYTES_MAX => Rotation::WriteTables,
            None => return false,
        };
        let next = self.generation + 1;
        self.rotation = match step {
            Rotation::WriteTables => {
                self.disk.create(&tables(next));
                self.disk.write(&tables(next), 0, &record(self.last, TABLES_BYTES));
                Some(Rotation::SyncTables)
            }
            Rotation::SyncTables => {
                self.sync(&tables(next));
                Some(Rotation::MakeJournal)
            }
            Rotation::MakeJournal => {
                self.disk.create(&journal(next));
                self.sync(&journal(next));
                Some(Rotation::SyncNames)
            }
            Rotation::SyncNames => {
                if self.bug != Some(Bug::DirectoryUnsynced) {
                    self.disk.sync_names();
                }
                Some(Rotation::RemoveOld)
            }
            Rotation::RemoveOld => {
                // A lost name needs an older journal to fall back to. Otherwise the bug would lose everything and be
                // trivial to find.
                if self.bug != Some(Bug::DirectoryUnsynced) {
                    self.disk.remove(&tables(self.generation));
                    self.disk.remove(&journal(self.generation));
                }
                self.generation = next;
                self.end = 0;
                None
            }
        };
        true
    }

    /// Starts to write a record of this many bytes, and returns its number.
    pub(crate) fn begin(&mut self, bytes: usize) -> u64 {
        self.last += 1;
        self.on_its_way = Some(record(self.last, bytes));
        self.last
    }

    /// The record has reached the page cache.
    pub(crate) fn written(&mut self) {
        if let Some(record) = self.on_its_way.take() {
            self.disk.write(&journal(self.generation), self.end, &record);
            self.end += record.len();
        }
    }

    /// Syncs the record, which may be acknowledged then.
    pub(crate) fn commit(&mut self) {
        self.sync(&journal(self.generation));
        self.synced = self.last;
    }

    /// Removes a record that the disk refused, as reopening the store does.
    pub(crate) fn take_back(&mut self, bytes: usize) {
        if self.on_its_way.take().is_none() {
            self.end -= HEADER_BYTES + bytes;
            self.disk.truncate(&journal(self.generation), self.end);
            self.sync(&journal(self.generation));
        }
        self.last -= 1;
    }

    /// The operating system writes back unsynced pages.
    pub(crate) fn write_back(&mut self) {
        for name in self.disk.names() {
            self.disk.sync(&name);
        }
        self.disk.sync_names();
    }

    /// Whether the node refuses to start.
    pub(crate) fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// Whether a record exists after a crash.
    pub(crate) fn has(&self, number: u64) -> bool {
        number <= self.last && !self.is_refused
    }

    /// Whether a broken recovery has accepted this torn record.
    pub(crate) fn has_torn(&self, number: u64) -> bool {
        self.torn == Some(number)
    }

    /// Crashes the process, and with a power cut its machine too. Then recovers the journal.
    pub(crate) fn crash(&mut self, is_power_cut: bool, dice: &Dice) -> Result<Recovered, RecoveryRefused> {
        if let Some(mut record) = self.on_its_way.take() {
            if !is_power_cut {
                // Completed writes survive, because the operating system keeps running.
                record.truncate(dice.index(record.len() / self.disk.unit() + 2) * self.disk.unit());
            }
            self.disk.write(&journal(self.generation), self.end, &record);
        }
        if is_power_cut {
            self.disk.cut_power(dice);
        }
        let recovered = self.recover();
        self.is_refused = recovered.is_err();
        recovered
    }

    fn recover(&mut self) -> Result<Recovered, RecoveryRefused> {
        let names = self.disk.names();
        let of_kind = |kind: &str| -> Vec<u64> {
            names.iter().filter_map(|name| name.strip_prefix(kind)?.parse().ok()).collect()
        };
        let whole = |generation: &u64| Some((*generation, read_record(self.disk.read(&tables(*generation)))?.number));
        let (base, tabled) = of_kind(TABLES).iter().rev().find_map(whole).unwrap_or((0, 0));
        let (mut last, mut torn, mut place) = (tabled, None, (base, 0));
        for generation in of_kind(JOURNAL).into_iter().filter(|generation| *generation >= base) {
            let bytes = self.disk.read(&journal(generation));
            let mut at = 0;
            while let Some(found) = self.acceptable(&bytes[at..], last + 1) {
                if torn.is_some() {
                    return Err(RecoveryRefused::Damaged);
                }
                last = found.number;
                at += HEADER_BYTES + found.len;
                place = (generation, at);
                if !found.is_whole {
                    torn = Some(last);
                }
            }
            if bytes[at..].iter().any(|byte| *byte != 0) && torn.is_none() {
                torn = Some(last + 1);
            }
        }
        let was_torn = torn.is_some();
        if was_torn && self.bug == Some(Bug::TornTailRefused) {
            return Err(RecoveryRefused::Torn);
        }
        self.torn = torn.filter(|torn| *torn <= last);
        self.start_from(place, base);
        let answered = std::mem::replace(&mut self.synced, last);
        self.last = last;
        Ok(Recovered { last, answered, was_torn })
    }

    /// The next record, if it is valid.
    fn acceptable(&self, bytes: &[u8], expected: u64) -> Option<FoundRecord> {
        let found = read_header(bytes).filter(|found| found.number == expected)?;
        (found.is_whole || self.bug == Some(Bug::TornRecordTaken)).then_some(found)
    }

    /// Truncates after the last record, syncs the rest, and removes old journals.
    fn start_from(&mut self, (generation, end): (u64, usize), base: u64) {
        (self.generation, self.end, self.rotation) = (generation, end, None);
        let current = journal(generation);
        if !self.disk.names().contains(&current) {
            self.disk.create(&current);
        }
        self.disk.truncate(&current, end);
        for name in self.disk.names() {
            let of = name.rsplit('-').next().and_then(|of| of.parse::<u64>().ok()).unwrap_or_default();
            if of < base || of > generation {
                self.disk.remove(&name);
            } else {
                self.sync(&name);
            }
        }
        self.disk.sync_names();
    }

    fn sync(&mut self, name: &str) {
        if self.bug != Some(Bug::SyncDoesNothing) {
            self.disk.sync(name);
        }
    }
}

const JOURNAL: &str = "journal-";
const TABLES: &str = "tables-";

fn journal(generation: u64) -> String {
    format!("{JOURNAL}{generation:06}")
}

fn tables(generation: u64) -> String {
    format!("{TABLES}{generation:06}")
}

/// A record with a payload of this many bytes.
fn record(number: u64, bytes: usize) -> Vec<u8> {
    // No byte is zero, so that a lost sector differs from a present one.
    let filler = |n: usize| (number as usize).wrapping_mul(31).wrapping_add(n) as u8 | 1;
    let payload: Vec<u8> = (0..bytes).map(filler).collect();
    let mut record = Vec::with_capacity(HEADER_BYTES + bytes);
    record.extend(MAGIC.to_be_bytes());
    record.extend(number.to_be_bytes());
    record.extend((bytes as u32).to_be_bytes());
    record.extend(checksum(number, &payload).to_be_bytes());
    record.extend(payload);
    record
}

/// A record with a readable header.
struct FoundRecord {
    number: u64,
    /// Its available bytes.
    len: usize,
    is_whole: bool,
}

fn read_header(bytes: &[u8]) -> Option<FoundRecord> {
    let (magic, rest) = bytes.split_first_chunk()?;
    let (number, rest) = rest.split_first_chunk()?;
    let (len, rest) = rest.split_first_chunk()?;
    let (sum, payload) = rest.split_first_chunk()?;
    let (number, len) = (u64::from_be_bytes(*number), u32::from_be_bytes(*len) as usize);
    let payload = &payload[..len.min(payload.len())];
    let is_whole = payload.len() == len && checksum(number, payload) == u64::from_be_bytes(*sum);
    (u32::from_be_bytes(*magic) == MAGIC).then_some(FoundRecord { number, len: payload.len(), is_whole })
}

/// A complete record.
fn read_record(bytes: &[u8]) -> Option<FoundRecord> {
    read_header(bytes).filter(|found| found.is_whole)
}

/// FNV-1a.
fn checksum(number: u64, payload: &[u8]) -> u64 {
    let bytes = number.to_be_bytes();
    bytes
        .iter()
        .chain(payload)
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = 1500;

    /// Commits until the power is cut after this many disk steps.
    fn crashed_after(steps: u64, seed: u64, bug: Option<Bug>) -> (Journal, Result<Recovered, RecoveryRefused>, u64) {
        let dice = Dice::of(seed, "disk");
        let mut journal = Journal::new(bug, &dice);
        let (mut answered, mut left) = (0, steps);
        let mut step = || {
            left = left.saturating_sub(1);
            left > 0
        };
        'crash: loop {
            while journal.rotate() {
                if !step() {
                    break 'crash;
                }
            }
            let number = journal.begin(BYTES);
            if !step() {
                break;
            }
            journal.written();
            if !step() {
                break;
            }
            journal.commit();
            answered = number;
        }
        let recovered = journal.crash(dice.chance(0.7), &dice);
        (journal, recovered, answered)
    }

    #[test]
    fn after_any_crash_acknowledged_commits_are_found_and_a_torn_record_is_cut_off() {
        let (mut torn, mut lost, mut survived) = (0, 0, 0);
        for seed in 0..2_000 {
            let (mut journal, recovered, answered) = crashed_after(1 + seed % 97, seed, None);
            let Recovered { last, was_torn, .. } = recovered.unwrap();
            assert!(last == answered || last == answered + 1, "seed {seed}: {last} of {answered}");
            torn += u64::from(was_torn);
            lost += u64::from(last == answered);
            survived += u64::from(last > answered);
            // A second power cut loses nothing that recovery has found.
            let again = journal.crash(true, &Dice::of(seed, "again")).unwrap();
            assert_eq!(again, Recovered { last, answered: last, was_torn: false }, "seed {seed}");
        }
        assert!(torn > 100 && lost > 100 && survived > 100, "{torn} torn, {lost} lost, {survived} survived");
    }

    #[test]
    fn records_go_on_after_a_recovery() {
        for seed in 0..500 {
            let (mut journal, recovered, _) = crashed_after(1 + seed % 97, seed, None);
            let last = recovered.unwrap().last;
            for _ in 0..20 {
                while journal.rotate() {}
                journal.begin(BYTES);
                journal.written();
                journal.commit();
            }
            let dice = Dice::of(seed, "again");
            assert_eq!(journal.crash(true, &dice).unwrap().last, last + 20, "seed {seed}");
        }
    }

    #[test]
    fn a_record_that_is_taken_back_does_not_come_back() {
        for seed in 0..200 {
            let dice = Dice::of(seed, "disk");
            let mut journal = Journal::new(None, &dice);
            journal.begin(BYTES);
            journal.written();
            journal.take_back(BYTES);
            assert_eq!(journal.crash(true, &dice).unwrap().last, 0);
        }
    }

    #[test]
    fn each_known_bug_fails_as_described() {
        let outcomes = |bug| (0..500).map(move |seed| crashed_after(1 + seed % 97, seed, Some(bug)));
        let loses = |bug| outcomes(bug).filter(|(_, found, answered)| found.is_ok_and(|found| found.last < *answered));
        assert!(loses(Bug::SyncDoesNothing).count() > 50);
        assert!(loses(Bug::DirectoryUnsynced).count() > 50);
        assert!(
            outcomes(Bug::TornTailRefused).filter(|(_, found, _)| *found == Err(RecoveryRefused::Torn)).count() > 20
        );
        let taken = |(journal, found, _): &(Journal, Result<Recovered, RecoveryRefused>, u64)| {
            found.is_ok_and(|found| journal.has_torn(found.last))
        };
        assert!(outcomes(Bug::TornRecordTaken).filter(taken).count() > 20);
    }
}
