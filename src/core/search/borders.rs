//! Finds a text that begins in one chunk of a document and ends in a later one.
//!
//! A splitter may leave out the space between two chunks, and two chunks may overlap. So the ends
//! of chunks are compared without space, and the part of a chunk that repeats the chunk before it
//! is left out. If the chunks do not say how far they overlap, both readings are tried: no overlap,
//! and the longest one that their texts allow.

use serde::Deserialize;

use super::escaped;

/// Maximum number of readings of the text before a chunk.
const READINGS_MAX: usize = 4;

/// The two ends of a chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct ChunkEnds {
    /// Name of the document.
    pub doc_id: String,
    /// Index of the chunk in the document.
    pub index: u64,
    /// First position of the chunk in the document, in characters, if known.
    pub start: Option<u64>,
    /// First position after the chunk, in characters, if known.
    pub end: Option<u64>,
    /// The beginning of the text: [`Borders::head_chars`] characters, or the whole text.
    pub head: String,
    /// The last [`Borders::tail_chars`] characters of the text; empty if `head` is the whole text.
    pub tail: String,
}

/// A search for a text that crosses the borders of chunks, which must come in the order of their
/// documents.
#[derive(Clone, Debug)]
pub struct Borders {
    /// The sought text without space.
    sought: String,
    chars: usize,
    doc_id: Option<String>,
    /// End of the chunk before, in characters, if known.
    end: Option<u64>,
    /// Readings of the text before the next chunk, without space.
    before: Vec<String>,
}

impl Borders {
    /// Begins a search.
    pub fn of(sought: &str) -> Self {
        Self {
            sought: squeezed(sought.chars()),
            chars: sought.chars().count(),
            doc_id: None,
            end: None,
            before: Vec::new(),
        }
    }

    /// Returns how many characters of the end of a chunk the search needs. A text that crosses a
    /// border has fewer characters before the border, except for space that the splitter kept.
    pub fn tail_chars(&self) -> u64 {
        2 * self.chars as u64
    }

    /// Returns how many characters of the beginning of a chunk the search needs. A text that
    /// crosses a border is longer than the overlap of the two chunks.
    pub fn head_chars(&self) -> u64 {
        2 * self.tail_chars()
    }

    /// Takes the next chunk. Returns whether the sought text crosses the border before the chunk.
    pub fn take(&mut self, chunk: &ChunkEnds) -> bool {
        if self.doc_id.as_deref() != Some(&chunk.doc_id) {
            self.doc_id = Some(chunk.doc_id.clone());
            self.before = vec![String::new()];
            self.end = None;
        }
        let mut found = false;
        let mut readings: Vec<String> = Vec::new();
        for before in std::mem::take(&mut self.before) {
            for head in self.heads(&before, chunk) {
                let joined = before.clone() + &head;
                found |= self.crosses(&joined, before.len());
                let last = match chunk.tail.is_empty() {
                    true => end_of(&joined, self.chars).to_owned(),
                    false => end_of(&squeezed(chunk.tail.chars()), self.chars).to_owned(),
                };
                if !readings.contains(&last) && readings.len() < READINGS_MAX {
                    readings.push(last);
                }
            }
        }
        self.before = readings;
        self.end = chunk.end;
        found
    }

    /// Returns the beginnings of a chunk, each without the part that repeats the text before it.
    fn heads(&self, before: &str, chunk: &ChunkEnds) -> Vec<String> {
        if let (Some(end), Some(start)) = (self.end, chunk.start) {
            let repeated = usize::try_from(end.saturating_sub(start)).unwrap_or(usize::MAX);
            return vec![squeezed(chunk.head.chars().skip(repeated))];
        }
        let head = squeezed(chunk.head.chars());
        let overlap = before
            .char_indices()
            .map(|(at, _)| &before[at..])
            .find(|end| head.starts_with(end))
            .map(|end| head[end.len()..].to_owned());
        overlap.into_iter().chain([head]).collect()
    }

