//! Edits blocks (create, replace, insert, delete, rename) for the tools of other dialects (such as
//! MemGPT's), based on the blocks at the time of the write.

use serde_json::{Map, Value, json};

use super::spec::{Access, Command, Spec};
use crate::error::{Code, Error, Result};
use crate::limits::{BLOCKS_MAX, NAME_BYTES_MAX, TEXT_BYTES_MAX, VIEW_LINES_MAX};
use crate::memory::block_path::{MemoryPath, lies_in, moved};
use crate::memory::core::{Block, Core};
use crate::policy::{Ctx, Depends, Draft, Promotion, Step, Stop, Surroundings};
use crate::window::count_block;

/// Maximum number of lines that an error lists if the text to replace occurs more than once in a
/// block.
const LINES_NAMED_MAX: usize = 64;

/// An edit of one block, or of all blocks in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EditCore {
    /// Creates a block; an error if a block or a directory already has this name.
    Create {
        /// Name of the new block.
        id: String,
        /// Text of the new block.
        content: String,
    },
    /// Replaces a piece of a block's text.
    Replace {
        /// Name of the block.
        id: String,
        /// The text to replace; the block must contain it.
        old: String,
        /// The new text.
        new: String,
        /// Whether the text must occur exactly once; else all occurrences are replaced.
        once: bool,
        /// Name of the argument that contains `old` in the caller's tool dialect, for errors.
        field: &'static str,
    },
    /// Inserts lines into a block.
    Insert {
        /// Name of the block.
        id: String,
        /// Number of the line after which the lines are inserted, from 1; 0 for the beginning,
        /// `None` for the end.
        line: Option<i64>,
        /// The lines to insert.
        text: String,
    },
    /// Removes a block, or all blocks of a directory.
    Delete {
        /// Name of the block or directory.
        id: String,
    },
    /// Renames a block, or all blocks of a directory.
    Rename {
        /// The current name of the block or directory.
        from: String,
        /// The new name of the block or directory.
        to: String,
    },
}

/// Number of lines that the answer shows before and after an edit.
const SHOWN_LINES: usize = 2;

impl Command for EditCore {
    const SPEC: Spec = Spec::tool("edit_core", Access::Write);

    fn depends(&self) -> Depends {
        match self {
            Self::Create { id, .. } | Self::Replace { id, .. } | Self::Insert { id, .. } => {
                Depends::Block(id.clone())
            }
            Self::Delete { id } => Depends::Tree(vec![id.clone()]),
            Self::Rename { from, to } => Depends::Tree(vec![from.clone(), to.clone()]),
        }
    }

    fn step(&self, ctx: &Ctx<'_>) -> Result<Step, Stop> {
        let mut draft = ctx.draft();
        if let Some((id, piece, after)) = self.written(ctx.core)? {
            let before = ctx.core.block(id).map_or("", |block| &block.content);
            let promotion =
                Promotion { block_id: id, piece, before, after: &after, justification: None };
            draft.promote(promotion, ctx.answers)?;
        }
        let result = match self {
            Self::Create { id, content } => create(&mut draft, ctx, id, content)?,
            Self::Replace { id, old, new, once, field } => {
                let block = block_of(ctx.core, id)?;
                check_once(&block.content, old, *once, field)?;
                let at = block.content.find(old.as_str()).unwrap_or(0);
                let first = block.content[..at].matches('\n').count();
                let content = block.content.replace(old.as_str(), new);
                rewrite(&mut draft, ctx.around, block, content, Some(first))?
            }
            Self::Insert { id, line, text } => {
                let block = block_of(ctx.core, id)?;
                let (content, first) = inserted(&block.content, *line, text)?;
                rewrite(&mut draft, ctx.around, block, content, Some(first))?
            }
            Self::Delete { id } => {
                let gone = tree(ctx.core, id)?;
                gone.iter().for_each(|id| draft.remove_block(id));
                json!({"block_id": id, "blocks": gone, "token_estimate": 0})
            }
            Self::Rename { from, to } => rename(&mut draft, ctx, from, to)?,
        };
        ctx.finish(draft, result)
    }
}

