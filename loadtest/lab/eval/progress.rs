//! Shows the progress of a benchmark on stderr. On a terminal, one line is updated in place.
//! Otherwise, a line is printed for each completed tenth of the steps.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Progress of a benchmark: the number of all steps and the number of completed steps.
#[derive(Debug)]
pub(super) struct Progress {
    name: String,
    total: usize,
    done: AtomicUsize,
    told: AtomicUsize,
    is_watched: bool,
}

impl Progress {
    /// Creates a progress display with no completed steps.
    pub(super) fn new(name: &str, total: usize) -> Progress {
        let is_watched = io::stderr().is_terminal();
        let (done, told) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Progress { name: name.into(), total: total.max(1), done, told, is_watched }
    }

    /// Counts finished steps.
    pub(super) fn add(&self, steps: usize) {
        let done = self.done.fetch_add(steps, Ordering::Relaxed) + steps;
        let parts = if self.is_watched { 200 } else { 10 };
        let part = done * parts / self.total;
        if self.told.fetch_max(part, Ordering::Relaxed) < part {
            let percent = (done * 100 / self.total).min(100);
            let line = format!("eval: {}: {percent} %", self.name);
            say(&if self.is_watched { format!("\r{line}\x1b[K") } else { format!("{line}\n") });
        }
    }

    /// Removes the progress line from the terminal.
    pub(super) fn close(&self) {
        if self.is_watched {
            say("\r\x1b[K");
        }
    }
}

/// Prints a sentence about the benchmark to stderr.
pub(super) fn note(text: &str) {
    say(&format!("eval: {text}\n"));
}

/// Writes a text to stderr. Ignores write errors, so that the benchmark continues after stderr was
/// closed.
fn say(text: &str) {
    drop(io::stderr().lock().write_all(text.as_bytes()));
}
