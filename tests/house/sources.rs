//! Reads the sources for the tests of this crate: lists their paths, and returns their texts with
//! or without comments, literals and tests.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};

/// Returns the root directory of the repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// One Rust source file.
#[derive(Clone)]
pub(crate) struct Source {
    /// Path from the repository root, with slashes.
    pub(crate) path: String,
    /// The text of the file.
    pub(crate) text: String,
    /// The text with blanks in place of comments.
    pub(crate) spoken: String,
    /// The text with blanks in place of comments and literals.
    pub(crate) bare: String,
    /// The string literals of the file.
    pub(crate) literals: Vec<String>,
}

/// Returns all files below a folder whose names have the given ending, sorted, without those in
/// `target`.
pub(crate) fn files(folder: &str, ending: &str) -> Vec<String> {
    let mut found = Vec::new();
    walk(&root().join(folder), &mut found);
    let mut paths: Vec<String> = found
        .iter()
        .map(|path| {
            path.strip_prefix(root()).expect("below the root").to_string_lossy().into_owned()
        })
        .filter(|path| path.ends_with(ending))
        .collect();
    paths.sort();
    paths
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.expect("a readable folder").path();
        let name = path.file_name().expect("a name").to_string_lossy();
        if path.is_dir() && name != "target" && name != ".git" {
            walk(&path, found);
        } else if path.is_file() {
            found.push(path);
        }
    }
}

/// Returns the text of a file; a missing file fails the test.
pub(crate) fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Returns all Rust files below these folders, including tests.
pub(crate) fn rust(folders: &[&str]) -> Vec<Source> {
    let paths = folders.iter().flat_map(|folder| files(folder, ".rs"));
    let sources: Vec<Source> = paths.map(|path| seen(path).0).collect();
    assert!(!sources.is_empty(), "no Rust files in {folders:?}");
    sources
}

/// Returns all Rust files without tests: test files are skipped, and `#[cfg(test)]` items are
/// blanked.
pub(crate) fn working(folders: &[&str]) -> Vec<Source> {
    let is_test = |path: &String| path.ends_with("/tests.rs") || path.contains("/tests/");
    let paths = folders.iter().flat_map(|folder| files(folder, ".rs"));
    paths.filter(|path| !is_test(path)).map(|path| seen(path).1).collect()
}

/// Returns a file with and without its tests. Each file is read only once, because many rules use
/// it.
fn seen(path: String) -> (Source, Source) {
    static SEEN: LazyLock<Mutex<HashMap<String, (Source, Source)>>> = LazyLock::new(Mutex::default);
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    let read = || {
        let source = Source::new(text(&path), path.clone());
        let working = source.without_tests();
        (source, working)
    };
    seen.entry(path.clone()).or_insert_with(read).clone()
}

impl Source {
    fn new(text: String, path: String) -> Self {
        let (spoken, bare, literals) = read(&text);
        Self { path, text, spoken, bare, literals }
    }

    fn without_tests(&self) -> Self {
        let mut text = self.text.clone();
        let mut bare = self.bare.clone();
        while let Some(start) = bare.find("#[cfg(test)]") {
            let end = start + item_length(&bare[start..]);
            let blank: String =
                text[start..end].chars().map(|c| if c == '\n' { c } else { ' ' }).collect();
            text.replace_range(start..end, &blank);
            bare = read(&text).1;
        }
        Self::new(text, self.path.clone())
    }

    /// Returns the lines that contain a word outside of comments and literals, as
    /// `path:line: word`.
    pub(crate) fn lines_with(&self, word: &str) -> Vec<String> {
        let lines = self.bare.lines().enumerate();
        let hits = lines.filter(|(_, line)| holds(line, word));
        hits.map(|(at, _)| format!("{}:{}: {word}", self.path, at + 1)).collect()
    }
}

/// Returns the length of an attribute and its item, which ends at its closing brace or semicolon.
fn item_length(bare: &str) -> usize {
    let mut depth = 0;
    for (at, c) in bare.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 1 => return at + 1,
            '}' => depth -= 1,
            ';' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    bare.len()
}

/// Whether a text contains a word as a whole word, not as part of a longer word.
pub(crate) fn holds(text: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !(word.starts_with(part) && before.is_some_and(part)
            || word.ends_with(part) && after.is_some_and(part))
    })
}

/// Returns three forms of a Rust text: without comments, without comments and literals, and the
/// literals alone. Line ends stay.
fn read(text: &str) -> (String, String, Vec<String>) {
    let (mut spoken, mut bare, mut literals) = (String::new(), String::new(), Vec::new());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (length, comment) = if rest.starts_with("//") {
            (rest.find('\n').unwrap_or(rest.len()), true)
        } else if rest.starts_with("/*") {
            (rest.find("*/").map_or(rest.len(), |at| at + 2), true)
        } else if let Some(length) = literal_length(rest, bare.chars().next_back()) {
            literals.push(rest[..length].to_owned());
            (length, false)
        } else {
            spoken.push(first);
            bare.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        };
        let blank: String =
            rest[..length].chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
        // Each byte becomes one blank, so that positions are the same in all forms of the text.
        let padding = " ".repeat(length - blank.len());
        bare.push_str(&blank);
        bare.push_str(&padding);
        if comment {
            spoken.push_str(&blank);
            spoken.push_str(&padding);
        } else {
            spoken.push_str(&rest[..length]);
        }
        rest = &rest[length..];
    }
    (spoken, bare, literals)
}

/// Returns the length of the literal at the start of a text; `None` if there is no literal.
fn literal_length(text: &str, before: Option<char>) -> Option<usize> {
    if text.starts_with('\'') {
        return character_length(text);
    }
    if text.starts_with('"') {
        return Some(closing_quote(text));
    }
    if before.is_some_and(|c| c.is_alphanumeric() || c == '_') || !text.starts_with('r') {
        return None;
    }
    let hashes = text[1..].chars().take_while(|c| *c == '#').count();
    if !text[1 + hashes..].starts_with('"') {
        return None;
    }
    let end = format!("\"{}", "#".repeat(hashes));
    let body = 2 + hashes;
    Some(text[body..].find(&end).map_or(text.len(), |at| body + at + end.len()))
}

/// Returns the length of a character literal such as `'x'` or `'\n'`; a lifetime is not a literal.
fn character_length(text: &str) -> Option<usize> {
    let mut characters = text.char_indices().skip(1);
    let (_, first) = characters.next()?;
    let (at, second) = characters.next()?;
    match (first, second) {
        ('\\', _) => {
            text[at + second.len_utf8()..].find('\'').map(|end| at + second.len_utf8() + end + 1)
        }
        (_, '\'') => Some(at + 1),
        _ => None,
    }
}

fn closing_quote(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[test]
fn a_source_is_read_without_its_comments_literals_and_tests() {
    let text = "a(\"x // \\\" é\", 'b', '\\'', r#\"y \" z\"#); // gone é\n/* gone */ fn f<'a>() {}\n#[cfg(test)]\nmod tests { const A: &str = \"}\"; }\nz();\n";
    let source = Source::new(text.into(), "a.rs".into()).without_tests();
    assert_eq!(source.literals, ["\"x // \\\" é\"", "'b'", "'\\''", "r#\"y \" z\"#"]);
    let words: Vec<&str> = source.bare.split_whitespace().collect();
    assert_eq!(words, ["a(", ",", ",", ",", ");", "fn", "f<'a>()", "{}", "z();"]);
    assert_eq!(source.lines_with("z"), ["a.rs:5: z"]);
    assert!(!source.spoken.contains("gone") && source.spoken.contains("y \" z"));
}
