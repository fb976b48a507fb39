//! The file `STORE` of a database: its id, the key that encrypts it, and its tables.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::KeyId;
use crate::durable::replace_file;
use crate::journal::{JournalItem, VALUE};
use crate::records::Stored;

const STORE_FILE: &str = "STORE";
const TITLE: &str = "tidings database";
const ID: &str = "id ";
const KEY: &str = "key ";
const TABLE: &str = "table ";
const MARK_PREFIX: &str = "commit:";

/// Identity and tables of a database, readable before the engine opens it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoreFile {
    pub(crate) mark: Mark,
    /// The key that encrypts the rows. An earlier version refuses a file with this line.
    pub(crate) key: Option<KeyId>,
    /// The tables that the database has had since its first start. The engine would replace a missing table by an empty
    /// one.
    pub(crate) tables: Vec<String>,
}

/// Key of the row that every commit writes; its value is the number of the commit.
///
/// It contains the id of the database, 128 random bits that never leave the directory. A batch of the journal with this row was
/// written by the committer; see [`journal`](crate::journal).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    key: Vec<u8>,
}

impl Mark {
    pub(crate) fn new(id: u128) -> Self {
        Self { key: format!("{MARK_PREFIX}{id:032x}").into_bytes() }
    }

    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    /// The number of the commit, if a row of a batch is the mark.
    pub(crate) fn commit(&self, item: &JournalItem<'_>) -> Option<u64> {
        (item.kind == VALUE && item.key == self.key).then(|| u64::decode(item.stored).ok())?
    }

    /// Whether the mark occurs anywhere in `bytes`, in a complete batch or not.
    pub(crate) fn occurs_in(&self, bytes: &[u8]) -> bool {
        bytes.windows(self.key.len()).any(|window| window == self.key)
    }
}

impl StoreFile {
    /// Path of the file of a database.
    pub(crate) fn path(database: &Path) -> PathBuf {
        database.join(STORE_FILE)
    }

    /// Reads the file of a database; `None` if an earlier version wrote none.
    pub(crate) fn read(database: &Path) -> io::Result<Option<Self>> {
        let text = match fs::read_to_string(Self::path(database)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            text => text?,
        };
        let unreadable = || io::Error::new(ErrorKind::InvalidData, format!("`{STORE_FILE}` is not a valid store file"));
        Self::parse(&text).ok_or_else(unreadable).map(Some)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        if lines.next()? != TITLE {
            return None;
        }
        let id = u128::from_str_radix(lines.next()?.strip_prefix(ID)?, 16).ok()?;
        let mut lines = lines.peekable();
        let key = match lines.next_if(|line| line.starts_with(KEY)) {
            Some(line) => Some(KeyId::parse(line.strip_prefix(KEY)?)?),
            None => None,
        };
        let tables = lines.map(|line| Some(line.strip_prefix(TABLE)?.to_owned())).collect::<Option<_>>()?;
        Some(Self { mark: Mark::new(id), key, tables })
    }

    pub(crate) fn write(&self, database: &Path) -> io::Result<()> {
        let id = String::from_utf8_lossy(&self.mark.key[MARK_PREFIX.len()..]);
        let mut text = format!("{TITLE}\n{ID}{id}\n");
        if let Some(key) = self.key {
            text += &format!("{KEY}{key}\n");
        }
        for table in &self.tables {
            text += &format!("{TABLE}{table}\n");
        }
        replace_file(&Self::path(database), text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_file_round_trips_and_a_damaged_one_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(StoreFile::read(directory.path()).unwrap(), None);
        let file = StoreFile { mark: Mark::new(7), key: None, tables: vec!["meta".to_owned(), "users".to_owned()] };
        let encrypted = StoreFile { key: KeyId::parse("0123456789abcdef"), ..file.clone() };
        for file in [encrypted, file] {
            file.write(directory.path()).unwrap();
            assert_eq!(StoreFile::read(directory.path()).unwrap(), Some(file));
        }
        let path = directory.path().join("STORE");
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, "tidings database\nid 00000000000000000000000000000007\ntable meta\ntable users\n");
        for damaged in [
            "",
            "tidings database\n",
            &text.replace("id ", "ID "),
            &text.replace("table users", "\0\0"),
            &text.replace("table meta", "key 12"),
        ] {
            fs::write(&path, damaged).unwrap();
            assert_eq!(StoreFile::read(directory.path()).unwrap_err().kind(), ErrorKind::InvalidData, "{damaged:?}");
        }
    }
}
