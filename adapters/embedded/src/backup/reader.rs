use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, ErrorKind, Read};

use domain::Timestamp;
use serde::de::DeserializeOwned;

use super::parts::{self, HEAD_BYTES, PartKind, SUM_BYTES, Sum};
use super::{
    BLOCK_BYTES_MAX, BackupContents, BackupHeaderRow, EncryptedHeaderRow, EndRow, FILE_BYTES_MAX, FILE_VERSION_MAX,
    FileVersion, Header, MAGIC, PAYLOAD_BYTES_MAX,
};
use crate::KeyId;

/// Why a backup is refused, and at which offset.
#[derive(Debug, thiserror::Error)]
pub enum BackupReadError {
    /// The file could not be read.
    #[error("the backup cannot be read at byte {at}")]
    Io {
        /// Offset of the failed read.
        at: u64,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The file is not a backup.
    #[error("it is no backup of tidings: a backup begins with `tidings backup`")]
    NotABackup,
    /// A later version of the program wrote it.
    #[error(
        "it is a backup of version {found}, this program reads up to version {FILE_VERSION_MAX}; restore it with the \
         tidings that took it"
    )]
    Newer {
        /// The version of the file.
        found: u8,
    },
    /// The end of the file is missing.
    #[error("it ends at byte {at}, within {part}: the rest is missing; look for a whole copy or an earlier backup")]
    CutOff {
        /// Length of the file.
        at: u64,
        /// The incomplete part.
        part: String,
    },
    /// A part differs from the written one.
    #[error("{part}, at byte {at}, is damaged: {what}; look for an undamaged copy or an earlier backup")]
    Damaged {
        /// The damaged part.
        part: String,
        /// Offset of the part.
        at: u64,
        /// The failed check.
        what: String,
    },
}

/// A part of a backup with a verified checksum.
#[derive(Debug)]
pub enum BackupPart {
    /// An additional file.
    File {
        /// Its name.
        name: String,
        /// Its content, which may be secret. It is encrypted, if the backup is.
        bytes: SecretBytes,
    },
    /// Rows of one table, after all earlier rows of it.
    Rows {
        /// The table.
        table: String,
        /// Its rows, in key order, encrypted if the backup is.
        rows: BackupRows,
    },
}

/// Bytes that `Debug` does not show.
pub struct SecretBytes(pub Vec<u8>);

impl fmt::Debug for SecretBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({} bytes)", self.0.len())
    }
}

/// Validated rows.
pub struct BackupRows {
    bytes: Vec<u8>,
    taken: usize,
}

impl BackupRows {
    /// The next key and row.
    pub fn take(&mut self) -> Option<(&[u8], &[u8])> {
        let (key, row, behind) = parts::split_row(&self.bytes[self.taken..])?;
        self.taken = self.bytes.len() - behind.len();
        Some((key, row))
    }
}

impl fmt::Debug for BackupRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BackupRows({} bytes)", self.bytes.len())
    }
}

/// Parses a backup. It returns no part before its checksum is verified, and allocates memory for bytes that exist, not
/// for a claimed length.
#[derive(Debug)]
pub struct BackupReader<R> {
    from: R,
    /// Bytes read so far.
    at: u64,
    number: u32,
    sum: Sum,
    header: Header,
    tables: BTreeMap<String, u64>,
    files: Vec<String>,
    /// The table and the key of the last row.
    last: Option<(String, Vec<u8>)>,
    is_done: bool,
}

/// Name and offset of a part, for errors.
struct PartLocation {
    part: String,
    at: u64,
}

impl PartLocation {
    fn damaged(&self, what: impl Into<String>) -> BackupReadError {
        BackupReadError::Damaged { part: self.part.clone(), at: self.at, what: what.into() }
    }
}

