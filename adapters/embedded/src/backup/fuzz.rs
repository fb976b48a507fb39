//! Fuzzes the reader with backups changed by a disk, a network or an attacker.

use proptest::prelude::*;

use super::*;

/// A backup with a file and rows of two tables.
fn valid() -> Vec<u8> {
    let header = BackupHeaderRow { store_format: 2, version: "1.2.3".to_owned(), taken_at: 7, log_end: 9 };
    let block = |keys: &[&[u8]]| {
        let mut rows = vec![];
        for key in keys {
            parts::push_row(&mut rows, &(*key).into(), &b"a row that is longer than its key"[..].into());
        }
        [&(rows.len() as u32).to_be_bytes()[..], &lz4_flex::block::compress(&rows)].concat()
    };
    let tables = BTreeMap::from([("meta".to_owned(), 3), ("users".to_owned(), 1)]);
    let end = EndRow { tables, files: vec!["keys.json".to_owned()] };
    let mut chain = parts::Chain::begin(FileVersion::Plain);
    let mut bytes = parts::beginning(FileVersion::Plain);
    bytes.extend(chain.part(parts::PartKind::Header, &parts::encode(&header)));
    bytes.extend(chain.part(parts::PartKind::File, &parts::named("keys.json", b"secret")));
    bytes.extend(chain.part(parts::PartKind::Rows, &parts::named("meta", &block(&[b"a", b"b"]))));
    bytes.extend(chain.part(parts::PartKind::Rows, &parts::named("meta", &block(&[b"c"]))));
    bytes.extend(chain.part(parts::PartKind::Rows, &parts::named("users", &block(&[b"a"]))));
    bytes.extend(chain.part(parts::PartKind::End, &parts::encode(&end)));
    bytes
}

/// Recomputes the sums of all parts, so that the checks after the sums are tested too.
fn with_sums(bytes: &[u8]) -> Vec<u8> {
    let mut summed = parts::beginning(FileVersion::Plain);
    let mut chain = parts::Chain::begin(FileVersion::Plain);
    let mut rest = bytes.get(summed.len()..).unwrap_or_default();
    while let Some((head, behind)) = rest.split_first_chunk::<{ parts::HEAD_BYTES }>() {
        let len = u32::from_be_bytes([head[5], head[6], head[7], head[8]]) as usize;
        let payload = &behind[..len.min(behind.len())];
        let kind = parts::PartKind::of(head[0]).unwrap_or(parts::PartKind::Rows);
        summed.extend(chain.part(kind, payload));
        rest = behind.get(len + parts::SUM_BYTES..).unwrap_or_default();
    }
    summed
}

#[test]
fn the_sample_is_a_backup() {
    assert_eq!(check(&valid()[..], |_| {}).unwrap().rows(), 4);
    assert_eq!(with_sums(&valid()), valid());
}

proptest! {
    #[test]
    fn a_damaged_backup_is_refused(bytes in damage::bytes(Just(valid()))) {
        let checked = check(&bytes[..], |_| {});
        prop_assert!(checked.is_err() || bytes == valid(), "{:?}", checked);
    }

    #[test]
    fn damaged_payloads_with_valid_sums_are_read_without_a_panic(bytes in damage::bytes(Just(valid()))) {
        let bytes = with_sums(&bytes);
        if let Ok(contents) = check(&bytes[..], |_| {}) {
            prop_assert_eq!(contents.bytes, bytes.len() as u64);
        }
    }
}
