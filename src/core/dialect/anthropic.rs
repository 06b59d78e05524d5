//! Anthropic's `memory` tool, which shows blocks as files under `/memories`. The reply texts are
//! the texts in Anthropic's documentation (Claude API, "Memory tool").

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::offer::{OfferedTool, worded};
use super::translate::{Translated, renamed, worded_error};
use crate::error::{Code, Error, Result};
use crate::limits::{NAME_BYTES_MAX, VIEW_LINES_MAX};
use crate::memory::block_path::{MemoryPath, PathFault, ROOT, path_of, place_of};
use crate::policy::Wording;
use crate::tools::{Call, EditCore, ViewCore, compact_schema_of, decode_as, schema_of};

/// Name of Anthropic's memory tool.
pub const MEMORY: &str = "memory";

const DESCRIPTION: &str = "Keep what must not be forgotten as files under /memories, which stay in view; look at /memories before you begin.";

/// Number of directory levels that a listing shows.
const LEVELS: usize = 2;

/// Arguments of `memory`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Memory {
    /// What to do.
    #[schemars(extend("x-model" = ""))]
    command: Command,
    /// The file or directory, below /memories; for every command except `rename`.
    #[serde(default)]
    #[schemars(extend("x-model" = "below /memories"))]
    path: Option<String>,
    /// For `view` of a file: first and last line, from 1; -1 for the last line.
    #[serde(default)]
    #[schemars(length(min = 2, max = 2), extend("x-model" = "first and last line"))]
    view_range: Option<Vec<i64>>,
    /// For `create`: the text of the file.
    #[serde(default)]
    #[schemars(extend("x-model" = ""))]
    file_text: Option<String>,
    /// For `str_replace`: the text to replace, exactly; the file must have it once.
    #[serde(default)]
    #[schemars(extend("x-model" = ""))]
    old_str: Option<String>,
    /// For `str_replace`: the replacement.
    #[serde(default)]
    #[schemars(extend("x-model" = ""))]
    new_str: Option<String>,
    /// For `insert`: the line before the inserted lines; 0 for the beginning.
    #[serde(default)]
    #[schemars(extend("x-model" = "0: the beginning"))]
    insert_line: Option<i64>,
    /// For `insert`: the lines.
    #[serde(default)]
    #[schemars(extend("x-model" = ""))]
    insert_text: Option<String>,
    /// For `rename`: the current path.
    #[serde(default)]
    #[schemars(extend("x-model" = ""))]
    old_path: Option<String>,
    /// For `rename`: the new path.
    #[serde(default)]
    #[schemars(extend("x-model" = ""))]
    new_path: Option<String>,
}

/// What to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Command {
    /// Shows a file, or the content of a directory.
    #[default]
    View,
    /// Writes a new file.
    Create,
    /// Replaces a text.
    StrReplace,
    /// Inserts lines.
    Insert,
    /// Removes a file or a directory.
    Delete,
    /// Renames a file or a directory.
    Rename,
}

impl Command {
    fn text(self) -> &'static str {
        match self {
            Self::View => "view",
            Self::Create => "create",
            Self::StrReplace => "str_replace",
            Self::Insert => "insert",
            Self::Delete => "delete",
            Self::Rename => "rename",
        }
    }

    /// Returns the names of the arguments that the command accepts.
    fn takes(self) -> &'static [&'static str] {
        match self {
            Self::View => &["path", "view_range"],
            Self::Create => &["path", "file_text"],
            Self::StrReplace => &["path", "old_str", "new_str"],
            Self::Insert => &["path", "insert_line", "insert_text"],
            Self::Delete => &["path"],
            Self::Rename => &["old_path", "new_path"],
        }
    }
}

/// Returns the `memory` tool as offered to a model.
pub(super) fn tool() -> OfferedTool {
    OfferedTool {
        name: MEMORY,
        title: "Memory files",
        description: DESCRIPTION,
        input: schema_of::<Memory>(),
        compact: compact_schema_of::<Memory>(),
        output: worded(&[("block_id", "string?", "the block that the file is")]),
        reads_only: false,
        destructive: true,
        idempotent: false,
        access: None,
        in_chat: true,
    }
}

/// Translates a call to the `memory` tool into a call to this server's tools.
pub(super) fn understood(mut arguments: Map<String, Value>) -> Result<Translated> {
    arguments.retain(|_, value| !value.is_null());
    let memory: Memory =
        decode_as(arguments.clone()).map_err(|error| worded_error(error, &Nothing))?;
    let wording = Reply::of(&memory);
    let refuse = |error: Error| worded_error(error, &wording);
    let needless =
        |name: &&String| *name != "command" && !memory.command.takes().contains(&name.as_str());
    if let Some(name) = arguments.keys().find(needless) {
        let why = format!("no argument of `{}`: leave it out", memory.command.text());
        return Err(refuse(Error::argument(name, why)));
    }
    let call = call(&memory).map_err(refuse)?;
    Ok(Translated { call, wording: Some(Arc::new(wording)), any_revision: false })
}

