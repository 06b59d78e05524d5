//! Checks that one file and one item of a list define a tool, and that no other code treats single
//! tools differently.

use vctx::tools::Tool;

use super::sources::{Source, holds, working};

/// The source folders to check; the clients are not among them, because they may name tools.
const PROGRAM: &[&str] = &["src/core", "src/server", "src/mcp", "src/cli"];
/// The file with the list of tools.
const LIST: &str = "src/core/tools/mod.rs";

/// `(file, why)`: other files that may name a tool as a string.
const NAMES: &[(&str, &str)] =
    &[("src/mcp/prompts.rs", "instructions for a model name the tools of a dialect in prose")];

/// A sample tool on which no other tool depends; the test looks for its names in other files.
const TOOL: Tool = Tool::TraceMemory;
/// The name of the Rust type of `TOOL`.
const TYPE: &str = "TraceMemory";
/// `(file, why)`: other files that may name the tool `TOOL`.
const OTHERS: &[(&str, &str)] =
    &[("src/server/executor/why.rs", "the life of a fact proposes a call of it")];

fn own_file(tool: Tool) -> String {
    format!("src/core/tools/{}.rs", tool.spec().name)
}

#[test]
fn only_a_tool_s_own_file_has_its_name_as_a_text() {
    let sources = working(PROGRAM);
    for tool in Tool::ALL {
        let own = own_file(*tool);
        let name = format!("\"{}\"", tool.spec().name);
        let naming = sources.iter().filter(|source| source.literals.contains(&name));
        let excused = |source: &&Source| NAMES.iter().any(|(file, _)| *file == source.path);
        let found: Vec<&str> =
            naming.filter(|source| !excused(source)).map(|source| source.path.as_str()).collect();
        assert_eq!(found, [own.as_str()], "{name}: take its properties from the list of tools");
    }
}

#[test]
fn a_tool_is_named_in_its_file_and_in_the_list() {
    let name = TOOL.spec().name;
    let names_it = |source: &&Source| {
        holds(&source.bare, TYPE)
            || holds(&source.bare, name)
            || source.literals.iter().any(|literal| holds(literal, name))
    };
    let sources = working(PROGRAM);
    let mut found: Vec<&str> =
        sources.iter().filter(names_it).map(|source| source.path.as_str()).collect();
    found.retain(|file| OTHERS.iter().all(|(other, _)| other != file));
    assert_eq!(found, [LIST, own_file(TOOL).as_str()]);
    for (file, why) in OTHERS {
        let needed = sources.iter().filter(names_it).any(|source| source.path == *file);
        assert!(needed && !why.is_empty(), "{file} no longer names `{name}`: take the line out");
    }
}
