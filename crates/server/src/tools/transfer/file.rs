//! The export file as a stream of lines: written with checksums, and accepted only if they match.
//!
//! A file with any changed byte is refused. The checksums cover every byte before them, the trailer is compared byte by
//! byte with the expected one, and nothing may follow it.

use std::collections::BTreeMap;
use std::io::{BufRead, Read, Write};

use anyhow::{Context, bail, ensure};
use aws_lc_rs::digest::{self, SHA256};
use domain::Timestamp;
use ports::{ExportKind, Moved};

use super::line::{ExportChecksumRow, ExportHeaderRow, ExportLine, ExportTrailerRow, hex};

/// The format name in every header.
const FORMAT: &str = "tidings-export";
/// The only version that is written and read.
const VERSION: u32 = 1;
/// Most bytes in a line; our rows are far shorter.
const LINE_BYTES_MAX: usize = 64 * 1024;
/// Rows between two checksums, so that damage can be located.
const CHECKSUM_INTERVAL: u64 = 1000;

/// Number of rows by kind.
pub(super) type RowCounts = BTreeMap<String, u64>;

/// The counts and checksum of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Summary {
    pub(super) rows: RowCounts,
    /// Of every byte before the trailer.
    pub(super) sha256: [u8; 32],
}

/// An order-independent digest of rows: two stores with the same rows have the same digest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ContentDigest {
    pub(super) rows: RowCounts,
    sum: [u64; 4],
}

impl ContentDigest {
    pub(super) fn add(&mut self, row: &Moved) -> anyhow::Result<()> {
        let digest = digest::digest(&SHA256, &serde_json::to_vec(&ExportLine::from(row))?);
        // Sums instead of xor, so that a duplicate row does not cancel out.
        for (lane, bytes) in self.sum.iter_mut().zip(digest.as_ref().chunks_exact(8)) {
            let part = bytes.try_into().map(u64::from_be_bytes).context("a digest has 32 bytes")?;
            *lane = lane.wrapping_add(part);
        }
        *self.rows.entry(row.kind().name().to_owned()).or_default() += 1;
        Ok(())
    }

    /// As text, for people to compare.
    pub(super) fn digest(&self) -> String {
        self.sum.iter().map(|lane| format!("{lane:016x}")).collect()
    }
}

/// Writes an export file.
pub(super) struct ExportWriter<W> {
    output: W,
    sha256: digest::Context,
    rows: RowCounts,
    unchecked: u64,
}

impl<W: Write> ExportWriter<W> {
    pub(super) fn begin(output: W, exported_at: Timestamp, from: &str) -> anyhow::Result<Self> {
        let mut writer = Self { output, sha256: digest::Context::new(&SHA256), rows: RowCounts::new(), unchecked: 0 };
        writer.line(&ExportLine::Header(ExportHeaderRow {
            format: FORMAT.to_owned(),
            version: VERSION,
            exported_at,
            from: from.to_owned(),
            tidings: env!("CARGO_PKG_VERSION").to_owned(),
        }))?;
        Ok(writer)
    }

    pub(super) fn row(&mut self, row: &Moved) -> anyhow::Result<()> {
        self.line(&ExportLine::from(row))?;
        *self.rows.entry(row.kind().name().to_owned()).or_default() += 1;
        self.unchecked += 1;
        if self.unchecked == CHECKSUM_INTERVAL {
            self.unchecked = 0;
            let sha256 = hex(&sum(&self.sha256));
            self.line(&ExportLine::Checksum(ExportChecksumRow { sha256 }))?;
        }
        Ok(())
    }

    /// Writes the trailer, and returns the output.
    pub(super) fn finish(mut self) -> anyhow::Result<(W, Summary)> {
        let summary = Summary { rows: std::mem::take(&mut self.rows), sha256: sum(&self.sha256) };
        self.line(&trailer(&summary))?;
        Ok((self.output, summary))
    }

    fn line(&mut self, line: &ExportLine) -> anyhow::Result<()> {
        let bytes = bytes(line)?;
        ensure!(bytes.len() <= LINE_BYTES_MAX, "a row takes {} bytes, limit is {LINE_BYTES_MAX}", bytes.len());
        self.sha256.update(&bytes);
        self.output.write_all(&bytes).context("the file cannot be written")
    }
}

/// Reads a file row by row. Its rows can be trusted only after the end was reached.
pub(super) struct ExportReader<R> {
    input: R,
    header: ExportHeaderRow,
    sha256: digest::Context,
    rows: RowCounts,
    last_kind: ExportKind,
    /// The number of the last line read.
    line: u64,
    /// The number of the last checksum line.
    checked: u64,
    summary: Option<Summary>,
    bytes: u64,
}

