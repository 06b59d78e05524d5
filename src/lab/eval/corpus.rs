//! What a benchmark of recall is made of: conversations with questions whose evidence is known, and the files they come in.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use serde_json::Value;

use vctx_cli::args;
use vctx_cli::exit::Failure;

/// Longest file of a corpus, in bytes.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// Most files of one corpus.
const FILES_MAX: usize = 10_000;

/// A conversation.
#[derive(Debug, Clone, Default)]
pub(super) struct Talk {
    /// Name of its file, for people and for the agent that remembers it.
    pub(super) name: String,
    pub(super) messages: Vec<Said>,
    pub(super) questions: Vec<Question>,
    /// Questions that have no evidence at all and are not asked.
    pub(super) without_evidence: usize,
    /// Names of evidence that were mended, and those that name nothing and were dropped.
    pub(super) mended: usize,
    pub(super) dropped: usize,
}

/// One message as it was said.
#[derive(Debug, Clone, Default)]
pub(super) struct Said {
    /// Its name in the corpus.
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
    /// Category or ability.
    pub(super) group: String,
    /// Places of the messages that hold the answer.
    pub(super) evidence: BTreeSet<usize>,
    /// What was said first and what was said later, where the later statement takes the place of the first.
    pub(super) update: Option<Update>,
}

/// Two statements of which the later one holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Update {
    pub(super) before: BTreeSet<usize>,
    pub(super) after: BTreeSet<usize>,
}

impl Talk {
    /// Place of each message by its name in the corpus.
    pub(super) fn places(&self) -> HashMap<String, usize> {
        self.messages.iter().enumerate().map(|(at, said)| (said.id.clone(), at)).collect()
    }

    /// Takes a question up; one without evidence is counted and not asked.
    pub(super) fn take(&mut self, question: Question) {
        if question.evidence.is_empty() {
            self.without_evidence += 1;
        } else {
            self.questions.push(question);
        }
    }
}

/// The directory of a corpus: below the data, or the data themselves when they bear its name.
pub(super) fn directory(data: &Path, name: &str) -> Option<PathBuf> {
    let below = data.join(name);
    if below.is_dir() {
        return Some(below);
    }
    (data.is_dir() && data.file_name().is_some_and(|own| own == name)).then(|| data.to_path_buf())
}

/// The entries of a directory in the order of their names, numbers by their worth.
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

/// The files of a directory that end so, in order.
pub(super) fn files(directory: &Path, ending: &str) -> Result<Vec<PathBuf>, Failure> {
    let all = entries(directory)?;
    let ends = |path: &PathBuf| path.to_string_lossy().ends_with(ending) && path.is_file();
    Ok(all.into_iter().filter(ends).collect())
}

/// Name of a file without what stands behind the dot.
pub(super) fn stem(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

/// A file as JSON.
pub(super) fn json(path: &Path) -> Result<Value, Failure> {
    let text = args::file(path, FILE_BYTES_MAX)?;
    serde_json::from_str(&text)
        .map_err(|error| Failure::data(format!("{} is not JSON: {error}", path.display())))
}

/// A field that is a text or a number, as text; empty where there is none.
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
