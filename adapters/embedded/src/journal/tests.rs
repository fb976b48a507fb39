use tempfile::TempDir;

use super::*;
use crate::Config;
use crate::store_file::StoreFile;
use crate::tables::{Table, Tables};

const SECTOR: usize = 512;

/// A closed database of several commits, each with one value that spans several sectors.
struct JournalFixture {
    directory: TempDir,
    /// End offset of each commit in the journal.
    ends: Vec<u64>,
}

impl JournalFixture {
    fn new(values: &[Vec<u8>]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let tables = Tables::open(directory.path(), &Config::default()).unwrap();
        let mut ends = vec![];
        for (n, value) in values.iter().enumerate() {
            let mut batch = tables.batch(1);
            batch.write(Table::Messages, [n as u8].into(), Some(value.clone().into()));
            batch.commit().unwrap();
            ends.push(scan(&directory.path().join("0.jnl"), None, &mut ()).unwrap().end);
        }
        drop(tables);
        // The engine preallocates a journal, and truncates it when it is opened.
        let journal = File::options().write(true).open(directory.path().join("0.jnl")).unwrap();
        journal.set_len(*ends.last().unwrap()).unwrap();
        Self { directory, ends }
    }

    fn of_long_values(commits: u8) -> Self {
        Self::new(&(0..commits).map(|n| vec![n + 1; 3000]).collect::<Vec<_>>())
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn journal(&self) -> PathBuf {
        self.path().join("0.jnl")
    }

    fn mark(&self) -> Mark {
        StoreFile::read(self.path()).unwrap().expect("it was opened once").mark
    }

    fn recover(&self) -> Result<Option<Torn>, JournalError> {
        recover(self.path(), Some(&self.mark()))
    }

    fn values(&self) -> Vec<Option<usize>> {
        let tables = Tables::open(self.path(), &Config::default()).unwrap();
        let len = |n: u8| tables.get_bytes(Table::Messages, &[n]).unwrap().map(|row| row.len());
        (0..self.ends.len() as u8).map(len).collect()
    }
}

#[test]
fn earlier_commits_survive_any_loss_in_the_last_one() {
    let subject = JournalFixture::of_long_values(3);
    let (whole, begin) = (fs::read(subject.journal()).unwrap(), subject.ends[1] as usize);
    let sectors: Vec<_> = (begin / SECTOR..=(whole.len() - 1) / SECTOR).collect();
    assert!(sectors.len() > 5, "{}", whole.len());
    for lost in 1..1u32 << sectors.len() {
        let mut bytes = whole.clone();
        for (n, sector) in sectors.iter().enumerate().filter(|(n, _)| lost & 1 << n != 0) {
            let range = (sector * SECTOR).max(begin)..((sector + 1) * SECTOR).min(bytes.len());
            assert!(n < 32);
            bytes[range].fill(0);
        }
        fs::write(subject.journal(), &bytes).unwrap();
        let torn = subject.recover().unwrap();
        assert_eq!(torn.is_some(), bytes[begin..].iter().any(|byte| *byte != 0), "{lost:b}");
        assert!(fs::metadata(subject.journal()).unwrap().len() >= begin as u64);
        let scan = scan(&subject.journal(), None, &mut ()).unwrap();
        assert_eq!((scan.end, scan.rest.len()), (begin as u64, 0), "{lost:b}");
    }
    assert_eq!(subject.values(), [Some(3000), Some(3000), None]);
}

#[test]
fn the_engine_itself_refuses_a_torn_commit_that_lost_a_part_of_a_value() {
    let subject = JournalFixture::of_long_values(2);
    let mut bytes = fs::read(subject.journal()).unwrap();
    let middle = subject.ends[0] as usize + 1000;
    bytes[middle..middle + SECTOR].fill(0);
    fs::write(subject.journal(), &bytes).unwrap();
    let refused = fjall::Database::builder(subject.path()).open().err().expect("this module is needed");
    assert_eq!(refused.to_string(), "FjallError: JournalRecovery(ChecksumMismatch)");
    assert_eq!(subject.values(), [Some(3000), None]);
}

#[test]
fn damage_before_a_whole_commit_is_refused_and_nothing_is_changed() {
    let subject = JournalFixture::of_long_values(4);
    let whole = fs::read(subject.journal()).unwrap();
    let (begin, end) = (subject.ends[0], subject.ends[1]);
    for at in [begin, begin + 1, begin + 20, begin + 1000, end - 10, end - 1] {
        let mut bytes = whole.clone();
        bytes[at as usize] ^= 0xff;
        fs::write(subject.journal(), &bytes).unwrap();
        match subject.recover() {
            Err(JournalError::Damaged { path, offset, damage }) => {
                assert_eq!((path, offset), (subject.journal(), begin));
                assert_eq!(damage, JournalDamage::Hole { bytes: end - begin, later: 2 });
            }
            other => panic!("byte {at}: {other:?}"),
        }
        assert_eq!(fs::read(subject.journal()).unwrap(), bytes);
    }
    // The engine would have discarded the later commits silently.
    let mut bytes = whole;
    bytes[begin as usize] ^= 0xff;
    fs::write(subject.journal(), &bytes).unwrap();
    let error = Tables::open(subject.path(), &Config::default()).err().expect("it is damaged").to_string();
    let expected = format!(
        "journal `{}` is damaged at byte {begin}: {} bytes of acknowledged commits are unreadable, 2 whole commits follow \
         them. Nothing was changed. Restore a backup with `tidings store restore`, or copy what is readable into a new \
         directory with `tidings store repair`",
        subject.journal().display(),
        end - begin
    );
    assert_eq!(error, expected);
}

#[test]
fn a_wrong_sequence_number_is_damage_although_no_checksum_covers_it() {
    let subject = JournalFixture::of_long_values(3);
    let whole = fs::read(subject.journal()).unwrap();
    for flip in [0xff, 0x03] {
        let mut bytes = whole.clone();
        bytes[subject.ends[0] as usize + 5] ^= flip;
        fs::write(subject.journal(), &bytes).unwrap();
        assert!(matches!(subject.recover(), Err(JournalError::Damaged { .. })), "{flip}");
        assert_eq!(fs::read(subject.journal()).unwrap(), bytes);
    }
}

#[test]
fn a_mark_after_the_last_commit_distinguishes_damage_from_a_torn_batch() {
    let subject = JournalFixture::of_long_values(2);
    let at = subject.ends[0] as usize + 1000;
    let spoil = || {
        let mut bytes = fs::read(subject.journal()).unwrap();
        bytes[at] ^= 0xff;
        fs::write(subject.journal(), &bytes).unwrap();
    };
    let tables = Tables::open(subject.path(), &Config::default()).unwrap();
    tables.seal().unwrap();
    drop(tables);
    spoil();
    assert!(matches!(
        subject.recover(),
        Err(JournalError::Damaged { damage: JournalDamage::Hole { later: 1, .. }, .. })
    ));
    // Without it nothing proves that the commit was ever synced.
    spoil();
    let journal = File::options().write(true).open(subject.journal()).unwrap();
    journal.set_len(subject.ends[1]).unwrap();
    spoil();
    assert_eq!(subject.recover().unwrap().unwrap().offset, subject.ends[0]);
}

#[test]
fn damage_to_commits_of_a_version_without_marks_is_refused_after_an_upgrade() {
    let subject = JournalFixture::of_long_values(2);
    // The version before wrote no `STORE`. The mark of another id stands for none.
    fs::remove_file(StoreFile::path(subject.path())).unwrap();
    drop(Tables::open(subject.path(), &Config::default()).unwrap());
    let mut bytes = fs::read(subject.journal()).unwrap();
    bytes[subject.ends[0] as usize + 1000] ^= 0xff;
    fs::write(subject.journal(), &bytes).unwrap();
    match subject.recover() {
        Err(JournalError::Damaged { offset, damage: JournalDamage::Hole { later, .. }, .. }) => {
            assert_eq!((offset, later), (subject.ends[0], 1));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(fs::read(subject.journal()).unwrap(), bytes);
}

#[test]
fn a_commit_that_was_written_half_and_then_again_was_not_synced() {
    let subject = JournalFixture::of_long_values(3);
    let bytes = fs::read(subject.journal()).unwrap();
    let (begin, end) = (subject.ends[1] as usize, subject.ends[2] as usize);
    let repeated = [&bytes[..begin + (end - begin) / 2], &bytes[begin..]].concat();
    fs::write(subject.journal(), repeated).unwrap();
    assert_eq!(subject.recover().unwrap().unwrap().offset, begin as u64);
    assert_eq!(subject.values(), [Some(3000), Some(3000), None]);
}

#[test]
fn a_message_that_contains_a_batch_does_not_pass_for_a_commit() {
    // A batch of another database, as a sender could have copied it from their own journal.
    let other = JournalFixture::of_long_values(1);
    let forged = fs::read(other.journal()).unwrap();
    assert!(recover(other.path(), None).unwrap().is_none());
    let subject = JournalFixture::new(&[vec![1; 100], [vec![7; 700], forged].concat()]);
    let mut bytes = fs::read(subject.journal()).unwrap();
    let begin = subject.ends[0] as usize;
    bytes[begin..begin + 30].fill(0);
    fs::write(subject.journal(), &bytes).unwrap();
    assert_eq!(subject.recover().unwrap().unwrap().offset, begin as u64);
    assert_eq!(subject.values(), [Some(100), None]);
}

#[test]
fn a_journal_that_was_sealed_has_no_torn_end() {
    let subject = JournalFixture::of_long_values(2);
    fs::write(subject.path().join("1.jnl"), []).unwrap();
    assert_eq!(subject.recover().unwrap(), None);
    let mut bytes = fs::read(subject.journal()).unwrap();
    bytes[subject.ends[0] as usize + 1000] ^= 0xff;
    fs::write(subject.journal(), &bytes).unwrap();
    match subject.recover() {
        Err(JournalError::Damaged { offset, damage: JournalDamage::End { .. }, .. }) => {
            assert_eq!(offset, subject.ends[0])
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_journal_that_ends_before_the_next_one_begins_is_damaged() {
    let subject = JournalFixture::of_long_values(3);
    let bytes = fs::read(subject.journal()).unwrap();
    let [first, second, _] = subject.ends[..] else { panic!("three commits") };
    fs::write(subject.path().join("1.jnl"), &bytes[second as usize..]).unwrap();
    fs::write(subject.journal(), &bytes[..second as usize]).unwrap();
    assert_eq!(subject.recover().unwrap(), None);
    fs::write(subject.journal(), &bytes[..first as usize]).unwrap();
    match subject.recover() {
        Err(JournalError::Damaged { damage, .. }) => assert_eq!(damage, JournalDamage::Gap { last: 1, next: 3 }),
        other => panic!("{other:?}"),
    }
    // A flushed journal is removed. After a power cut its name may come back without the name of its successor.
    fs::rename(subject.path().join("1.jnl"), subject.path().join("2.jnl")).unwrap();
    assert_eq!(subject.recover().unwrap(), None);
}

#[test]
fn the_torn_bytes_are_kept_and_only_the_newest_of_them() {
    let subject = JournalFixture::of_long_values(1);
    let end = subject.ends[0];
    for n in 0..TORN_KEPT_MAX + 2 {
        let mut bytes = fs::read(subject.journal()).unwrap();
        bytes.truncate(end as usize);
        bytes.extend(vec![1; 10 + n]);
        fs::write(subject.journal(), &bytes).unwrap();
        assert_eq!(subject.recover().unwrap(), Some(Torn { offset: end, bytes: 10 + n as u64 }));
        let kept = subject.path().join("torn").join(format!("0-{end}.torn"));
        assert_eq!(fs::read(&kept).unwrap(), vec![1; 10 + n]);
        fs::rename(&kept, kept.with_file_name(format!("{n}-0.torn"))).unwrap();
    }
    assert_eq!(fs::read_dir(subject.path().join("torn")).unwrap().count(), TORN_KEPT_MAX);
    assert_eq!(subject.values(), [Some(3000)]);
}

mod fuzz {
    use std::sync::LazyLock;

    use proptest::prelude::*;

    use super::*;

    static SUBJECT: LazyLock<(JournalFixture, Vec<u8>)> = LazyLock::new(|| {
        let subject = JournalFixture::of_long_values(4);
        let whole = fs::read(subject.journal()).unwrap();
        (subject, whole)
    });

    proptest! {
        /// The position decides whether the journal is torn or damaged. An accepted journal starts and ends with
        /// complete commits.
        #[test]
        fn a_damaged_journal_is_cut_or_refused_without_a_panic(bytes in damage::bytes(Just(SUBJECT.1.clone()))) {
            let directory = tempfile::tempdir().unwrap();
            let journal = directory.path().join("0.jnl");
            fs::write(&journal, &bytes).unwrap();
            match recover(directory.path(), Some(&SUBJECT.0.mark())) {
                Ok(_) => {
                    let scan = scan(&journal, None, &mut ()).unwrap();
                    prop_assert!(scan.rest.is_empty());
                    prop_assert!(bytes.starts_with(&fs::read(&journal).unwrap()));
                }
                Err(_) => prop_assert_eq!(fs::read(&journal).unwrap(), bytes),
            }
        }
    }
}
