//! Moves a service with all its users' data from one engine to another, through a file.
//!
//! An export needs a stopped service. An import needs an empty store. It reads the whole file before it writes a row,
//! marks the store as unfinished, reads everything back, audits it as `tidings store verify` does, and removes the
//! mark. No process serves from a store with the mark. Running the same import again resumes it.

mod file;
mod line;
mod partial;
mod stopped_service;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use audit::{AuditOptions, AuditProgress, audit};
use domain::Timestamp;
use ports::{Clock, ExportKind, ExportSource, ImportAdmission, ImportId, ImportTarget, Moved, SystemClock};
use serde::Serialize;

use self::file::{ContentDigest, ExportReader, ExportWriter, Summary};
use self::line::hex;
use self::partial::Partial;
use self::stopped_service::StoppedService;
use super::verify::{Manner, Paced};
use crate::config::Config;

/// Rows in one read or write.
const PAGE_LEN: usize = 500;
/// Most violations that an error lists.
const EXAMPLES: usize = 3;

/// A completed export.
#[derive(Clone, Debug, Serialize)]
pub struct Exported {
    /// Rows of each kind.
    pub rows: BTreeMap<String, u64>,
    /// Of the file without its trailer.
    pub sha256: String,
    /// Digest of the rows, independent of their order: two stores with the same rows have the same digest.
    pub content: String,
    /// Bytes of the file.
    pub bytes: u64,
    /// Events that will not be delivered after the move.
    pub left: Left,
}

/// Undelivered events, which the export does not include.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Left {
    /// Events that the application's webhook has not received.
    pub webhook_events: u64,
    /// Chats with events that are not in the log yet.
    pub unpublished_chats: u64,
}

/// A completed or checked import.
#[derive(Clone, Debug, Serialize)]
pub struct Imported {
    /// Rows of each kind that the store has now.
    pub rows: BTreeMap<String, u64>,
    /// Rows of the file that have expired by now.
    pub left_out: u64,
    /// Of the file without its trailer.
    pub sha256: String,
    /// Digest of the rows, equal to that of an export of the store.
    pub content: String,
    /// When the file was written.
    pub exported_at: Timestamp,
}

/// Exports all data of a service to a file.
pub async fn export(config: &Config, path: &Path, progress: impl Fn(AuditProgress)) -> anyhow::Result<Exported> {
    // Created first, so that an unusable path fails before the export.
    let partial = Partial::create(path)?;
    let service = StoppedService::to_export(config).await?;
    let outcome = async {
        let left = service.left().await?;
        let all = service.audit.size().await.unwrap_or(0);
        write(&*service.source, service.engine.name(), partial, left, |read, stage| {
            progress(AuditProgress { stage, read, all: all.max(read) });
        })
        .await
    };
    let outcome = outcome.await;
    service.close().await;
    outcome
}