impl EditCore {
    /// Checks the arguments beyond their types; an error names the argument.
    pub fn checked(self) -> Result<Self> {
        let too_long = |field: &str| {
            let why =
                format!("longer than {TEXT_BYTES_MAX} bytes: split it, or put it into the archive");
            Err(Error::argument(field, why).with("bytes_max", TEXT_BYTES_MAX))
        };
        match &self {
            Self::Create { content, .. } if content.len() > TEXT_BYTES_MAX => too_long("content"),
            Self::Insert { text, .. } if text.len() > TEXT_BYTES_MAX => too_long("text"),
            Self::Replace { new, .. } if new.len() > TEXT_BYTES_MAX => too_long("new"),
            Self::Replace { old, field, .. } if old.is_empty() => {
                Err(Error::argument(field, "empty: give the text to replace"))
            }
            Self::Rename { from, to } if to == from || inside(to, from) => {
                let why = "the old name, or a name within it: use another name";
                Err(Error::argument("to", why))
            }
            _ => Ok(self),
        }
    }

    /// Returns the name of the block that receives a text, the text, and the block's new content;
    /// `None` if the edit writes no text.
    fn written(&self, core: &Core) -> Result<Option<(&str, &str, String)>> {
        Ok(match self {
            Self::Create { id, content } => Some((id, content, content.clone())),
            Self::Replace { id, old, new, .. } => {
                Some((id, new, block_of(core, id)?.content.replace(old.as_str(), new)))
            }
            Self::Insert { id, line, text } => {
                Some((id, text, inserted(&block_of(core, id)?.content, *line, text)?.0))
            }
            Self::Delete { .. } | Self::Rename { .. } => None,
        })
    }
}

fn inside(id: &str, directory: &str) -> bool {
    lies_in(id, &MemoryPath::Named(directory.to_owned()))
}

/// Returns the block with this name; if there is none, an error lists the existing blocks.
fn block_of<'a>(core: &'a Core, id: &str) -> Result<&'a Block> {
    super::fetch_core::find(core, id)
}

/// Returns the name of the block `id`, or the names of all blocks in the directory `id`.
fn tree(core: &Core, id: &str) -> Result<Vec<String>> {
    if core.block(id).is_some() {
        return Ok(vec![id.to_owned()]);
    }
    let blocks = core.working_blocks.iter().map(|block| block.id.clone());
    let within: Vec<String> = blocks.filter(|block| inside(block, id)).collect();
    match within.is_empty() {
        true => block_of(core, id).map(|block| vec![block.id.clone()]),
        false => Ok(within),
    }
}

/// Refuses a name that a block or a directory of blocks already has, or whose own directory is the
/// name of a block.
fn check_free(core: &Core, id: &str) -> Result<()> {
    let taken = |block: &&Block| block.id == id || inside(&block.id, id);
    if core.working_blocks.iter().any(|block| taken(&block)) {
        return Err(Error::new(
            Code::BlockExists,
            "there is a block of that name: edit it, or use another name",
        )
        .with("block_id", id));
    }
    if let Some(block) = core.working_blocks.iter().find(|block| inside(id, &block.id)) {
        let why = "is within a block: a block holds no other blocks";
        return Err(Error::argument("block_id", why).with("block_id", block.id.as_str()));
    }
    Ok(())
}

fn create(draft: &mut Draft<'_>, ctx: &Ctx<'_>, id: &str, content: &str) -> Result<Value> {
    check_free(ctx.core, id)?;
    if ctx.core.working_blocks.len() >= BLOCKS_MAX {
        let why = format!("there are {BLOCKS_MAX} blocks already: delete one");
        return Err(Error::argument("block_id", why));
    }
    let mut block = Block {
        id: id.to_owned(),
        role: super::store_core::ROLE_DEFAULT.into(),
        content: content.to_owned(),
        token_estimate: 0,
        pinned: false,
        changed_at_version: draft.version(),
        taint: None,
        escaped: false,
    };
    count_block(ctx.around.counter, ctx.core.form, &mut block);
    let cost = block.token_estimate;
    draft.after.working_blocks.push(block);
    Ok(json!({"block_id": id, "token_estimate": cost}))
}

