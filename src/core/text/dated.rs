//! Writes and reads the beginning of a summary's line: the days and positions of the messages for
//! which the line stands, and the speaker's label.

use std::fmt;

use jiff::civil::Date;

use super::filler_words::MONTHS;

/// Maximum length of a speaker's label: this number of characters and [`LABEL_WORDS_MAX`] words.
const LABEL_CHARS_MAX: usize = 32;
const LABEL_WORDS_MAX: usize = 3;
/// Label of a speaker whose name is empty.
const NO_LABEL: &str = "note";
/// Maximum number of words of the days of a line, as in `28 December 2022-3 January 2023`.
const DAY_WORDS_MAX: usize = 5;

/// Days and positions of messages; both ranges include their ends. The text form is short:
/// `8-25 May 2023 #1-40`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) days: (Date, Date),
    pub(super) seqs: (u64, u64),
}

impl Origin {
    /// Returns an origin that includes both origins.
    pub(super) fn with(self, other: Self) -> Self {
        let (days, seqs) = (self.days, self.seqs);
        Self {
            days: (days.0.min(other.days.0), days.1.max(other.days.1)),
            seqs: (seqs.0.min(other.seqs.0), seqs.1.max(other.seqs.1)),
        }
    }

    /// Reads the origin at the beginning of a line, and returns it with the rest of the line.
    pub(super) fn read(line: &str) -> Option<(Self, &str)> {
        let (days, rest) = line.split_once(" #")?;
        if days.split(' ').count() > DAY_WORDS_MAX {
            return None;
        }
        let (seqs, rest) = rest.split_once(' ')?;
        let (first, last) = seqs.split_once('-').unwrap_or((seqs, seqs));
        let seqs = (first.parse().ok()?, last.parse().ok()?);
        let days = match days.split_once('-') {
            Some((first, last)) => (day(first, last)?, day(last, last)?),
            None => (day(days, days)?, day(days, days)?),
        };
        Some((Self { days, seqs }, rest))
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last) = self.days;
        if (first.year(), first.month(), first.day()) != (last.year(), last.month(), last.day()) {
            write!(formatter, "{}", first.day())?;
            if (first.year(), first.month()) != (last.year(), last.month()) {
                write!(formatter, " {}", month(first))?;
            }
            if first.year() != last.year() {
                write!(formatter, " {}", first.year())?;
            }
            formatter.write_str("-")?;
        }
        write!(formatter, "{} {} {}", last.day(), month(last), last.year())?;
        match self.seqs {
            (first, last) if first == last => write!(formatter, " #{first}"),
            (first, last) => write!(formatter, " #{first}-{last}"),
        }
    }
}

fn month(date: Date) -> &'static str {
    usize::try_from(date.month() - 1).ok().and_then(|at| MONTHS.get(at)).unwrap_or(&MONTHS[0])
}

/// Reads a day whose month and year may be written only in the text `last`.
fn day(text: &str, last: &str) -> Option<Date> {
    let mut words = text.split(' ');
    let mut others = last.split(' ').skip(1);
    let number = words.next()?.parse().ok()?;
    let (month, year) = (others.next(), others.next());
    let name = words.next().or(month)?;
    let month = MONTHS.iter().position(|known| *known == name)?;
    let year = words.next().or(year)?.parse().ok()?;
    Date::new(year, i8::try_from(month + 1).ok()?, number).ok()
}

/// Names of roles, which a summary has as names of speakers.
const ROLES: [&str; 5] = ["user", "assistant", "system", "tool", "event"];
/// Length in bytes below which a text without letters may be a part of a date or of positions.
const DATE_BYTES_MAX: usize = 12;

/// Whether a summary may contain a text that none of its messages contains. The summariser adds
/// dates, positions, names of speakers and separators.
pub fn may_write(text: &str) -> bool {
    let joins = [':', ';', '|', '#', '\n', '\r'];
    let ends = [". ", "! ", "? "];
    let is_month = |word: &str| MONTHS.contains(&word.trim_matches(|c: char| !c.is_alphabetic()));
    text.contains(joins)
        || ends.iter().any(|end| text.contains(end))
        || text.split_whitespace().any(is_month)
        || ROLES.contains(&text.trim().to_lowercase().as_str())
        || (!text.contains(char::is_alphabetic) && text.len() < DATE_BYTES_MAX)
}

/// Returns the label that names a speaker in a summary. A speaker that already is a label is
/// returned unchanged, so that a summary can be parsed again.
pub(super) fn label(speaker: &str) -> String {
    let clean: String = speaker
        .chars()
        .map(|c| if matches!(c, ':' | ';' | '|') || c.is_control() { ' ' } else { c })
        .collect();
    let words: Vec<&str> = clean.split_whitespace().take(LABEL_WORDS_MAX).collect();
    let short: String = words.join(" ").chars().take(LABEL_CHARS_MAX).collect();
    if short.trim().is_empty() { NO_LABEL.to_owned() } else { short.trim().to_owned() }
}
