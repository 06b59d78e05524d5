//! Where a run stands, on stderr: one line that changes for a person at a terminal, a line for each tenth elsewhere.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Steps of one benchmark and how many are done.
#[derive(Debug)]
pub(super) struct Progress {
    name: String,
    total: usize,
    done: AtomicUsize,
    told: AtomicUsize,
    is_watched: bool,
}

impl Progress {
    /// Nothing done yet of so many steps.
    pub(super) fn new(name: &str, total: usize) -> Progress {
        let is_watched = io::stderr().is_terminal();
        let (done, told) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Progress { name: name.into(), total: total.max(1), done, told, is_watched }
    }

    /// So many more steps are done.
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

    /// Takes the line away.
    pub(super) fn close(&self) {
        if self.is_watched {
            say("\r\x1b[K");
        }
    }
}

/// A sentence on the way.
pub(super) fn note(text: &str) {
    say(&format!("eval: {text}\n"));
}

/// A closed stderr is no reason to end.
fn say(text: &str) {
    drop(io::stderr().lock().write_all(text.as_bytes()));
}
