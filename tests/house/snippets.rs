//! Checks every code block of the README and of docs/: the program's own parsers must accept the
//! commands, settings and JSON in it. The test `tests/it/readme.rs` also runs the commands of the
//! README and of the tour.

use serde_json::Value;
use vctx::config::Config;

use super::sources::{files, text};

/// Code blocks that no parser of this project reads: `(page, beginning of the code block, reason)`.
const UNREAD: &[(&str, &str, &str)] = &[
    ("docs/decisions/0005-engine-files.md", "engine/ ", "a listing of files"),
    (
        "docs/explanation/proof.md",
        "POST /v1/",
        "requests and answers in outline; the tour runs them",
    ),
    (
        "docs/reference/changes.md",
        "retry: 500",
        "an answer; tests/it/changes.rs reads such answers",
    ),
    ("docs/how-to/openai-client.md", "import httpx2", "tests/dropin/drive.py runs such a client"),
    (
        "docs/how-to/openai-client.md",
        "import agents",
        "tests/dropin/drive_agents.py runs such a client",
    ),
    (
        "docs/how-to/openai-client.md",
        "import OpenAI",
        "clients/typescript/examples run such a client",
    ),
    (
        "docs/how-to/frameworks.md",
        "from vctx.openai_agents",
        "clients/python/examples/openai_agents_session.py is such a program",
    ),
    (
        "docs/how-to/frameworks.md",
        "import vctx\nfrom vctx.langgraph",
        "clients/python/examples/langgraph_memory.py is such a program",
    ),
    (
        "docs/how-to/claude-client.md",
        "import anthropic",
        "tests/dropin/drive_claude.py runs such a client",
    ),
    ("docs/how-to/proxy.md", "vctx serve ──", "a picture"),
    ("docs/how-to/migrate.md", "from letta_client", "a program with another package"),
    ("docs/how-to/migrate.md", "import openai\nfrom mem0", "a program with another package"),
    ("docs/how-to/migrate.md", "import openai\nfrom zep", "a program with another package"),
    ("docs/how-to/which-tool.md", "You are a helpful", "a text for a model"),
    ("docs/tutorial/mcp.md", "You have a long-term", "a text for a model"),
    ("docs/tutorial/mcp.md", "fetch_core {}", "calls of a model with their answers"),
    ("docs/reference/embedded-format.md", "DIR/lock", "a listing of files"),
    ("docs/reference/recall-search.md", "{\"id\": \"…\"", "an answer with its middle left out"),
    ("docs/reference/trace.md", "$ vctx trace", "a command with what it shows"),
];
/// Pages whose commands are executed by a test.
const RUN: [&str; 2] = ["README.md", "docs/tutorial/tour.md"];
/// Programs that install packages: no parser of this project reads their commands.
const INSTALLERS: [&str; 2] = ["npm", "pip"];
/// Words that may precede a vctx command, because another program (`runuser`) starts it.
const BEFORE: &[&str] = &["runuser", "-u", "vctx-engine", "--"];

struct Snippet {
    page: String,
    language: String,
    text: String,
}

fn snippets() -> Vec<Snippet> {
    let mut pages = files("docs", ".md");
    pages.push("README.md".to_owned());
    let mut all = Vec::new();
    for page in pages {
        let content = text(&page);
        for block in content.split("\n```").skip(1).step_by(2) {
            let (language, text) = block.split_once('\n').expect("a block of lines");
            let (language, text) = (language.to_owned(), text.to_owned());
            all.push(Snippet { page: page.clone(), language, text });
        }
    }
    all
}

