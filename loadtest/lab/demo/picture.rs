//! Draws the demo's live picture on stderr: a bar for each section of the context window, and the
//! last events. If stderr is no terminal, prints one line for each tenth of the conversation.

use std::collections::VecDeque;
use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::demo::score::Score;
use vctx_base::clock;
use vctx_cli::output::{self, bar, number, sections};

/// Number of events that the picture shows at the same time.
const EVENTS_SHOWN: usize = 8;

/// Minimum time between two drawings of the live picture.
const PICTURE_PAUSE: Duration = Duration::from_millis(40);

/// Maximum total duration of the pauses in a demo on a terminal. The pauses let a person follow the
/// picture.
const WATCHED_FOR: Duration = Duration::from_secs(9);

/// Assumed width of the terminal, in columns, if the terminal does not report its width.
const COLUMNS_DEFAULT: usize = 80;

/// Width of the text next to a bar, in columns. The text contains a name, a token count and spaces.
const COLUMNS_BESIDE: usize = 20;

/// State of the drawn window while the demo replays its conversation.
pub(super) struct Picture {
    turns: usize,
    is_watched: bool,
    columns: usize,
    events: VecDeque<String>,
    lines_drawn: usize,
    drawn_at: Option<Instant>,
    tenth: usize,
}

impl Picture {
    /// Creates an empty picture of a conversation with the given number of turns.
    pub(super) fn new(turns: usize) -> Picture {
        let is_watched = io::stderr().is_terminal()
            && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        #[allow(
            clippy::disallowed_methods,
            reason = "a shell gives the width of the terminal in COLUMNS"
        )]
        let columns = std::env::var("COLUMNS")
            .ok()
            .and_then(|columns| columns.parse().ok())
            .unwrap_or(COLUMNS_DEFAULT);
        Picture {
            turns,
            is_watched,
            columns: columns.clamp(40, 160),
            events: VecDeque::with_capacity(EVENTS_SHOWN),
            lines_drawn: 0,
            drawn_at: None,
            tenth: 0,
        }
    }

    /// Returns the pause after each message. The pause lets a person follow the picture, and is
    /// zero without a terminal.
    pub(super) fn rest(&self) -> Duration {
        match self.is_watched {
            true => (WATCHED_FOR / self.turns.max(1) as u32).min(PICTURE_PAUSE),
            false => Duration::ZERO,
        }
    }

    /// Adds an event to the picture; prints the event as a line if there is no terminal.
    pub(super) fn event(&mut self, text: String) {
        if !self.is_watched {
            return say(&format!("demo: {text}\n"));
        }
        if self.events.len() == EVENTS_SHOWN {
            self.events.pop_front();
        }
        self.events.push_back(text);
        self.drawn_at = None;
    }

    /// Draws the progress of the conversation after `done` turns.
    pub(super) fn show(&mut self, done: usize, answer: &Value, score: &Score) {
        if !self.is_watched {
            let tenth = done * 10 / self.turns.max(1);
            if tenth > self.tenth {
                self.tenth = tenth;
                say(&progress(done, self.turns, answer, score));
            }
            return;
        }
        let due = self.drawn_at.is_none_or(|at| at.elapsed() >= PICTURE_PAUSE);
        if due || done == self.turns {
            self.drawn_at = Some(clock::now());
            let lines = self.lines(done, answer, score);
            self.draw(&lines);
        }
    }

    /// Ends the drawing and keeps the last picture on the screen.
    pub(super) fn close(&mut self) {
        if self.is_watched && self.lines_drawn > 0 {
            say("\n");
            self.lines_drawn = 0;
        }
    }

    fn lines(&self, done: usize, answer: &Value, score: &Score) -> Vec<String> {
        let cells = self.columns - COLUMNS_BESIDE;
        let occupancy = number(answer, "/tokens/occupancy");
        let share = occupancy as f64 * 100.0 / score.window.max(1) as f64;
        let mut lines = vec![
            format!(
                "message {done} of {}   window {} tokens   {occupancy} used: {share:.0} %",
                self.turns, score.window
            ),
            format!("{:>17} {}", "", marks(score, cells)),
            format!("{:>8} {:>8} {}", "used", occupancy, bar(occupancy, score.window, cells)),
        ];
        for section in sections() {
            let tokens = number(answer, &format!("/tokens/{section}"));
            lines.push(format!("{section:>8} {tokens:>8} {}", bar(tokens, score.window, cells)));
        }
        lines.push(String::new());
        let mut events: Vec<String> =
            self.events.iter().map(|event| format!("  {event}")).collect();
        events.resize(EVENTS_SHOWN, String::new());
        lines.extend(events);
        lines.iter().map(|line| output::cell(line, self.columns - 1)).collect()
    }

    /// Overwrites the lines of the previous picture: moves the cursor up, then clears each line.
    fn draw(&mut self, lines: &[String]) {
        let mut text = String::new();
        if self.lines_drawn > 0 {
            text.push_str(&format!("\x1b[{}A", self.lines_drawn));
        }
        for line in lines {
            text.push_str(&format!("\r{line}\x1b[K\n"));
        }
        self.lines_drawn = lines.len();
        say(&text);
    }
}

