//! Moves a service from one engine to another, with everything that its users would miss, as a file between the two.
//!
//! An export is of a service that stands still. An import goes into a store with nothing in it: it reads the whole file
//! before it writes a row, marks the store as unfinished, reads everything back, checks it as `tidings verify` does, and
//! takes the mark away. Nobody serves from a store with the mark; the same import, begun again, goes on.

mod file;
mod line;
mod partial;
mod place;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use audit::{Options, Progress, audit};
use domain::Timestamp;
use ports::{Clock, ExportSource, ImportBegun, ImportId, ImportTarget, Moved, MovedKind, SystemClock};
use serde::Serialize;

use self::file::{Content, Reader, Summary, Writer};
use self::line::hex;
use self::partial::Partial;
use self::place::Place;
use super::verify::{Manner, Paced};
use crate::config::Config;

/// Rows that are read or written at once.
const PAGE_LEN: usize = 500;
/// Violations that an import names.
const EXAMPLES: usize = 3;

/// What was exported.
#[derive(Clone, Debug, Serialize)]
pub struct Exported {
    /// Rows of each kind.
    pub rows: BTreeMap<String, u64>,
    /// Of the file, all but its trailer.
    pub sha256: String,
    /// Of what the rows say, whatever their order: two stores that hold the same have the same.
    pub content: String,
    /// Bytes of the file.
    pub bytes: u64,
    /// What nobody will be told after the move.
    pub left: Left,
}

/// Events that are on their way somewhere and do not move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Left {
    /// Events that the application's webhook has not got.
    pub webhook_events: u64,
    /// Chats of which something is not in the log yet.
    pub unpublished_chats: u64,
}

/// What was imported, or would be.
#[derive(Clone, Debug, Serialize)]
pub struct Imported {
    /// Rows of each kind that the store has now.
    pub rows: BTreeMap<String, u64>,
    /// Rows of the file that were over by now.
    pub left_out: u64,
    /// Of the file, all but its trailer.
    pub sha256: String,
    /// Of what the rows say, as an export of the store would.
    pub content: String,
    /// When the file was written.
    pub exported_at: Timestamp,
}

