//! Checks the language of sources and documents: no forbidden phrases, limited width of lines, and
//! one meaning for each type name.

use std::collections::BTreeMap;

use super::sources::{files, rust, text, working};

const GLOSSARY: &str = "docs/GLOSSARY.md";
/// Maximum width of a comment line in columns; `rustfmt` keeps code to the same width.
const COLUMNS_MAX: usize = 100;
/// Maximum width of a line in documents, in columns. Tables and lines with links may be longer.
const DOCUMENT_COLUMNS_MAX: usize = 110;
/// Folders with the project's Rust sources.
const RUST: &[&str] = &["src", "embedded", "loadtest", "tests"];
/// Documents that are exempt because they are generated or quote other texts.
const PRINTED: &[&str] = &[
    GLOSSARY,
    "docs/reference/metrics.md",
    "docs/reference/stored-texts.md",
    "docs/reference/limits.md",
    "docs/reference/fidelity.md",
    "docs/reference/doctor.md",
];
/// Folders that are exempt because they contain records of a certain day, which are not rewritten.
const RECORDS: &[&str] = &["loadtest/results/", "tests/fixtures/"];
/// Files that are exempt because their string literals are data.
const WORD_LISTS: &[&str] = &["src/core/search/stop_words.rs"];
/// Forbidden type names: they state what happened to a value, but not what the value is.
const PARTICIPLES: &[&str] = &[
    "Asked", "Begun", "Done", "Found", "Given", "Held", "Heard", "Kept", "Known", "Looked", "Made",
    "Met", "Named", "Place", "Said", "Seen", "Sent", "Settled", "Shown", "Spoken", "Taken",
    "Thought", "Told",
];
/// Maximum number of types with the same name in a crate: the parser and the planner, for example,
/// may both have a `Sort`.
const SAME_NAME_MAX: usize = 2;
/// Names that many modules use for the same concept, each with its own type: `(name, meaning)`.
const SHARED: &[(&str, &str)] = &[
    ("Row", "one row that a query of this file answers"),
    ("Settings", "what the configuration says for this module"),
    ("State", "what a module keeps while it runs"),
    ("Arguments", "the command line of one subcommand"),
    ("Command", "the command line of one subcommand"),
    ("Input", "the arguments of one tool"),
];

/// Returns the forbidden phrases: the first column of the table below `## Phrases` in the glossary.
fn phrases() -> Vec<String> {
    let page = text(GLOSSARY);
    let (_, table) = page.split_once("## Phrases").expect("a table of phrases");
    let cell = |line: &str| Some(line.strip_prefix("| ")?.split_once(" |")?.0.to_lowercase());
    let cells: Vec<String> = table.lines().filter_map(cell).collect();
    let phrases = cells.into_iter().filter(|cell| cell != "phrase" && !cell.starts_with('-'));
    let phrases: Vec<String> = phrases.collect();
    assert!(phrases.len() >= 20, "{phrases:?}");
    phrases
}

/// Whether a lower-case text contains a phrase that begins and ends at word boundaries.
fn says(text: &str, phrase: &str) -> bool {
    let letter = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(phrase).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + phrase.len()..].chars().next();
        !before.is_some_and(letter) && !after.is_some_and(letter)
    })
}

/// Returns a line in lower case, without code spans and quoted words.
fn plain(line: &str) -> String {
    let code = line.split('`').step_by(2).collect::<Vec<_>>().join(" ");
    code.split('"').step_by(2).collect::<Vec<_>>().join(" ").to_lowercase()
}

/// Returns the text after `//`, if the line of Rust is a comment.
fn comment(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix("//")
}

fn refuse(broken: &[String]) {
    assert!(broken.is_empty(), "{} places:\n{}", broken.len(), broken.join("\n"));
}