/// Writes a text to stderr and ignores write errors.
fn say(text: &str) {
    let mut stderr = io::stderr().lock();
    drop(stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush()));
}

fn progress(done: usize, turns: usize, answer: &Value, score: &Score) -> String {
    let occupancy = number(answer, "/tokens/occupancy");
    format!(
        "demo: {:>3} %  {done} of {turns} messages, {occupancy} of {} tokens, summary {}\n",
        done * 100 / turns.max(1),
        score.window,
        number(answer, "/tokens/summary")
    )
}

/// Returns a line that shows `▾` above the bars at the window's target, warning and flush marks.
fn marks(score: &Score, cells: usize) -> String {
    let mut line = vec![' '; cells + 1];
    for (tokens, name) in
        [(score.target, "target"), (score.warning, "warning"), (score.flush, "flush")]
    {
        let at = (tokens as usize * cells / score.window.max(1) as usize).min(cells);
        line[at] = '▾';
        let start = at.saturating_sub(name.len());
        for (offset, letter) in name.chars().enumerate().take(at - start) {
            if line[start + offset] == ' ' {
                line[start + offset] = letter;
            }
        }
    }
    line.into_iter().collect::<String>().trim_end().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn score() -> Score {
        Score::new(&json!({"token_budget": {"warning": 70, "flush": 90, "target": 50, "max": 100}}))
    }

    #[test]
    fn marks_stand_over_their_share_of_the_bar() {
        let line: Vec<char> = marks(&score(), 60).chars().collect();
        assert_eq!(
            line.iter()
                .enumerate()
                .filter(|(_, c)| **c == '▾')
                .map(|(at, _)| at)
                .collect::<Vec<_>>(),
            [30, 42, 54]
        );
        assert_eq!(
            line.iter().collect::<String>(),
            "                        target▾    warning▾      flush▾"
        );
    }

    #[test]
    fn the_picture_has_a_fixed_height_and_fits_its_columns() {
        let mut picture = Picture { columns: 60, is_watched: true, ..Picture::new(10) };
        let answer = json!({"tokens": {"system": 5, "working": 0, "summary": 10, "notices": 0, "fifo": 30, "free": 55, "occupancy": 45}});
        let before = picture.lines(3, &answer, &score());
        for n in 0..EVENTS_SHOWN + 3 {
            picture.events.push_back(format!("event {n} {}", "x".repeat(100)));
            picture.events.truncate(EVENTS_SHOWN);
        }
        let after = picture.lines(4, &answer, &score());
        assert_eq!(before.len(), after.len());
        assert!(after.iter().all(|line| line.chars().count() < 60));
        for section in sections() {
            assert!(before.iter().any(|line| line.trim_start().starts_with(section)), "{section}");
        }
    }
}