/// Replaces the whole text of a block. `edited` is the index of the first changed line, from 0.
fn rewrite(
    draft: &mut Draft<'_>,
    around: Surroundings<'_>,
    old: &Block,
    content: String,
    edited: Option<usize>,
) -> Result<Value> {
    if content.len() > TEXT_BYTES_MAX {
        let why = format!(
            "longer than {TEXT_BYTES_MAX} bytes with this: begin another block, or put it into the archive"
        );
        return Err(Error::argument("content", why).with("bytes_max", TEXT_BYTES_MAX));
    }
    let mut block = Block { content, changed_at_version: draft.version(), ..old.clone() };
    count_block(around.counter, draft.after.form, &mut block);
    let mut result = json!({"block_id": block.id, "token_estimate": block.token_estimate});
    if let Some(line) = edited {
        let first = line.saturating_sub(SHOWN_LINES);
        let lines = block.content.split('\n').skip(first).take(line - first + SHOWN_LINES + 1);
        result["first_line"] = (first + 1).into();
        result["lines"] = lines.collect();
    }
    if let Some(slot) = draft.after.working_blocks.iter_mut().find(|slot| slot.id == block.id) {
        *slot = block;
    }
    Ok(result)
}

fn rename(draft: &mut Draft<'_>, ctx: &Ctx<'_>, from: &str, to: &str) -> Result<Value> {
    let named = tree(ctx.core, from)?;
    check_free(ctx.core, to)?;
    let mut renamed = Vec::with_capacity(named.len());
    for id in named {
        let new = if id == from { to.to_owned() } else { moved(&id, from, to) };
        if new.len() > NAME_BYTES_MAX {
            let why = format!("a name of at most {NAME_BYTES_MAX} bytes for each block");
            return Err(Error::argument("to", why));
        }
        let old = block_of(ctx.core, &id)?;
        let mut block =
            Block { id: new.clone(), changed_at_version: draft.version(), ..old.clone() };
        count_block(ctx.around.counter, ctx.core.form, &mut block);
        let place = draft.after.working_blocks.iter().position(|block| block.id == id);
        draft.remove_block(&id);
        let place = place.unwrap_or(draft.after.working_blocks.len());
        draft.after.working_blocks.insert(place, block);
        renamed.push(json!({"from": id, "to": new}));
    }
    Ok(json!({"block_id": to, "blocks": renamed, "token_estimate": 0}))
}

/// Refuses a text `old` that does not occur in the block. If `once` is true, also refuses a text
/// that occurs more than once.
fn check_once(content: &str, old: &str, once: bool, field: &str) -> Result<()> {
    let mut lines = Vec::new();
    let (mut line, mut from) = (1, 0);
    for (count, (at, _)) in content.match_indices(old).enumerate() {
        line += content[from..at].matches('\n').count();
        from = at;
        if count < LINES_NAMED_MAX {
            lines.push(line);
        }
    }
    match lines.len() {
        0 => {
            let why = "not found: give a text of the block exactly";
            Err(Error::argument(field, why).with("lines", lines))
        }
        1 => Ok(()),
        _ if !once => Ok(()),
        _ => {
            let why = "found more than once: give more of the text around it";
            Err(Error::argument(field, why).with("lines", lines))
        }
    }
}

/// Inserts lines into a text. Returns the new text and the index of the first inserted line, from
/// 0. A line break at the end of the text is kept.
fn inserted(content: &str, line: Option<i64>, text: &str) -> Result<(String, usize)> {
    let ended = content.ends_with('\n');
    let body = content.strip_suffix('\n').unwrap_or(content);
    let lines: Vec<&str> = if content.is_empty() { Vec::new() } else { body.split('\n').collect() };
    let count = lines.len();
    let at = match line {
        None => count,
        Some(line) => match usize::try_from(line) {
            Ok(line) if line <= count => line,
            _ => {
                let why = format!("{line}: use 0 to {count}");
                return Err(Error::argument("insert_line", why).with("lines_max", count));
            }
        },
    };
    let text = text.strip_suffix('\n').unwrap_or(text);
    let mut all = lines;
    all.insert(at, text);
    let mut content = all.join("\n");
    if ended {
        content.push('\n');
    }
    Ok((content, at))
}