#[test]
fn no_comment_document_or_message_uses_a_phrase_of_the_glossary() {
    let phrases = phrases();
    let mut broken = Vec::new();
    let mut look = |path: &str, at: usize, line: &str| {
        let hits = phrases.iter().filter(|phrase| says(line, phrase));
        broken.extend(hits.map(|phrase| format!("{path}:{}: \"{phrase}\"", at + 1)));
    };
    for source in rust(RUST) {
        for (at, line) in source.text.lines().enumerate() {
            if let Some(comment) = comment(line) {
                look(&source.path, at, &plain(comment));
            }
        }
    }
    let sources = working(&["src", "embedded/src", "loadtest"]);
    for source in sources.iter().filter(|source| !WORD_LISTS.contains(&source.path.as_str())) {
        for literal in &source.literals {
            look(&source.path, 0, &literal.trim_matches('"').to_lowercase());
        }
    }
    let documents = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"]
        .into_iter()
        .map(str::to_owned)
        .chain(
            ["docs", "embedded", "loadtest", "tests", "clients", "deploy", "guards"]
                .iter()
                .flat_map(|folder| files(folder, ".md")),
        )
        .filter(|path| !PRINTED.contains(&path.as_str()))
        .filter(|path| !RECORDS.iter().any(|folder| path.starts_with(folder)));
    for path in documents {
        let page = text(&path);
        let mut code = false;
        for (at, line) in page.lines().enumerate() {
            code ^= line.trim_start().starts_with("```");
            if !code {
                look(&path, at, &plain(line));
            }
        }
    }
    refuse(&broken);
}

#[test]
fn comments_and_documents_fit_on_the_page() {
    let mut broken = Vec::new();
    for source in rust(RUST) {
        for (at, line) in source.text.lines().enumerate() {
            let columns = line.chars().count();
            if comment(line).is_some() && columns > COLUMNS_MAX {
                broken.push(format!("{}:{}: {columns} columns", source.path, at + 1));
            }
        }
    }
    for path in files("docs", ".md").into_iter().chain(["README.md".into()]) {
        let page = text(&path);
        let mut code = false;
        for (at, line) in page.lines().enumerate() {
            code ^= line.trim_start().starts_with("```");
            let columns = line.chars().count();
            let table = line.starts_with('|') || line.contains("](");
            if !code && !table && columns > DOCUMENT_COLUMNS_MAX {
                broken.push(format!("{path}:{}: {columns} columns", at + 1));
            }
        }
    }
    refuse(&broken);
}

/// Returns the name of the type that a line defines, if it defines one.
fn defined(line: &str) -> Option<&str> {
    let item = match line.strip_prefix("pub(") {
        Some(scoped) => scoped.split_once(") ")?.1,
        None => line.strip_prefix("pub ").unwrap_or(line),
    };
    let mut words = item.split(|c: char| !c.is_alphanumeric() && c != '_');
    let word = words.next()?;
    ["struct", "enum", "trait", "type"].contains(&word).then(|| words.next())?
}

#[test]
fn a_type_is_named_by_a_noun_and_a_name_has_one_meaning_in_its_crate() {
    let mut broken = Vec::new();
    let mut homes: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for source in working(&["src", "embedded/src", "loadtest"]) {
        let crate_name = source.path.split('/').take(2).collect::<Vec<_>>().join("/");
        for line in source.bare.lines() {
            // Only types at the top level of a file count; types within a function or an `impl` are
            // local.
            let Some(name) = (!line.starts_with(' ')).then(|| defined(line)).flatten() else {
                continue;
            };
            if PARTICIPLES.contains(&name) {
                broken.push(format!("{}: type {name}", source.path));
            }
            homes
                .entry((crate_name.clone(), name.to_owned()))
                .or_default()
                .push(source.path.clone());
        }
    }
    for ((_, name), paths) in &homes {
        if paths.len() > SAME_NAME_MAX && !SHARED.iter().any(|(shared, _)| shared == name) {
            broken.push(format!("{name} is {} types: {}", paths.len(), paths.join(", ")));
        }
    }
    refuse(&broken);
}
