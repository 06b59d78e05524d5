//! Data of a recall benchmark: conversations, and questions with known evidence, read from files.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use serde_json::Value;

use vctx_cli::args;
use vctx_cli::exit::Failure;

/// Maximum size of a corpus file, in bytes.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// Maximum number of files of one corpus.
const FILES_MAX: usize = 10_000;

/// A conversation with its questions.
#[derive(Debug, Clone, Default)]
pub(super) struct Talk {
    /// Name of the conversation: its id in the data or, without an id, the name of its file. The
    /// name of the agent contains this name.
    pub(super) name: String,
    pub(super) messages: Vec<TalkMessage>,
    pub(super) questions: Vec<Question>,
    /// Number of questions that are skipped because they have no evidence.
    pub(super) without_evidence: usize,
    /// Number of corrected message names in the evidence, and number of names that were dropped
    /// because they belong to no message.
    pub(super) mended: usize,
    pub(super) dropped: usize,
}

/// A message of a conversation.
#[derive(Debug, Clone, Default)]
pub(super) struct TalkMessage {
    /// Name of the message in the corpus.
    pub(super) id: String,
    /// `user` or `assistant`.
    pub(super) role: String,
    pub(super) name: Option<String>,
    pub(super) said_at: Option<String>,
    pub(super) text: String,
}

/// A question about a conversation.
#[derive(Debug, Clone, Default)]
pub(super) struct Question {
    pub(super) text: String,
    pub(super) answer: String,
    /// Category of the question (LoCoMo) or the tested ability (BEAM).
    pub(super) group: String,
    /// Indexes of the messages that contain the question's answer.
    pub(super) evidence: BTreeSet<usize>,
    /// The earlier and the later statement, for a question about an update.
    pub(super) update: Option<Update>,
}

/// Two statements of a conversation; the later statement replaces the earlier statement.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Update {
    pub(super) before: BTreeSet<usize>,
    pub(super) after: BTreeSet<usize>,
}

impl Talk {
    /// Maps each message's name in the corpus to the message's index.
    pub(super) fn places(&self) -> HashMap<String, usize> {
        self.messages.iter().enumerate().map(|(at, message)| (message.id.clone(), at)).collect()
    }

    /// Adds a question; a question without evidence is only counted.
    pub(super) fn take(&mut self, question: Question) {
        if question.evidence.is_empty() {
            self.without_evidence += 1;
        } else {
            self.questions.push(question);
        }
    }
}

/// Returns the directory of a corpus: a subdirectory of the data directory, or the data directory
/// itself if that directory has the name of the corpus.
pub(super) fn directory(data: &Path, name: &str) -> Option<PathBuf> {
    let below = data.join(name);
    if below.is_dir() {
        return Some(below);
    }
    (data.is_dir() && data.file_name().is_some_and(|own| own == name)).then(|| data.to_path_buf())
}

/// Returns the entries of a directory. Entries whose name is a number come first, in numeric order;
/// all others are ordered by name.
pub(super) fn entries(directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    let failed = |error| Failure::reading(directory.display(), &error);
    let mut paths = Vec::new();
    for entry in directory.read_dir().map_err(failed)? {
        paths.push(entry.map_err(failed)?.path());
        if paths.len() > FILES_MAX {
            return Err(Failure::data(format!(
                "{} holds more than {FILES_MAX} files",
                directory.display()
            )));
        }
    }
    paths.sort_by_key(|path| {
        let stem = stem(path);
        (stem.parse::<u64>().unwrap_or(u64::MAX), stem)
    });
    Ok(paths)
}

/// Returns the files of a directory with a given extension, in order.
pub(super) fn files(directory: &Path, ending: &str) -> Result<Vec<PathBuf>, Failure> {
    let all = entries(directory)?;
    let ends = |path: &PathBuf| path.to_string_lossy().ends_with(ending) && path.is_file();
    Ok(all.into_iter().filter(ends).collect())
}

/// Returns the name of a file without the extension.
pub(super) fn stem(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Reads a file as JSON.
pub(super) fn json(path: &Path) -> Result<Value, Failure> {
    let text = args::file(path, FILE_BYTES_MAX)?;
    serde_json::from_str(&text)
        .map_err(|error| Failure::data(format!("{} is not JSON: {error}", path.display())))
}

/// Reads a file with one JSON value on each line.
pub(super) fn lines(path: &Path) -> Result<Vec<Value>, Failure> {
    let text = args::file(path, FILE_BYTES_MAX)?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let read = |(at, line): (usize, &str)| {
        serde_json::from_str(line)
            .map_err(|error| Failure::data(format!("{}, line {}: {error}", path.display(), at + 1)))
    };
    lines.map(read).collect()
}

/// Returns a text or number field as text; empty if the field is missing.
pub(super) fn text_of(value: &Value, field: &str) -> String {
    match value.get(field) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_come_in_the_order_of_their_numbers_and_a_corpus_is_found_by_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let beam = dir.path().join("beam");
        std::fs::create_dir(&beam).unwrap();
        for name in ["10.json", "2.json", "a.json", "note.txt"] {
            std::fs::write(beam.join(name), "{}").unwrap();
        }
        let names: Vec<String> =
            files(&beam, ".json").unwrap().iter().map(|path| stem(path)).collect();
        assert_eq!(names, ["2", "10", "a"]);
        assert_eq!(directory(dir.path(), "beam"), Some(beam.clone()));
        assert_eq!(directory(&beam, "beam"), Some(beam));
        assert_eq!(directory(dir.path(), "nq"), None);
    }
}