/// Writes everything that a service holds to a file.
pub async fn export(config: &Config, path: &Path, progress: impl Fn(Progress)) -> anyhow::Result<Exported> {
    // Looked at first: it would be a pity to find out at the end.
    let partial = Partial::create(path)?;
    let place = Place::to_export(config).await?;
    let outcome = async {
        let left = place.left().await?;
        let all = place.audit.size().await.unwrap_or(0);
        write(&*place.source, place.engine, partial, left, |read, stage| {
            progress(Progress { stage, read, all: all.max(read) });
        })
        .await
    };
    let outcome = outcome.await;
    place.close().await;
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
    let mut writer = Writer::begin(partial.writer()?, at, engine)?;
    let mut content = Content::default();
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

/// Does something with every row that a store shows.
async fn each_row(
    source: &dyn ExportSource,
    at: Timestamp,
    progress: impl Fn(u64, &'static str),
    mut take: impl FnMut(Moved) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut read = 0;
    for kind in MovedKind::ALL {
        let mut after = None;
        loop {
            let page = source.rows(kind, after.as_ref(), PAGE_LEN, at).await;
            let page = page.context("the store cannot be read whole; `tidings verify` says what is wrong with it")?;
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

/// Looks whether a file is whole and every row of it is right, and changes nothing.
pub fn check(path: &Path, progress: impl Fn(Progress)) -> anyhow::Result<Imported> {
    let all = std::fs::metadata(path).map(|file| file.len()).unwrap_or(0);
    let mut reader = open(path)?;
    let (now, mut content, mut left_out, mut read) = (SystemClock.now(), Content::default(), 0, 0u64);
    while let Some(row) = reader.next().with_context(|| shown(path))? {
        match row.at(now) {
            Some(row) => content.add(&row)?,
            None => left_out += 1,
        }
        read += 1;
        if read.is_multiple_of(PAGE_LEN as u64) {
            progress(Progress { stage: "checking the file", read: reader.bytes(), all });
        }
    }
    let sha256 = reader.summary().map(|summary| hex(&summary.sha256)).unwrap_or_default();
    let (content, rows) = (content.digest(), content.rows);
    Ok(Imported { rows, left_out, sha256, content, exported_at: reader.exported_at() })
}

/// Writes everything of a file to a store with nothing in it.
pub async fn import(
    config: &Config,
    path: &Path,
    progress: impl Fn(Progress) + Send + Sync,
) -> anyhow::Result<Imported> {
    let checked = check(path, &progress)?;
    let place = Place::to_import(config).await?;
    let outcome = async {
        begin(&*place.target, &checked).await?;
        fill(&place, path, checked, &progress).await
    };
    let outcome = outcome.await;
    place.close().await;
    outcome
}

async fn begin(target: &dyn ImportTarget, file: &Imported) -> anyhow::Result<()> {
    let id = file.sha256.get(..16).and_then(|start| u64::from_str_radix(start, 16).ok());
    let id = ImportId(id.context("a checksum has 32 bytes")?);
    match target.begin(id).await.context("the store cannot be written")? {
        ImportBegun::Begun | ImportBegun::Again => Ok(()),
        ImportBegun::Other => bail!(
            "the import of another file was begun here and not finished; finish that one, or begin with an empty store"
        ),
        ImportBegun::NotEmpty { table } => {
            bail!("the store is not empty, there is something in `{table}`; an import needs a store with nothing in it")
        }
    }
}

async fn fill(
    place: &Place,
    path: &Path,
    checked: Imported,
    progress: &(impl Fn(Progress) + Send + Sync),
) -> anyhow::Result<Imported> {
    let all = checked.rows.values().sum::<u64>() + checked.left_out;
    let (now, mut reader, mut written) = (SystemClock.now(), open(path)?, Content::default());
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
        place.target.write(page).await.context("the store cannot be written; begin the same import again")?;
        progress(Progress { stage: "writing", read, all });
    }
    let sha256 = reader.summary().map(|summary| hex(&summary.sha256)).unwrap_or_default();
    ensure!(sha256 == checked.sha256, "{}: it has changed since it was checked; begin again", path.display());

    let mut found = Content::default();
    let said = |read, _: &'static str| progress(Progress { stage: "reading back", read, all });
    each_row(&*place.source, now, said, |row| found.add(&row)).await?;
    compare(&written, &found)?;
    verify(place, progress).await?;
    place.target.finish().await.context("the store is whole, and marked as unfinished; begin the same import again")?;
    Ok(Imported { rows: written.rows.clone(), left_out, content: written.digest(), ..checked })
}

/// What the store has is what the file says, or rows of the file take each other's place.
fn compare(written: &Content, found: &Content) -> anyhow::Result<()> {
    for (kind, count) in &written.rows {
        let has = found.rows.get(kind).copied().unwrap_or(0);
        ensure!(
            *count == has,
            "of kind {kind} the file has {count} rows, and the store {has}: some take each other's place; the store is \
             marked as unfinished, make an empty one"
        );
    }
    ensure!(written == found, "the store does not hold what the file says; it is marked as unfinished");
    Ok(())
}

/// Checks what was written as `tidings verify` does.
async fn verify(place: &Place, progress: &(impl Fn(Progress) + Send + Sync)) -> anyhow::Result<()> {
    let manner = Manner { rate: u32::MAX, ..Manner::default() };
    // Nobody else writes here, so there is nothing to wait for.
    let said = |at: Progress| progress(Progress { stage: "verifying", ..at });
    let (pace, _) = Paced::new(&manner, String::new(), Duration::ZERO, said)?;
    let options = Options::new(Arc::new(SystemClock));
    let findings = audit(&*place.audit, Some(&*place.log), &options, &pace, None).await;
    let findings = findings.context("the store cannot be read")?;
    let examples = findings.violations().take(EXAMPLES).map(|it| format!("{}: {}", it.invariant, it.detail));
    let examples: Vec<String> = examples.collect();
    ensure!(
        examples.is_empty(),
        "the file breaks what must be true, and the store is marked as unfinished: {}",
        examples.join("; ")
    );
    Ok(())
}

/// Nobody serves, or exports, from a store whose import was not finished.
pub(crate) fn ensure_finished(is_unfinished: bool) -> anyhow::Result<()> {
    ensure!(
        !is_unfinished,
        "an import into this store was not finished; begin the same `tidings import` again, or make an empty store"
    );
    Ok(())
}

fn open(path: &Path) -> anyhow::Result<Reader<BufReader<File>>> {
    let file = File::open(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    Reader::begin(BufReader::with_capacity(1 << 20, file)).with_context(|| shown(path))
}

fn shown(path: &Path) -> String {
    format!("`{}`", path.display())
}
