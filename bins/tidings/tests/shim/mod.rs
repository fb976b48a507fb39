//! Disk fault injection: `faults.c`, compiled for the test and preloaded into the server.
#![allow(dead_code, reason = "several test binaries share this file, and each uses its own faults")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::server::TestServer;

/// The effect on writes and syncs of the store's files; `faults.c` has the details.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiskFault {
    /// Writes fail with ENOSPC.
    Enospc,
    /// Syncs fail.
    EioSync,
    /// Syncs block until the disk works again.
    StallSync,
    /// A write stores half of its bytes and fails.
    Torn,
    /// The process dies in the middle of a write.
    KillTorn,
    /// The process dies after the write, before the sync.
    KillUnsynced,
    /// The process dies after the sync, before the ack.
    KillSynced,
}

impl DiskFault {
    fn name(self) -> &'static str {
        match self {
            Self::Enospc => "enospc",
            Self::EioSync => "eio-sync",
            Self::StallSync => "stall-sync",
            Self::Torn => "torn",
            Self::KillTorn => "kill-torn",
            Self::KillUnsynced => "kill-unsynced",
            Self::KillSynced => "kill-synced",
        }
    }
}

pub(crate) struct Shim {
    directory: TempDir,
}

impl Shim {
    /// Compiles the library. Without a C compiler the test fails, because faults cannot be injected.
    pub(crate) fn build() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/shim/faults.c");
        let compiled = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o"])
            .arg(directory.path().join("faults.so"))
            .arg(source)
            .status();
        assert!(compiled.expect("a C compiler is installed as `cc`").success(), "faults.c compiles");
        Self { directory }
    }

    /// A server without limits, on a disk that works until [`fail`](Self::fail).
    pub(crate) async fn start(&self) -> TestServer {
        self.start_with(&[]).await
    }

    /// The same, with additional environment variables.
    pub(crate) async fn start_with(&self, more: &[(&str, &str)]) -> TestServer {
        let [library, control, hits] = ["faults.so", "control", "hits"].map(|name| self.path(name));
        let text = |path: &Path| path.to_str().expect("the path of a temporary directory is text").to_owned();
        let [library, control, hits] = [text(&library), text(&control), text(&hits)];
        let ours = [("LD_PRELOAD", &*library), ("FAULTS_CONTROL", &*control), ("FAULTS_HITS", &*hits)];
        TestServer::start_with(&[&ours[..], more].concat()).await
    }

    /// Injects a fault into the server's disk.
    pub(crate) fn fail(&self, fault: DiskFault, server: &TestServer) {
        let data_dir = fs::canonicalize(server.data_dir()).unwrap();
        // Renamed into place, so that the server never reads a partial file.
        let new = self.path("control.new");
        fs::write(&new, format!("{} {}", fault.name(), data_dir.display())).unwrap();
        fs::rename(new, self.path("control")).unwrap();
    }

    /// Ends the fault.
    pub(crate) fn heal(&self) {
        fs::remove_file(self.path("control")).unwrap();
    }

    /// Number of calls that hit a fault.
    pub(crate) fn hits(&self) -> u64 {
        fs::metadata(self.path("hits")).map_or(0, |hits| hits.len())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}
