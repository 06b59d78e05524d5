//! Files of agents on this side of the socket: plain or packed, read with bounds, checked line by line as they pass.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use crate::exit::Failure;
use vctx_core::limits::{
    EXPORT_BYTES_MAX, EXPORT_GZIP_FREE_BYTES, EXPORT_GZIP_RATIO_MAX, EXPORT_LINE_BYTES_MAX,
};
use vctx_core::memory::export::{Checked, Checker, Header};
use vctx_server::store::SCHEMA;

/// How a gzip file begins (RFC 1952 §2.3.1).
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// Longest first line that is looked at to find out what a file is, in bytes.
const HEADER_BYTES_MAX: u64 = 64 * 1024;

/// Bytes with an end: more than that is no file of ours, or one that unpacks to far more than it is.
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
                "it is too long, or unpacks to far more than it is: unpack it with gunzip if you trust it",
            )
        })?;
        Ok(read)
    }
}

/// The bytes of a file, unpacked if it is packed.
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

/// Whether a file says in its first line that it is an export of an agent.
pub fn is_export(path: &Path) -> bool {
    if !path.is_file() {
        return false;
    }
    let Ok(file) = opened(path) else { return false };
    let mut line = String::new();
    let read = BufReader::new(file).take(HEADER_BYTES_MAX).read_line(&mut line);
    read.is_ok() && Header::is_begun_by(line.trim_end_matches('\n'))
}

/// Checks a file whole.
pub fn checked(path: &Path) -> Result<Checked, Failure> {
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

/// A file that passes in pieces of any length.
pub struct Passing {
    checker: Checker,
    line: Vec<u8>,
}

impl Passing {
    pub fn begin() -> Self {
        Self { checker: Checker::new(SCHEMA), line: Vec::new() }
    }

    /// Rows so far.
    pub fn rows(&self) -> u64 {
        self.checker.rows()
    }

    /// The next piece.
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

    /// What it was, if that was all of it.
    pub fn finish(self) -> Result<Checked, String> {
        match self.line.is_empty() {
            true => self.checker.finish(),
            false => Err("the file was cut off within a line".into()),
        }
    }
}
