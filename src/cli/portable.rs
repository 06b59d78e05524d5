//! Reads export files, plain or compressed, within size limits, and checks the export line by line.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use crate::exit::Failure;
use vctx_core::limits::{EXPORT_BYTES_MAX, EXPORT_LINE_BYTES_MAX};
use vctx_core::memory::export::{Checker, Header, ImportPlan};
use vctx_server::store::SCHEMA;

/// Unpacked size in bytes up to which a compressed export is accepted regardless of its compression
/// ratio.
const EXPORT_GZIP_FREE_BYTES: u64 = 64 * 1024 * 1024;
/// Maximum ratio of unpacked to compressed bytes for exports above `EXPORT_GZIP_FREE_BYTES`.
const EXPORT_GZIP_RATIO_MAX: u64 = 200;

/// First bytes of a gzip file (RFC 1952 §2.3.1).
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// Maximum number of bytes of the first line that are read to recognize an export.
const HEADER_BYTES_MAX: u64 = 64 * 1024;

/// A reader that returns an error after a number of bytes. This limit protects against
/// decompression bombs.
struct Bounded<R> {
    from: R,
    left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(into)?;
        self.left = self.left.checked_sub(read as u64).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                "the file is too long, or unpacks to far more than its size: unpack it with gunzip if you trust it",
            )
        })?;
        Ok(read)
    }
}

/// Opens a file for reading; a compressed file is unpacked while it is read.
pub fn opened(path: &Path) -> Result<Box<dyn Read + Send>, Failure> {
    let failed = |error: &io::Error| Failure::reading(path.display(), error);
    let file = File::open(path).map_err(|error| failed(&error))?;
    let packed_bytes = file.metadata().map_err(|error| failed(&error))?.len();
    let mut file = BufReader::new(file);
    let packed = file.fill_buf().map_err(|error| failed(&error))?.starts_with(&GZIP);
    if !packed {
        return Ok(Box::new(Bounded { from: file, left: EXPORT_BYTES_MAX }));
    }
    let most =
        EXPORT_GZIP_FREE_BYTES.saturating_add(packed_bytes.saturating_mul(EXPORT_GZIP_RATIO_MAX));
    let from = MultiGzDecoder::new(file);
    Ok(Box::new(Bounded { from, left: most.min(EXPORT_BYTES_MAX) }))
}

/// Whether the first line of a file says that the file is an export of an agent.
pub fn is_export(path: &Path) -> bool {
    if !path.is_file() {
        return false;
    }
    let Ok(file) = opened(path) else { return false };
    let mut line = String::new();
    let read = BufReader::new(file).take(HEADER_BYTES_MAX).read_line(&mut line);
    read.is_ok() && Header::is_begun_by(line.trim_end_matches('\n'))
}

/// Checks a whole export file.
pub fn checked(path: &Path) -> Result<ImportPlan, Failure> {
    let mut file = BufReader::new(opened(path)?);
    let mut passing = Passing::begin();
    loop {
        let piece = file.fill_buf().map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData
            | io::ErrorKind::InvalidInput
            | io::ErrorKind::UnexpectedEof => Failure::data(format!("{}: {error}", path.display())),
            _ => Failure::reading(path.display(), &error),
        })?;
        let bytes = piece.len();
        if bytes == 0 {
            return passing.finish().map_err(|why| refused(path, &why));
        }
        passing.take(piece).map_err(|why| refused(path, &why))?;
        file.consume(bytes);
    }
}

fn refused(path: &Path, why: &str) -> Failure {
    Failure::data(format!("{}: {why}", path.display()))
        .next("take another copy of the file, or export the agent again")
}

/// A checker of an export file that arrives in pieces of any length.
pub struct Passing {
    checker: Checker,
    line: Vec<u8>,
}

impl Passing {
    pub fn begin() -> Self {
        Self { checker: Checker::new(SCHEMA), line: Vec::new() }
    }

    /// Returns the number of rows checked so far.
    pub fn rows(&self) -> u64 {
        self.checker.rows()
    }

    /// Checks the next piece of the export file.
    pub fn take(&mut self, mut piece: &[u8]) -> Result<(), String> {
        while let Some(end) = piece.iter().position(|byte| *byte == b'\n') {
            self.line.extend_from_slice(&piece[..end]);
            let line = std::mem::take(&mut self.line);
            let line = std::str::from_utf8(&line).map_err(|_| "the file is not UTF-8")?;
            self.checker.line(line)?;
            piece = &piece[end + 1..];
        }
        self.line.extend_from_slice(piece);
        if self.line.len() > EXPORT_LINE_BYTES_MAX {
            return Err(format!("a line has more than {EXPORT_LINE_BYTES_MAX} bytes"));
        }
        Ok(())
    }

    /// Returns the header and the numbers of rows of the export file, or an error if the file is
    /// not complete.
    pub fn finish(self) -> Result<ImportPlan, String> {
        match self.line.is_empty() {
            true => self.checker.finish(),
            false => Err("the file was cut off within a line".into()),
        }
    }
}