/// Reads blocks like files: the text of one block, or the list of blocks in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewCore {
    /// The path to read.
    pub place: MemoryPath,
    /// First and last line to show, from 1; without a last line, all lines from the first. `None`
    /// shows all lines.
    pub lines: Option<(usize, Option<usize>)>,
}

impl Command for ViewCore {
    const SPEC: Spec = Spec::tool("view_core", Access::Read);

    fn step(&self, ctx: &Ctx<'_>) -> Result<Step, Stop> {
        let block = match &self.place {
            MemoryPath::Root => None,
            MemoryPath::Named(id) => ctx.core.block(id),
        };
        let result = match (block, &self.place) {
            (Some(block), _) => self.file(block)?,
            (None, place) => directory(ctx.core, place)?,
        };
        Ok(Step::Read(result))
    }
}

impl ViewCore {
    fn file(&self, block: &Block) -> Result<Map<String, Value>> {
        let (first, last) = self.lines.unwrap_or((1, None));
        let first = first.max(1);
        let lines = block.content.split('\n');
        let count = lines.clone().count();
        if count > VIEW_LINES_MAX {
            let why = format!("{count} lines: at most {VIEW_LINES_MAX} can be shown with numbers");
            return Err(Error::argument("path", why).with("lines_total", count));
        }
        let last = last.unwrap_or(count).min(count);
        let shown: Vec<&str> =
            lines.skip(first - 1).take((last + 1).saturating_sub(first)).collect();
        let value = json!({"block_id": block.id, "first_line": first, "lines": shown, "lines_total": count,
            "token_estimate": block.token_estimate});
        Ok(value.as_object().cloned().unwrap_or_default())
    }
}

/// Returns the blocks of a directory with their sizes. If the path of no block lies in this
/// directory, an error lists all blocks.
fn directory(core: &Core, place: &MemoryPath) -> Result<Map<String, Value>> {
    let within: Vec<Value> = core
        .working_blocks
        .iter()
        .filter(|block| lies_in(&block.id, place))
        .map(|block| json!({"block_id": block.id, "bytes": block.content.len()}))
        .collect();
    if let (true, MemoryPath::Named(id)) = (within.is_empty(), place) {
        super::fetch_core::find(core, id)?;
    }
    Ok(Map::from_iter([("blocks".to_owned(), Value::Array(within))]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_go_between_lines_and_the_end_stays_as_it_was() {
        for (content, line, text, expected) in [
            ("", Some(0), "a\n", "a"),
            ("a", Some(1), "b", "a\nb"),
            ("a\nb", Some(1), "x\n", "a\nx\nb"),
            ("a\nb\n", Some(2), "c\n", "a\nb\nc\n"),
            ("a\nb", None, "c", "a\nb\nc"),
            ("a", Some(0), "b\nc\n", "b\nc\na"),
            ("\n", Some(1), "b", "\nb\n"),
        ] {
            let (inserted, _) = inserted(content, line, text).unwrap();
            assert_eq!(inserted, expected, "{content:?} {line:?} {text:?}");
        }
        for line in [-1, 3, i64::MAX, i64::MIN] {
            let error = inserted("a\nb\n", Some(line), "x").unwrap_err();
            assert_eq!(error.fields["lines_max"], 2, "{line}");
        }
    }

    #[test]
    fn a_text_that_is_there_twice_is_told_by_its_lines() {
        let lines = |content: &str, old: &str| {
            check_once(content, old, true, "old").unwrap_err().fields["lines"].clone()
        };
        assert_eq!(lines("tea\nmilk tea\ntea tea", "tea"), json!([1, 2, 3, 3]));
        assert_eq!(lines("tea", "milk"), json!([]));
        assert!(check_once("tea\nmilk", "milk", true, "old").is_ok());
        assert!(check_once("tea tea", "tea", false, "old").is_ok());
        assert!(check_once("tea", "milk", false, "old").is_err());
    }
}