impl<R: Read> BackupReader<R> {
    /// Reads the start of a backup.
    pub fn open(mut from: R) -> Result<Self, BackupReadError> {
        let beginning = read_up_to(&mut from, MAGIC.len() + 1, 0)?;
        let magic = &beginning[..beginning.len().min(MAGIC.len())];
        // A file of another kind may be shorter than the magic bytes.
        if magic.is_empty() || !MAGIC.starts_with(magic) {
            return Err(BackupReadError::NotABackup);
        }
        let Some(version) = beginning.get(MAGIC.len()).copied() else {
            return Err(BackupReadError::CutOff { at: beginning.len() as u64, part: "its beginning".to_owned() });
        };
        if version > FILE_VERSION_MAX {
            return Err(BackupReadError::Newer { found: version });
        }
        let location = PartLocation { part: "the beginning".to_owned(), at: 0 };
        let Some(version) = FileVersion::of(version) else {
            return Err(location.damaged(format!("there is no version {version}")));
        };
        let nothing =
            Header { store_format: 0, version: String::new(), taken_at: Timestamp::MAX, log_end: 0, key: None };
        let mut reader = Self {
            from,
            at: beginning.len() as u64,
            number: 0,
            sum: parts::first_sum(version),
            header: nothing,
            tables: BTreeMap::new(),
            files: vec![],
            last: None,
            is_done: false,
        };
        let (kind, payload, location) = reader.part()?;
        if kind != PartKind::Header {
            return Err(location.damaged("the first part is the header"));
        }
        let (header, key) = match version {
            FileVersion::Plain => (decode(&payload, &location)?, None),
            FileVersion::Encrypted => {
                let EncryptedHeaderRow { header, key_id } = decode(&payload, &location)?;
                (header, Some(KeyId::from_bytes(key_id)))
            }
        };
        let BackupHeaderRow { store_format, version, taken_at, log_end } = header;
        reader.header = Header { store_format, version, taken_at: Timestamp::from_millis(taken_at), log_end, key };
        Ok(reader)
    }

    /// The metadata of the backup.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Bytes read so far.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// The next part; `None` after the last one, once the whole backup is verified.
    #[expect(clippy::should_implement_trait, reason = "an iterator would continue after a failure")]
    pub fn next(&mut self) -> Result<Option<BackupPart>, BackupReadError> {
        if self.is_done {
            return Ok(None);
        }
        let (kind, payload, location) = self.part()?;
        match kind {
            PartKind::Header => Err(location.damaged("there is one header, and it comes first")),
            PartKind::File => self.file(&payload, &location).map(Some),
            PartKind::Rows => self.rows(&payload, &location).map(Some),
            PartKind::End => {
                let end: EndRow = decode(&payload, &location)?;
                if end != (EndRow { tables: self.tables.clone(), files: self.files.clone() }) {
                    return Err(location.damaged("it counts other rows or files than there are"));
                }
                let behind = PartLocation { part: "the data after the end".to_owned(), at: self.at };
                if !read_up_to(&mut self.from, 1, self.at)?.is_empty() {
                    return Err(behind.damaged("nothing was expected there"));
                }
                self.is_done = true;
                Ok(None)
            }
        }
    }

    /// The summary of the backup, once [`next`](Self::next) has returned `None`.
    pub fn into_contents(self) -> BackupContents {
        BackupContents { header: self.header, tables: self.tables, files: self.files, bytes: self.at }
    }

    fn file(&mut self, payload: &[u8], location: &PartLocation) -> Result<BackupPart, BackupReadError> {
        let (name, bytes) = parts::split_name(payload).ok_or_else(|| location.damaged("a file has a name"))?;
        if bytes.len() > FILE_BYTES_MAX {
            return Err(location.damaged(format!("the file `{}` has {} bytes", name.escape_debug(), bytes.len())));
        }
        self.files.push(name.to_owned());
        Ok(BackupPart::File { name: name.to_owned(), bytes: SecretBytes(bytes.to_owned()) })
    }

    fn rows(&mut self, payload: &[u8], location: &PartLocation) -> Result<BackupPart, BackupReadError> {
        let (table, packed) = parts::split_name(payload).ok_or_else(|| location.damaged("rows have a table"))?;
        let rows = unpack(packed).map_err(|what| location.damaged(what))?;
        // A block continues the previous table or starts a new one; no table may start twice.
        let before = self.last.take().filter(|(name, _)| name == table).map(|(_, key)| key);
        if before.is_none() && self.tables.contains_key(table) {
            return Err(location.damaged(format!("the table `{}` has ended before", table.escape_debug())));
        }
        let (mut last, mut count, mut rest) = (before.as_deref(), 0, &rows[..]);
        while !rest.is_empty() {
            let (key, _, behind) = parts::split_row(rest).ok_or_else(|| location.damaged("a row has no end"))?;
            if last.is_some_and(|last| key <= last) {
                return Err(location.damaged("rows are in the order of their keys"));
            }
            last = Some(key);
            count += 1;
            rest = behind;
        }
        let last = last.filter(|_| count > 0).ok_or_else(|| location.damaged("a block has rows"))?;
        *self.tables.entry(table.to_owned()).or_default() += count;
        self.last = Some((table.to_owned(), last.to_owned()));
        Ok(BackupPart::Rows { table: table.to_owned(), rows: BackupRows { bytes: rows, taken: 0 } })
    }