impl<R: BufRead> ExportReader<R> {
    pub(super) fn begin(input: R) -> anyhow::Result<Self> {
        let nobody = || ExportHeaderRow {
            format: String::new(),
            version: 0,
            exported_at: Timestamp::default(),
            from: String::new(),
            tidings: String::new(),
        };
        let mut reader = Self {
            input,
            header: nobody(),
            sha256: digest::Context::new(&SHA256),
            rows: RowCounts::new(),
            last_kind: ExportKind::ALL[0],
            line: 0,
            checked: 0,
            summary: None,
            bytes: 0,
        };
        let first = reader.bytes_of_line()?;
        // Distinguishes a file of another kind from a damaged export.
        let Ok(ExportLine::Header(header)) = parse(&first) else {
            bail!("line 1: it is not a header; choose a file that `tidings store export` has written");
        };
        ensure!(header.format == FORMAT, "line 1: its format is `{}`, and not `{FORMAT}`", short(&header.format));
        ensure!(
            header.version == VERSION,
            "line 1: it has version {}, this version of tidings reads version {VERSION}; import it with the version \
             that wrote it, `{}`",
            header.version,
            short(&header.tidings)
        );
        reader.sha256.update(&first);
        reader.header = header;
        Ok(reader)
    }

    pub(super) fn exported_at(&self) -> Timestamp {
        self.header.exported_at
    }

    /// Bytes read so far.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The counts and checksum of the file, after it was read to its end.
    pub(super) fn summary(&self) -> Option<&Summary> {
        self.summary.as_ref()
    }

    /// The next row; `None` at the end of a complete and valid file.
    pub(super) fn next(&mut self) -> anyhow::Result<Option<Moved>> {
        if self.summary.is_some() {
            return Ok(None);
        }
        loop {
            let bytes = self.bytes_of_line()?;
            let number = self.line;
            let at_line = || format!("line {number}");
            let line = parse(&bytes).with_context(at_line)?;
            match line {
                ExportLine::Trailer(trailer) => {
                    self.end(&trailer, &bytes)?;
                    return Ok(None);
                }
                ExportLine::Checksum(checksum) => self.check(&checksum.sha256)?,
                row => {
                    let row = row.moved().with_context(at_line)?;
                    let kind = row.kind();
                    ensure!(
                        kind >= self.last_kind,
                        "line {number}: a {} follows a {}; kinds come in the order {}",
                        kind.name(),
                        self.last_kind.name(),
                        ExportKind::ALL.map(ExportKind::name).join(", ")
                    );
                    self.last_kind = kind;
                    *self.rows.entry(kind.name().to_owned()).or_default() += 1;
                    self.sha256.update(&bytes);
                    return Ok(Some(row));
                }
            }
            self.sha256.update(&bytes);
        }
    }

    /// Compares the checksum of the lines since the last one.
    fn check(&mut self, sha256: &str) -> anyhow::Result<()> {
        let (first, last) = (self.checked + 1, self.line - 1);
        ensure!(
            hex(&sum(&self.sha256)) == sha256,
            "lines {first} to {last}: checksum mismatch; one of them is damaged"
        );
        self.checked = self.line;
        Ok(())
    }

    fn end(&mut self, said: &ExportTrailerRow, bytes: &[u8]) -> anyhow::Result<()> {
        let line = self.line;
        self.check(&said.sha256)?;
        for kind in ExportKind::ALL.map(ExportKind::name) {
            let [said, found] = [&said.rows, &self.rows].map(|rows| rows.get(kind).copied().unwrap_or(0));
            ensure!(said == found, "line {line}: the trailer counts {said} of kind {kind}, and there are {found}");
        }
        let summary = Summary { rows: std::mem::take(&mut self.rows), sha256: sum(&self.sha256) };
        ensure!(bytes == self::bytes(&trailer(&summary))?, "line {line}: the trailer is damaged");
        let mut behind = [0];
        let more = self.input.read(&mut behind).context("the file cannot be read")?;
        ensure!(more == 0, "line {}: something follows the trailer", line + 1);
        self.summary = Some(summary);
        Ok(())
    }

    /// The bytes of the next line, including its end.
    fn bytes_of_line(&mut self) -> anyhow::Result<Vec<u8>> {
        let mut bytes = vec![];
        let mut bounded = self.input.by_ref().take(LINE_BYTES_MAX as u64 + 1);
        bounded.read_until(b'\n', &mut bytes).context("the file cannot be read")?;
        let line = self.line + 1;
        ensure!(bytes.len() <= LINE_BYTES_MAX, "line {line}: it is longer than {LINE_BYTES_MAX} bytes");
        ensure!(!bytes.is_empty(), "line {line}: the file ends before its trailer; it is truncated");
        ensure!(bytes.ends_with(b"\n"), "line {line}: it is cut off; the file is truncated");
        self.line = line;
        self.bytes += bytes.len() as u64;
        Ok(bytes)
    }
}

fn sum(context: &digest::Context) -> [u8; 32] {
    let mut sum = [0; 32];
    sum.copy_from_slice(context.clone().finish().as_ref());
    sum
}

fn trailer(summary: &Summary) -> ExportLine {
    ExportLine::Trailer(ExportTrailerRow { rows: summary.rows.clone(), sha256: hex(&summary.sha256) })
}

fn bytes(line: &ExportLine) -> anyhow::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(line)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Parses a line. An error names the field but not its value, which may be private text of users.
fn parse(bytes: &[u8]) -> anyhow::Result<ExportLine> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let line = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let (path, column) = (short(&error.path().to_string()), error.inner().column());
        anyhow::anyhow!("`{path}` cannot be read, at column {column}")
    })?;
    json.end().map_err(|error| anyhow::anyhow!("something follows the row, at column {}", error.column()))?;
    Ok(line)
}

/// The first characters of a text from a file.
fn short(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests;
