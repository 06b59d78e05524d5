//! The file of an export or import while it is under way: it has no path and a maximum length, and
//! it leaves room on the disk for the database.

use std::fs::File;
use std::io::{BufWriter, Seek as _, Write as _};

use vctx_core::error::{Code, Error, Result};
use vctx_core::limits::EXPORT_BYTES_MAX;

/// Share of a file system that working files leave free: one part in this number. The database
/// usually shares the file system, and needs room to accept writes.
const DISK_RESERVE_PART: u64 = 10;
/// Maximum of this reserve, in bytes.
const DISK_RESERVE_BYTES_MAX: u64 = 1 << 30;
/// Number of written bytes after which the free room is measured again.
const DISK_LOOK_BYTES: u64 = 1 << 20;

/// A file without a path; it is deleted when its last handle is dropped.
pub(super) struct WorkingFile {
    file: BufWriter<File>,
    bytes: u64,
    /// Number of bytes up to which the free room was found sufficient.
    room_until: u64,
}

impl WorkingFile {
    pub(super) fn new(file: File) -> Self {
        Self { file: BufWriter::new(file), bytes: 0, room_until: 0 }
    }

    /// Appends bytes to the file. Fails if the file would become too long, or if too little room
    /// would remain on the disk.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes += bytes.len() as u64;
        if self.bytes > EXPORT_BYTES_MAX {
            let text = format!("an export has at most {EXPORT_BYTES_MAX} bytes");
            return Err(Error::new(Code::BodyTooLarge, text).with("bytes_max", EXPORT_BYTES_MAX));
        }
        if self.bytes > self.room_until {
            self.look_for_room()?;
        }
        self.file.write_all(bytes).map_err(full)
    }

    /// Returns the file, positioned at its beginning, and its length in bytes.
    pub(super) fn finish(self) -> Result<(File, u64)> {
        let mut file = self.file.into_inner().map_err(|e| full(e.into_error()))?;
        file.rewind().map_err(full)?;
        Ok((file, self.bytes))
    }

    /// Fails unless the disk has room for the reserve and for the bytes until the next look.
    fn look_for_room(&mut self) -> Result<()> {
        let disk = rustix::fs::fstatvfs(self.file.get_ref()).map_err(|e| full(e.into()))?;
        let block = disk.f_frsize;
        let (free, whole) =
            (disk.f_bavail.saturating_mul(block), disk.f_blocks.saturating_mul(block));
        let reserve = (whole / DISK_RESERVE_PART).min(DISK_RESERVE_BYTES_MAX);
        self.room_until = self.bytes + DISK_LOOK_BYTES;
        // The buffered bytes are not on the disk yet; the look ahead is larger than the buffer.
        if free < reserve + 2 * DISK_LOOK_BYTES {
            let text = format!(
                "the disk of the server has {free} bytes left, of which {reserve} stay free: make room on it"
            );
            return Err(Error::new(Code::DiskFull, text));
        }
        Ok(())
    }
}

fn full(error: std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::StorageFull => {
            Error::new(Code::DiskFull, "the disk of the server is full: make room on it")
                .caused_by(error)
        }
        _ => Error::new(Code::Internal, "the server cannot write its working file: see its log")
            .caused_by(error),
    }
}