    /// Whether the sought text begins before the byte `border` and ends after it.
    fn crosses(&self, text: &str, border: usize) -> bool {
        let starts = text.char_indices().map(|(at, _)| at).take_while(|at| *at < border);
        let mut ends = starts.map(|at| escaped::ends(text, at, &self.sought));
        ends.any(|ends| ends.last().is_some_and(|end| *end > border))
    }
}

fn squeezed(text: impl Iterator<Item = char>) -> String {
    text.filter(|c| !c.is_whitespace()).collect()
}

/// Returns the last characters of a text.
fn end_of(text: &str, chars: usize) -> &str {
    let skipped = text.chars().count().saturating_sub(chars);
    text.char_indices().nth(skipped).map_or("", |(at, _)| &text[at..])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cuts a chunk's ends as the database does.
    fn ends(borders: &Borders, index: u64, text: &str, span: Option<(u64, u64)>) -> ChunkEnds {
        let chars: Vec<char> = text.chars().collect();
        let (head, tail) = (borders.head_chars() as usize, borders.tail_chars() as usize);
        let is_whole = chars.len() <= head;
        ChunkEnds {
            doc_id: "letter".into(),
            index,
            start: span.map(|span| span.0),
            end: span.map(|span| span.1),
            head: chars.iter().take(head).collect(),
            tail: if is_whole {
                String::new()
            } else {
                chars[chars.len() - tail..].iter().collect()
            },
        }
    }

    fn crossed(sought: &str, chunks: &[&str]) -> bool {
        let mut borders = Borders::of(sought);
        let chunks = chunks.iter().zip(0..).map(|(text, i)| ends(&borders, i, text, None));
        let chunks: Vec<ChunkEnds> = chunks.collect();
        chunks.iter().any(|chunk| borders.take(chunk))
    }

    #[test]
    fn a_text_is_found_across_borders() {
        let long = "The ferry leaves at noon. ".repeat(40);
        for (sought, chunks) in [
            ("Jane Roe", &["Here lives Jane", "Roe, a sailor."][..]),
            ("Jane Roe", &["Here lives Jane ", "Roe, a sailor."]),
            ("Jane Roe", &["Here lives Ja", "ne Roe, a sailor."]),
            ("Jane Roe", &["J", "an", "e R", "oe"]),
            ("lives Jane Roe", &["Here lives Jane", "Jane Roe, a sailor."]),
            ("noon. Jane Roe", &[&long, "Jane Roe, a sailor.", &long]),
            ("a sailor. The", &[&long, "Jane Roe, a sailor.", &long]),
        ] {
            assert!(crossed(sought, chunks), "{sought} in {chunks:?}");
        }
    }

    #[test]
    fn a_text_that_no_reading_has_is_not_found() {
        for (sought, chunks) in [
            ("Jane Roe", &["Here lives Jane", "Doe, a sailor."][..]),
            ("Jane Roe", &["Roe", "Jane"]),
            ("Jane Roe", &["JaneRoe", "sails."]),
            ("Jane Roe", &["Jane", "of", "Roe"]),
        ] {
            assert!(!crossed(sought, chunks), "{sought} in {chunks:?}");
        }
    }

    #[test]
    fn positions_say_how_far_chunks_overlap() {
        for (sought, found) in [("lives Jane Roe", true), ("Jane lives", false)] {
            let mut borders = Borders::of(sought);
            let first = ends(&borders, 0, "Here lives Jane", Some((0, 15)));
            let second = ends(&borders, 1, "lives Jane Roe", Some((5, 19)));
            assert!(!borders.take(&first));
            assert_eq!(borders.take(&second), found, "{sought}");
        }
    }

    #[test]
    fn documents_are_apart() {
        let mut borders = Borders::of("Jane Roe");
        let first = ends(&borders, 0, "Jane", None);
        let second = ChunkEnds { doc_id: "other".into(), ..ends(&borders, 0, "Roe", None) };
        assert!(!borders.take(&first) && !borders.take(&second));
    }
}
