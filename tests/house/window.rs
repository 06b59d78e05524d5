//! Checks that code handles the sections of the window as a list: outside the section module, only
//! the listed exceptions may name a single section.

use vctx::window::Section;

use super::sources::{Source, working};

/// `(file, section, why)`: code that may name a single section.
const NAMED: &[(&str, &str, &str)] = &[
    ("src/core/policy/draft.rs", "Notices", "a notice alone evicts nothing"),
    ("src/core/policy/draft/overflow.rs", "Notices", "a crossing is judged without them"),
    ("src/core/policy/draft.rs", "Summary", "an eviction reports the new summary"),
    ("src/core/policy/draft/flush.rs", "Queue", "an eviction empties it"),
    ("src/core/policy/draft/flush.rs", "Summary", "an eviction writes it"),
    ("src/core/policy/draft/flush.rs", "Notices", "they give way to the summary"),
    ("src/core/tools/append_messages.rs", "Queue", "an eviction may empty it"),
    ("src/core/tools/append_messages.rs", "Summary", "its limit is set aside"),
    ("src/core/tools/append_messages.rs", "Notices", "they give way to the messages"),
    ("src/core/tools/record_answer.rs", "Queue", "an eviction may make room for the answer"),
    ("src/core/tools/record_answer.rs", "Summary", "its limit is set aside"),
    ("src/core/tools/record_answer.rs", "Notices", "they give way to the answer"),
    ("src/core/tools/record_answer.rs", "Tools", "the model was asked for what they leave"),
    ("src/core/proof/replay.rs", "Queue", "the text of a message may be gone"),
    ("src/core/proof/replay.rs", "Tools", "the text of a tool set may be gone"),
    ("src/core/policy/draft/refine.rs", "Summary", "a model writes it again"),
    ("src/server/agent_loop/inference.rs", "Queue", "a run evicts a part of it"),
    ("src/server/agent_loop/inference.rs", "Summary", "its limit is set aside"),
    ("src/server/agent_loop/inference.rs", "Tools", "a run offers its own"),
    ("src/server/executor/prompt.rs", "Tools", "a prompt offers its own"),
    ("src/server/executor/why.rs", "Tools", "they are no message, so no item lists them"),
    ("loadtest/lab/eval/caller.rs", "/tokens/fifo", "it looks whether the queue is empty"),
    (
        "loadtest/lab/report/stores.rs",
        "/tokens/fifo",
        "it is a store, and has lines beside messages",
    ),
    ("loadtest/lab/report/turns.rs", "Tools", "a prompt offers its own"),
    ("loadtest/lab/demo/score.rs", "/tokens/summary", "the summary has a limit of its own"),
    ("loadtest/lab/demo/picture.rs", "/tokens/summary", "a line of progress shows it"),
    (
        "src/core/proof/replay.rs",
        "Context",
        "a message of the built context whose text was removed is a part of the prompt that is gone",
    ),
    (
        "src/server/executor/figures.rs",
        "Context",
        "only a prompt has a built context, so the gauge shows that of the newest prompt",
    ),
];

/// Finds the sections that a source names, either as a variant of `Section` or as a field of an
/// answer.
fn names(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    for section in Section::ALL {
        let (word, field) = (format!("{section:?}"), format!("/tokens/{}", section.name()));
        if source.bare.contains(&format!("Section::{word}")) {
            found.push(word);
        }
        if source.literals.iter().any(|literal| literal.contains(&field)) {
            found.push(field);
        }
    }
    found
}

#[test]
fn a_section_is_named_only_where_one_is_meant() {
    let sources = working(&["src", "loadtest/lab"]);
    let outside = sources.iter().filter(|source| !source.path.starts_with("src/core/window/"));
    let found: Vec<(String, String)> = outside
        .flat_map(|source| names(source).into_iter().map(|name| (source.path.clone(), name)))
        .collect();
    let listed = |(path, name): &(String, String)| {
        NAMED.iter().any(|(file, known, _)| file == path && known == name)
    };
    let new: Vec<_> = found.iter().filter(|one| !listed(one)).collect();
    assert!(new.is_empty(), "walk the list of sections, or give a reason: {new:?}");
    for (file, name, why) in NAMED {
        let used = found.iter().any(|(path, known)| path == file && known == name);
        assert!(used && !why.is_empty(), "{file} no longer names {name}: remove the line");
    }
}
