//! Prepares a measurement and writes its report, for all commands of the load test.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::Fault;
use crate::machine;
use crate::options::Common;

/// One run of a load test command, with its data directory. Dropping the session removes the
/// directory.
pub(crate) struct Session<'a> {
    options: &'a Common,
    folder: TempDir,
    /// Commit of the measured program, for the report.
    pub(crate) commit: String,
    /// Type of the file system that contains the data directory.
    pub(crate) disk: String,
    /// Load averages before any process was started.
    pub(crate) load_before: String,
}

impl<'a> Session<'a> {
    /// Creates a directory for the data, and records the state of the machine.
    pub(crate) fn begin(options: &'a Common) -> Result<Self, Fault> {
        let folder = match &options.dir {
            Some(dir) => tempfile::tempdir_in(dir)?,
            None => tempfile::tempdir()?,
        };
        Ok(Self {
            options,
            commit: options.commit.clone().unwrap_or_else(machine::commit),
            disk: machine::file_system(folder.path()),
            load_before: machine::load_average(),
            folder,
        })
    }

    /// Returns the directory for the data of the measurement.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Creates a directory within the data directory.
    pub(crate) fn subfolder(&self, name: &str) -> Result<PathBuf, Fault> {
        let path = self.folder().join(name);
        fs::create_dir(&path)?;
        Ok(path)
    }

    /// Returns the title and the first lines of a report, which describe the machine and the
    /// measured program.
    pub(crate) fn head(&self, title: &str) -> String {
        let assertions = if cfg!(debug_assertions) { "with" } else { "without" };
        let mut text = format!(
            "# {title}\n\n- Machine: {}; {}\n- Data on {}; commit {}; build {assertions} debug assertions\n\
             - Scheduling: {}; load average {} before, {} after\n",
            machine::hardware(),
            machine::kernel(),
            self.disk,
            self.commit,
            machine::scheduling(),
            self.load_before,
            machine::load_average()
        );
        if machine::busy(&self.load_before) {
            text.push_str(
                "- **The machine was busy before this began**: without real-time scheduling \
                 (`chrt --rr 1`) each wait below may be the wait for a processor\n",
            );
        }
        text
    }

    /// Prints `printed`. Writes `report` to the file of the option `--out`, if the option is given.
    pub(crate) fn publish(&self, printed: &str, report: &str) -> Result<(), Fault> {
        println!("{printed}");
        if let Some(out) = &self.options.out {
            fs::write(out, report).map_err(|e| format!("{}: {e}", out.display()))?;
        }
        Ok(())
    }
}

/// Returns the path of a program to measure: the given path, or the program of that name in the
/// directory of this program.
pub(crate) fn program(given: Option<&Path>, name: &str) -> Result<PathBuf, Fault> {
    let path = match given {
        Some(path) => path.to_owned(),
        None => std::env::current_exe()?.with_file_name(name),
    };
    if path.is_file() {
        return Ok(path.canonicalize()?);
    }
    Err(format!("{} is missing: run `cargo build`, or give its path", path.display()).into())
}
