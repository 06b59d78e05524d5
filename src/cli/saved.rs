//! Writes the output files of commands.
//!
//! Only the owner can read such a file, because it may contain conversations; the file gets its
//! final name only when it is complete.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::exit::Failure;

/// An output file. All data is written to a temporary file (mode 0600 regardless of the umask),
/// which then gets the final name.
pub struct Saved {
    to: To,
}

enum To {
    Beside(NamedTempFile, PathBuf),
    /// A pipe or a terminal (such as `/dev/stdout`). The command writes to it without a temporary
    /// file.
    Straight(File),
}

impl Saved {
    /// Creates a temporary file for the given final path. If the final path is a symbolic link, the
    /// file that the link names is replaced. For a pipe or a terminal, no temporary file is
    /// created.
    pub fn begin(path: &Path) -> io::Result<Saved> {
        if fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir()) {
            return Ok(Saved { to: To::Straight(OpenOptions::new().write(true).open(path)?) });
        }
        let path = match path.is_symlink() {
            true => fs::canonicalize(path)?,
            false => path.to_owned(),
        };
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let file = NamedTempFile::new_in(directory.unwrap_or(Path::new(".")))?;
        Ok(Saved { to: To::Beside(file, path) })
    }

    /// Gives the temporary file the final name, and replaces an existing file of that name.
    pub fn finish(self) -> io::Result<()> {
        self.with_path(|file, path| file.persist(path).map(drop).map_err(|error| error.error))
    }

    /// Gives the temporary file the final name; fails with `AlreadyExists` if a file has that name.
    pub fn finish_new(self) -> io::Result<()> {
        self.with_path(|file, path| {
            file.persist_noclobber(path).map(drop).map_err(|error| error.error)
        })
    }

    fn with_path(
        self,
        give: impl FnOnce(NamedTempFile, &Path) -> io::Result<()>,
    ) -> io::Result<()> {
        match self.to {
            To::Straight(mut file) => file.flush(),
            To::Beside(file, path) => {
                file.as_file().sync_all()?;
                give(file, &path)
            }
        }
    }
}

impl Write for Saved {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.to {
            To::Beside(file, _) => file.write(bytes),
            To::Straight(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.to {
            To::Beside(file, _) => file.flush(),
            To::Straight(file) => file.flush(),
        }
    }
}

/// Saves a text in a file.
pub fn save(path: &Path, text: &str) -> Result<(), Failure> {
    let written = Saved::begin(path).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.finish()
    });
    written.map_err(|error| Failure::writing(path.display(), &error))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_saved_file_is_its_owners_alone_also_where_an_open_one_was() {
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("f"), dir.path().join("link"));
        fs::write(&path, "before").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        symlink("f", &link).unwrap();
        for place in [&path, &link, &dir.path().join("new")] {
            save(place, "a secret").unwrap();
            assert_eq!(
                (mode(place), fs::read_to_string(place).unwrap()),
                (0o600, "a secret".into())
            );
        }
        assert!(link.is_symlink());
    }

    #[test]
    fn a_file_that_was_not_finished_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        fs::write(&path, "before").unwrap();
        let mut begun = Saved::begin(&path).unwrap();
        begun.write_all(b"half").unwrap();
        drop(begun);
        let mut other = Saved::begin(&path).unwrap();
        other.write_all(b"whole").unwrap();
        assert_eq!(other.finish_new().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&path).unwrap(), "before");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn what_is_no_file_is_written_to_and_stays() {
        save(Path::new("/dev/null"), "nothing").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }
}