async fn write(
    source: &dyn ExportSource,
    engine: &str,
    partial: Partial,
    left: Left,
    progress: impl Fn(u64, &'static str),
) -> anyhow::Result<Exported> {
    let at = SystemClock.now();
    let mut writer = ExportWriter::begin(partial.writer()?, at, engine)?;
    let mut content = ContentDigest::default();
    each_row(source, at, progress, |row| {
        content.add(&row)?;
        writer.row(&row)
    })
    .await?;
    let (output, Summary { rows, sha256 }) = writer.finish()?;
    drop(output.into_inner().context("the file cannot be written")?);
    let bytes = partial.keep()?;
    Ok(Exported { rows, sha256: hex(&sha256), content: content.digest(), bytes, left })
}

/// Calls `take` with every row of a store.
async fn each_row(
    source: &dyn ExportSource,
    at: Timestamp,
    progress: impl Fn(u64, &'static str),
    mut take: impl FnMut(Moved) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut read = 0;
    for kind in ExportKind::ALL {
        let mut after = None;
        loop {
            let page = source.rows(kind, after.as_ref(), PAGE_LEN, at).await;
            let page = page.context("the store cannot be read whole; `tidings store verify` names the reason")?;
            read += page.rows.len() as u64;
            page.rows.into_iter().try_for_each(&mut take)?;
            progress(read, kind.name());
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
    }
    Ok(())
}

/// Checks that a file is complete and every row is valid, without changes.
pub fn check(path: &Path, progress: impl Fn(AuditProgress)) -> anyhow::Result<Imported> {
    let all = std::fs::metadata(path).map(|file| file.len()).unwrap_or(0);
    let mut reader = open(path)?;
    let (now, mut content, mut left_out, mut read) = (SystemClock.now(), ContentDigest::default(), 0, 0u64);
    while let Some(row) = reader.next().with_context(|| shown(path))? {
        match row.at(now) {
            Some(row) => content.add(&row)?,
            None => left_out += 1,
        }
        read += 1;
        if read.is_multiple_of(PAGE_LEN as u64) {
            progress(AuditProgress { stage: "checking the file", read: reader.bytes(), all });
        }
    }
    let sha256 = reader.summary().map(|summary| hex(&summary.sha256)).unwrap_or_default();
    let (content, rows) = (content.digest(), content.rows);
    Ok(Imported { rows, left_out, sha256, content, exported_at: reader.exported_at() })
}

/// Imports all data of a file into an empty store.
pub async fn import(
    config: &Config,
    path: &Path,
    progress: impl Fn(AuditProgress) + Send + Sync,
) -> anyhow::Result<Imported> {
    let checked = check(path, &progress)?;
    let service = StoppedService::to_import(config).await?;
    let outcome = async {
        begin(&*service.target, &checked).await?;
        fill(&service, path, checked, &progress).await
    };
    let outcome = outcome.await;
    service.close().await;
    outcome
}

async fn begin(target: &dyn ImportTarget, file: &Imported) -> anyhow::Result<()> {
    let id = file.sha256.get(..16).and_then(|start| u64::from_str_radix(start, 16).ok());
    let id = ImportId(id.context("a checksum has 32 bytes")?);
    match target.begin(id).await.context("the store cannot be written")? {
        ImportAdmission::Begun | ImportAdmission::Again => Ok(()),
        ImportAdmission::Other => bail!(
            "the import of another file was begun here and not finished; finish that one, or begin with an empty store"
        ),
        ImportAdmission::NotEmpty { table } => {
            bail!("the store is not empty, there is something in `{table}`; an import needs a store with nothing in it")
        }
    }
}

async fn fill(
    service: &StoppedService,
    path: &Path,
    checked: Imported,
    progress: &(impl Fn(AuditProgress) + Send + Sync),
) -> anyhow::Result<Imported> {
    let all = checked.rows.values().sum::<u64>() + checked.left_out;
    let (now, mut reader, mut written) = (SystemClock.now(), open(path)?, ContentDigest::default());
    let (mut left_out, mut read) = (0, 0);
    loop {
        let mut page = Vec::with_capacity(PAGE_LEN);
        while page.len() < PAGE_LEN
            && let Some(row) = reader.next().with_context(|| shown(path))?
        {
            read += 1;
            match row.at(now) {
                Some(row) => {
                    written.add(&row)?;
                    page.push(row);
                }
                None => left_out += 1,
            }
        }
        if page.is_empty() {
            break;
        }
        service.target.write(page).await.context("the store cannot be written; begin the same import again")?;
        progress(AuditProgress { stage: "writing", read, all });
    }
    let sha256 = reader.summary().map(|summary| hex(&summary.sha256)).unwrap_or_default();
    ensure!(sha256 == checked.sha256, "{}: it has changed since it was checked; begin again", path.display());

    let mut found = ContentDigest::default();
    let said = |read, _: &'static str| progress(AuditProgress { stage: "reading back", read, all });
    each_row(&*service.source, now, said, |row| found.add(&row)).await?;
    compare(&written, &found)?;
    verify(service, progress).await?;
    service
        .target
        .finish()
        .await
        .context("the store is whole, and marked as unfinished; begin the same import again")?;
    Ok(Imported { rows: written.rows.clone(), left_out, content: written.digest(), ..checked })
}

/// Checks that the store has exactly the rows of the file. Fewer rows mean that some rows of the file share a key.
fn compare(written: &ContentDigest, found: &ContentDigest) -> anyhow::Result<()> {
    for (kind, count) in &written.rows {
        let has = found.rows.get(kind).copied().unwrap_or(0);
        ensure!(
            *count == has,
            "of kind {kind} the file has {count} rows, and the store {has}: some share a key; the store is \
             marked as unfinished, create an empty one"
        );
    }
    ensure!(written == found, "the rows of the store differ from those of the file; the store is marked as unfinished");
    Ok(())
}

/// Audits the written rows as `tidings store verify` does.
async fn verify(service: &StoppedService, progress: &(impl Fn(AuditProgress) + Send + Sync)) -> anyhow::Result<()> {
    let manner = Manner { rate: Some(u32::MAX), ..Manner::default() };
    // No other process writes here, so no waiting time is needed.
    let said = |at: AuditProgress| progress(AuditProgress { stage: "verifying", ..at });
    let (pace, _) = Paced::new(&manner, String::new(), Duration::ZERO, said)?;
    let options = AuditOptions::new(Arc::new(SystemClock));
    let findings = audit(&*service.audit, Some(&*service.log), &options, &pace, None).await;
    let findings = findings.context("the store cannot be read")?;
    let examples = findings.violations().take(EXAMPLES).map(|it| format!("{}: {}", it.invariant, it.detail));
    let examples: Vec<String> = examples.collect();
    ensure!(
        examples.is_empty(),
        "the file violates invariants, and the store is marked as unfinished: {}",
        examples.join("; ")
    );
    Ok(())
}

/// Refuses to serve or export from a store with an unfinished import.
pub(crate) fn ensure_finished(is_unfinished: bool) -> anyhow::Result<()> {
    ensure!(
        !is_unfinished,
        "an import into this store was not finished, or its restore; run the same `tidings store import` or `tidings store \
         restore-tables` again, or create an empty store"
    );
    Ok(())
}

fn open(path: &Path) -> anyhow::Result<ExportReader<BufReader<File>>> {
    let file = File::open(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    ExportReader::begin(BufReader::with_capacity(1 << 20, file)).with_context(|| shown(path))
}

fn shown(path: &Path) -> String {
    format!("`{}`", path.display())
}