fn call(memory: &Memory) -> Result<Call> {
    let edit = match memory.command {
        Command::View => {
            let place = parse_path("path", memory.path.as_deref())?;
            return Ok(Call::from(ViewCore { place, lines: range(memory)? }));
        }
        Command::Create => {
            let content = required("file_text", memory.file_text.as_ref())?;
            EditCore::Create { id: file("path", memory.path.as_deref())?, content }
        }
        Command::StrReplace => EditCore::Replace {
            id: file("path", memory.path.as_deref())?,
            old: required("old_str", memory.old_str.as_ref())?,
            new: memory.new_str.clone().unwrap_or_default(),
            once: true,
            field: "old_str",
        },
        Command::Insert => EditCore::Insert {
            id: file("path", memory.path.as_deref())?,
            line: Some(memory.insert_line.ok_or_else(|| missing("insert_line"))?),
            text: required("insert_text", memory.insert_text.as_ref())?,
        },
        Command::Delete => EditCore::Delete { id: file("path", memory.path.as_deref())? },
        Command::Rename => EditCore::Rename {
            from: file("old_path", memory.old_path.as_deref())?,
            to: file("new_path", memory.new_path.as_deref())?,
        },
    };
    let names =
        [("content", "file_text"), ("text", "insert_text"), ("new", "new_str"), ("to", "new_path")];
    edit.checked().map(Call::from).map_err(|error| renamed(error, &names))
}

fn missing(field: &str) -> Error {
    Error::argument(field, "is missing")
}

fn required(field: &str, text: Option<&String>) -> Result<String> {
    text.cloned().ok_or_else(|| missing(field))
}

/// Parses the first and last line number that the command `view` shows.
fn range(memory: &Memory) -> Result<Option<(usize, Option<usize>)>> {
    let Some(range) = &memory.view_range else { return Ok(None) };
    let fault = || Error::argument("view_range", "use [first, last], from 1; -1 for the last one");
    let [first, last] = range[..] else { return Err(fault()) };
    let first = usize::try_from(first.max(1)).map_err(|_| fault())?;
    let last = match last {
        -1 => None,
        last => Some(usize::try_from(last).map_err(|_| fault())?),
    };
    Ok(Some((first, last)))
}

/// Parses a path, which must be `/memories` or below it.
fn parse_path(field: &str, path: Option<&str>) -> Result<MemoryPath> {
    let path = path.ok_or_else(|| missing(field))?;
    place_of(path).map_err(|fault| match fault {
        PathFault::Outside => Error::argument(field, format!("must be {ROOT} or begin with {ROOT}/")),
        PathFault::Climbs => Error::argument(
            field,
            format!("leads out of {ROOT}, or seems to: use plain names, no dots alone, no backslashes, nothing in percent form"),
        ),
        PathFault::Long(bytes) => Error::argument(
            field,
            format!("takes {bytes} bytes as the name of a block, at most {NAME_BYTES_MAX}: use shorter names"),
        )
        .with("bytes_max", NAME_BYTES_MAX),
    })
}

/// Returns the block or directory that a path names; the path `/memories` itself is an error.
fn file(field: &str, path: Option<&str>) -> Result<String> {
    match parse_path(field, path)? {
        MemoryPath::Named(id) => Ok(id),
        MemoryPath::Root => Err(Error::argument(
            field,
            format!("{ROOT} itself stays as it is: name what lies in it"),
        )),
    }
}

/// The reply texts of one command of the `memory` tool.
#[derive(Debug)]
struct Reply {
    command: Command,
    path: String,
    /// The new path of a `rename`.
    to: String,
    old_str: String,
    insert_line: i64,
}

impl Reply {
    fn of(memory: &Memory) -> Self {
        let path = match memory.command {
            Command::Rename => &memory.old_path,
            _ => &memory.path,
        };
        Self {
            command: memory.command,
            path: path.clone().unwrap_or_default(),
            to: memory.new_path.clone().unwrap_or_default(),
            old_str: memory.old_str.clone().unwrap_or_default(),
            insert_line: memory.insert_line.unwrap_or_default(),
        }
    }

    fn is_not_there(&self) -> String {
        let path = &self.path;
        match self.command {
            Command::View => {
                format!("The path {path} does not exist. Please provide a valid path.")
            }
            Command::StrReplace => {
                format!("Error: The path {path} does not exist. Please provide a valid path.")
            }
            _ => format!("Error: The path {path} does not exist"),
        }
    }

    fn is_there(&self) -> String {
        match self.command {
            Command::Rename => format!("Error: The destination {} already exists", self.to),
            _ => format!("Error: File {} already exists", self.path),
        }
    }

    /// Returns the error for a text that does not occur exactly once in a block.
    fn is_not_once(&self, lines: &[Value]) -> String {
        let (old, path) = (&self.old_str, &self.path);
        if lines.is_empty() {
            return format!(
                "No replacement was performed, old_str `{old}` did not appear verbatim in {path}."
            );
        }
        let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
        let lines = lines.join(", ");
        format!(
            "No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {lines}. Please ensure it is unique"
        )
    }
}

