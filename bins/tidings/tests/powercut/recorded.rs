//! One recording of the real binary, with the responses that its clients received.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;

use crate::disk::DiskImage;
use crate::ledger::ResponseLedger;
use crate::model::{Recording, seen};
use crate::process::{PATIENCE, scratch};
use crate::recorder::record;

/// A directory in which one recording is made, and the states that follow from it.
pub(crate) struct Workspace {
    directory: TempDir,
    before: DiskImage,
}

impl Workspace {
    pub(crate) fn new() -> Self {
        let directory = scratch();
        fs::create_dir(directory.path().join("root")).unwrap();
        Self { directory, before: DiskImage::empty() }
    }

    /// The recorded directories: the data directory and other outputs of a command.
    pub(crate) fn root(&self) -> PathBuf {
        // The name that the kernel shows.
        self.directory.path().canonicalize().unwrap().join("root")
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.root().join("data")
    }

    /// A file outside the recorded directories.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Treats the current contents as durable, and returns the path for the trace.
    pub(crate) fn begin(&mut self) -> PathBuf {
        self.before = DiskImage::load(&self.root());
        self.beside("trace")
    }

    /// Parses the trace of a process that has ended. The operations must add up to the current contents.
    pub(crate) fn finish(self, ledger: ResponseLedger) -> Recorded {
        let root = self.root();
        let text = fs::read_to_string(self.beside("trace")).unwrap();
        let recording = record(&text, &root, self.before);
        let in_the_end = seen(&recording, usize::MAX);
        assert_eq!(in_the_end.difference(&DiskImage::load(&root)), [""; 0], "the recording is not whole");
        fs::write(self.directory.path().join("root.txt"), root.to_str().unwrap()).unwrap();
        fs::remove_dir_all(&root).unwrap();
        Recorded::new(RecordingDirectory::Temporary(self.directory), recording, ledger)
    }
}

pub(crate) struct Recorded {
    directory: RecordingDirectory,
    pub(crate) recording: Arc<Recording>,
    pub(crate) ledger: ResponseLedger,
    /// The client for all requests. Creating one takes longer than starting a server.
    pub(crate) http: reqwest::Client,
}

enum RecordingDirectory {
    Temporary(TempDir),
    Kept(PathBuf),
}

impl Recorded {
    fn new(directory: RecordingDirectory, recording: Recording, ledger: ResponseLedger) -> Self {
        let http = reqwest::Client::builder().timeout(PATIENCE).build().unwrap();
        Self { directory, recording: Arc::new(recording), ledger, http }
    }

    pub(crate) fn path(&self) -> &Path {
        match &self.directory {
            RecordingDirectory::Temporary(directory) => directory.path(),
            RecordingDirectory::Kept(path) => path,
        }
    }

    /// The same with another recording.
    pub(crate) fn with(&self, recording: Recording) -> Self {
        Self::new(RecordingDirectory::Kept(self.path().to_owned()), recording, self.ledger.clone())
    }

    /// Keeps it beyond the end of the test, and returns its path.
    pub(crate) fn keep(&mut self) -> PathBuf {
        let path = self.path().to_owned();
        let before = path.join("before");
        if !before.exists() {
            self.recording.before.store(&before);
            fs::write(path.join("ledger.json"), serde_json::to_vec(&self.ledger).unwrap()).unwrap();
        }
        if let RecordingDirectory::Temporary(directory) =
            std::mem::replace(&mut self.directory, RecordingDirectory::Kept(path.clone()))
        {
            let _ = directory.keep();
        }
        path
    }

    /// A recording that was kept.
    pub(crate) fn load(path: &Path) -> Self {
        let text = fs::read_to_string(path.join("trace")).unwrap();
        let root = fs::read_to_string(path.join("root.txt")).unwrap();
        let recording = record(&text, Path::new(&root), DiskImage::load(&path.join("before")));
        let ledger = serde_json::from_slice(&fs::read(path.join("ledger.json")).unwrap()).unwrap();
        Self::new(RecordingDirectory::Kept(path.to_owned()), recording, ledger)
    }
}