    /// Reads a part and verifies its checksum.
    fn part(&mut self) -> Result<(PartKind, Vec<u8>, PartLocation), BackupReadError> {
        let (at, number) = (self.at, self.number);
        let mut location = PartLocation { part: self.called(None), at };
        let head = self.exactly(HEAD_BYTES, &location)?;
        let head: [u8; HEAD_BYTES] = head.try_into().expect("as many bytes were read");
        let [kind, n0, n1, n2, n3, l0, l1, l2, l3] = head;
        let found = u32::from_be_bytes([n0, n1, n2, n3]);
        let kind = PartKind::of(kind).ok_or_else(|| location.damaged(format!("there are no parts of kind {kind}")))?;
        if found != number {
            return Err(location.damaged(format!("part {number} was expected, and this says it is part {found}")));
        }
        let len = u32::from_be_bytes([l0, l1, l2, l3]) as usize;
        if len > PAYLOAD_BYTES_MAX {
            return Err(
                location.damaged(format!("it says it has {len} bytes, and none has more than {PAYLOAD_BYTES_MAX}"))
            );
        }
        let payload = self.exactly(len, &location)?;
        let sum = self.exactly(SUM_BYTES, &location)?;
        if kind == PartKind::Rows {
            location.part = self.called(parts::split_name(&payload).map(|(table, _)| table));
        }
        let expected = parts::next_sum(&self.sum, &head, &payload);
        if sum != expected {
            return Err(location.damaged(format!(
                "its checksum is {} and should be {}",
                beginning_of(&sum),
                beginning_of(&expected)
            )));
        }
        (self.sum, self.number) = (expected, number.wrapping_add(1));
        Ok((kind, payload, location))
    }

    /// Name of the next part: by its own table, or by the previous one.
    fn called(&self, table: Option<&str>) -> String {
        let number = self.number;
        match (table, &self.last) {
            (Some(table), _) => format!("part {number}, rows of `{}`", table.escape_debug()),
            (None, Some((table, _))) => format!("part {number}, after rows of `{table}`"),
            (None, None) if number == 0 => "the header".to_owned(),
            (None, None) => format!("part {number}"),
        }
    }

    fn exactly(&mut self, len: usize, location: &PartLocation) -> Result<Vec<u8>, BackupReadError> {
        let bytes = read_up_to(&mut self.from, len, self.at)?;
        self.at += bytes.len() as u64;
        if bytes.len() < len {
            return Err(BackupReadError::CutOff { at: self.at, part: location.part.clone() });
        }
        Ok(bytes)
    }
}

/// Reads `len` bytes, or fewer at the end of the input. Memory grows with the bytes read.
fn read_up_to(from: &mut impl Read, len: usize, at: u64) -> Result<Vec<u8>, BackupReadError> {
    let mut bytes = vec![];
    let mut from = from.take(len as u64);
    loop {
        match from.read_to_end(&mut bytes) {
            Ok(_) => return Ok(bytes),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(source) => return Err(BackupReadError::Io { at: at + bytes.len() as u64, source }),
        }
    }
}

/// Decompresses a block, which starts with its uncompressed length.
fn unpack(packed: &[u8]) -> Result<Vec<u8>, String> {
    let (len, packed) = packed.split_first_chunk().ok_or("a block says how long it is")?;
    let len = u32::from_be_bytes(*len) as usize;
    if len > BLOCK_BYTES_MAX {
        return Err(format!("its rows say they have {len} bytes, and no block has more than {BLOCK_BYTES_MAX}"));
    }
    let mut rows = vec![0; len];
    match lz4_flex::block::decompress_into(packed, &mut rows) {
        Ok(unpacked) if unpacked == len => Ok(rows),
        Ok(unpacked) => Err(format!("its rows have {unpacked} bytes instead of {len}")),
        Err(error) => Err(format!("its rows cannot be unpacked: {error}")),
    }
}

fn decode<T: DeserializeOwned>(payload: &[u8], location: &PartLocation) -> Result<T, BackupReadError> {
    match postcard::take_from_bytes(payload) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(location.damaged(format!("{} bytes are behind it", rest.len()))),
        Err(error) => Err(location.damaged(error.to_string())),
    }
}

/// A prefix of a checksum, enough to distinguish it in an error.
fn beginning_of(sum: &[u8]) -> String {
    sum.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}