impl Wording for Reply {
    fn name(&self) -> &'static str {
        MEMORY
    }

    fn beats(&self) -> bool {
        false
    }

    fn answer_text(&self, result: &Map<String, Value>) -> String {
        let path = &self.path;
        match self.command {
            Command::View => match result.get("blocks").and_then(Value::as_array) {
                Some(blocks) => listing(path, blocks),
                None => {
                    format!("Here's the content of {path} with line numbers:\n{}", numbered(result))
                }
            },
            Command::Create => format!("File created successfully at: {path}"),
            Command::StrReplace => format!(
                "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n{}",
                numbered(result)
            ),
            Command::Insert => format!("The file {path} has been edited."),
            Command::Delete => format!("Successfully deleted {path}"),
            Command::Rename => format!("Successfully renamed {path} to {}", self.to),
        }
    }

    fn refused(&self, error: &Error) -> String {
        let list = |name: &str| error.fields.get(name).and_then(Value::as_array);
        let number = |name: &str| error.fields.get(name).and_then(Value::as_u64);
        if error.code == Code::BlockNotFound {
            return self.is_not_there();
        }
        if error.code == Code::BlockExists {
            return self.is_there();
        }
        if let Some(lines) = list("lines") {
            return self.is_not_once(lines);
        }
        if let Some(most) = number("lines_max") {
            return format!(
                "Error: Invalid `insert_line` parameter: {}. It should be within the range of lines of the file: [0, {most}]",
                self.insert_line
            );
        }
        if number("lines_total").is_some_and(|lines| lines > VIEW_LINES_MAX as u64) {
            return format!("File {} exceeds maximum line limit of 999,999 lines.", self.path);
        }
        format!("Error: {}", error.message)
    }
}

/// The reply texts for a call that could not be parsed.
#[derive(Debug)]
struct Nothing;

impl Wording for Nothing {
    fn name(&self) -> &'static str {
        MEMORY
    }

    fn beats(&self) -> bool {
        false
    }

    fn answer_text(&self, _: &Map<String, Value>) -> String {
        String::new()
    }

    fn refused(&self, error: &Error) -> String {
        format!("Error: {}", error.message)
    }
}

/// Formats the lines of a block. Each line follows its line number, which is right-aligned in six
/// columns.
fn numbered(result: &Map<String, Value>) -> String {
    let first = result.get("first_line").and_then(Value::as_u64).unwrap_or(1);
    let lines = result.get("lines").and_then(Value::as_array).into_iter().flatten();
    let lines = lines.filter_map(Value::as_str).zip(first..);
    let lines: Vec<String> = lines.map(|(line, number)| format!("{number:>6}\t{line}")).collect();
    lines.join("\n")
}

/// Lists the files and directories of a directory with their sizes, two levels deep. Omits
/// `node_modules` and names that begin with a dot.
fn listing(path: &str, blocks: &[Value]) -> String {
    let path = match path.trim_end_matches('/') {
        "" => ROOT,
        path => path,
    };
    let directory = match place_of(path) {
        Ok(MemoryPath::Named(id)) => path_of(&id),
        Ok(MemoryPath::Root) | Err(_) => ROOT.to_owned(),
    };
    let mut entries: std::collections::BTreeMap<String, u64> = std::collections::BTreeMap::new();
    let mut total = 0;
    for block in blocks {
        let (Some(id), Some(bytes)) = (block["block_id"].as_str(), block["bytes"].as_u64()) else {
            continue;
        };
        total += bytes;
        let whole = path_of(id);
        let Some(inner) = whole.strip_prefix(&format!("{directory}/")) else { continue };
        let segments: Vec<&str> = inner.split('/').collect();
        let seen = segments.iter().take_while(|s| !s.starts_with('.') && **s != "node_modules");
        let seen = seen.count().min(LEVELS);
        for level in 1..=seen {
            let mut entry = segments[..level].join("/");
            if level < segments.len() {
                entry.push('/');
            }
            *entries.entry(entry).or_default() += bytes;
        }
    }
    let mut lines = vec![
        format!(
            "Here're the files and directories up to 2 levels deep in {directory}, excluding hidden items and node_modules:"
        ),
        format!("{}\t{directory}", size(total)),
    ];
    lines.extend(
        entries.iter().map(|(entry, bytes)| format!("{}\t{directory}/{entry}", size(*bytes))),
    );
    lines.join("\n")
}

/// Formats a number of bytes as `5.5K` or `1.2M`; a whole number has no fraction.
fn size(bytes: u64) -> String {
    let (unit, name) = match bytes {
        0..1_024 => return format!("{bytes}B"),
        1_024..1_048_576 => (1_024, 'K'),
        _ => (1_048_576, 'M'),
    };
    let tenths = (bytes * 10 + unit / 2) / unit;
    match bytes.is_multiple_of(unit) {
        true => format!("{}{name}", bytes / unit),
        false => format!("{}.{}{name}", tenths / 10, tenths % 10),
    }
}