/// Splits a command line into words as a shell does, up to a comment, a redirection or the next
/// command.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in line.chars() {
        match (c, quote) {
            (_, Some(open)) if c == open => quote = None,
            ('\'' | '"', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            ('#', None) if word.is_none() => break,
            ('|' | '&' | ';' | '>' | '<' | ')', None) => break,
            (' ' | '\n', None) => words.extend(word.take()),
            ('\\', None) => {}
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// Returns the commands of a code block, one per line; a backslash continues a line.
fn commands(block: &str) -> Vec<Vec<String>> {
    block.replace("\\\n", " ").lines().map(words).filter(|words| !words.is_empty()).collect()
}

/// Parses one command line: vctx commands with the real parser, and the request body of curl as
/// JSON.
fn check_command(page: &str, words: &[String]) {
    let is_setting = |word: &&String| {
        BEFORE.contains(&word.as_str())
            || word.split_once('=').is_some_and(|(name, _)| {
                name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
            })
    };
    let command: Vec<&String> = words.iter().skip_while(is_setting).collect();
    match command.first().map(|word| word.as_str()) {
        Some("vctx") => {
            let parsed = vctx::tree().try_get_matches_from(&command);
            parsed.map_or_else(|error| panic!("{page}: {words:?}: {error}"), drop);
        }
        Some("curl") => check_body(page, &command),
        Some("export") | None => {}
        Some(other) if INSTALLERS.contains(&other) => {}
        Some(other) => panic!("{page}: nothing reads `{other}`: {words:?}"),
    }
}

/// Checks that the request body of a curl command is JSON.
fn check_body(page: &str, command: &[&String]) {
    let body = command.iter().skip_while(|word| **word != "-d").nth(1);
    if let Some(body) = body {
        let parsed = serde_json::from_str::<Value>(body);
        parsed.map_or_else(|error| panic!("{page}: {body}: {error}"), drop);
    }
}

/// Checks that the server's parser accepts a piece of configuration.
fn check_settings(page: &str, toml: &str) {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), toml).expect("a writable file");
    Config::load(Some(file.path())).unwrap_or_else(|faults| panic!("{page}: {toml}: {faults:?}"));
}

/// Checks that each method that a code block calls exists in a client, where `declaration` precedes
/// the method's name.
fn check_client(page: &str, snippet: &str, client: &str, declaration: &str) {
    let client = text(client);
    let calls = snippet.split("ada.").skip(1).chain(snippet.split("client.").skip(1));
    let names: Vec<&str> = calls.filter_map(|rest| Some(rest.split_once('(')?.0)).collect();
    assert!(!names.is_empty(), "{page}: a snippet without a call");
    for name in names {
        let declared = client.contains(&format!("{declaration}{name}("));
        assert!(declared, "{page}: the client has no `{name}`");
    }
}

#[test]
fn every_snippet_is_read_by_its_parser() {
    let mut unread: Vec<_> = UNREAD.iter().collect();
    let mut read = 0;
    for Snippet { page, language, text } in snippets() {
        let listed =
            unread.iter().position(|(at, start, _)| *at == page && text.starts_with(start));
        if let Some(at) = listed {
            unread.remove(at);
            continue;
        }
        match language.as_str() {
            "sh" if RUN.contains(&page.as_str()) => {}
            "sh" | "" => {
                for words in commands(&text) {
                    check_command(&page, &words);
                    read += 1;
                }
            }
            "toml" => check_settings(&page, &text),
            "json" => drop(serde_json::from_str::<Value>(&text).expect(&page)),
            "python" => check_client(&page, &text, "clients/python/src/vctx/_client.py", "def "),
            "ts" => check_client(&page, &text, "clients/typescript/src/client.js", " "),
            other => panic!("{page}: nothing reads a snippet of `{other}`"),
        }
    }
    assert!(read > 30, "{read} commands");
    assert!(unread.is_empty(), "no such snippet any more: {unread:?}");
}

#[test]
fn a_line_is_split_as_a_shell_splits_it() {
    assert_eq!(words("a 'b c' \"d's\" e=f # g"), ["a", "b c", "d's", "e=f"]);
    assert_eq!(words("a '' | b"), ["a", ""]);
}
