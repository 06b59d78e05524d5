//! Edits of blocks as other dialects have them: a piece of a block, a new one, another name; worked out on the blocks as they are when it
//! is written.

use serde_json::{Map, Value, json};

use super::append_fifo::own_flush;
use super::spec::Step;
use crate::error::{Code, Error, Result};
use crate::limits::{BLOCKS_MAX, LINES_NAMED_MAX, NAME_BYTES_MAX, TEXT_BYTES_MAX, VIEW_LINES_MAX};
use crate::memory::block_path::{Place, lies_in, moved};
use crate::memory::core::{Block, Core};
use crate::memory::render;
use crate::policy::{Answers, Depends, Draft, Promoted, Promotion, Surroundings};

/// One edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EditCore {
    /// Makes a block where there is none, and no directory of that name.
    Create {
        /// The block.
        id: String,
        /// Its text.
        content: String,
    },
    /// Puts a text in the place of another one.
    Replace {
        /// The block.
        id: String,
        /// What goes; must be there.
        old: String,
        /// What comes.
        new: String,
        /// Whether it must be there once only; else all of them go.
        once: bool,
        /// The name of the argument that holds `old`, for faults.
        field: &'static str,
    },
    /// Puts lines between lines.
    Insert {
        /// The block.
        id: String,
        /// Behind which line, 0 for the beginning; none for the end.
        line: Option<i64>,
        /// The lines.
        text: String,
    },
    /// Takes a block away, or all blocks of a directory.
    Delete {
        /// The block or directory.
        id: String,
    },
    /// Gives a block another name, or all blocks of a directory.
    Rename {
        /// The block or directory as it is called.
        from: String,
        /// As it will be called.
        to: String,
    },
}

/// Lines before and behind an edit that its answer shows.
const SHOWN_LINES: usize = 2;

impl EditCore {
    /// The same, checked beyond its types; a fault names the argument as it is called here.
    pub fn checked(self) -> Result<Self> {
        let too_long = |field: &str| {
            let why = format!(
                "longer than {TEXT_BYTES_MAX} bytes: split it, or take it into the archive"
            );
            Err(Error::argument(field, why).with("bytes_max", TEXT_BYTES_MAX))
        };
        match &self {
            Self::Create { content, .. } if content.len() > TEXT_BYTES_MAX => too_long("content"),
            Self::Insert { text, .. } if text.len() > TEXT_BYTES_MAX => too_long("text"),
            Self::Replace { new, .. } if new.len() > TEXT_BYTES_MAX => too_long("new"),
            Self::Replace { old, field, .. } if old.is_empty() => {
                Err(Error::argument(field, "empty: give the text that goes"))
            }
            Self::Rename { from, to } if to == from || inside(to, from) => {
                let why = "the same, or within what gets it: use another name";
                Err(Error::argument("to", why))
            }
            _ => Ok(self),
        }
    }

    /// The block that gets a text, the text, and the block as it will be; none where no text is written. Who edits in this way has no
    /// place for a justification: `store_core` has.
    fn written(&self, core: &Core) -> Result<Option<(&str, &str, String)>> {
        Ok(match self {
            Self::Create { id, content } => Some((id, content, content.clone())),
            Self::Replace { id, old, new, .. } => {
                Some((id, new, found(core, id)?.content.replace(old.as_str(), new)))
            }
            Self::Insert { id, line, text } => {
                Some((id, text, inserted(&found(core, id)?.content, *line, text)?.0))
            }
            Self::Delete { .. } | Self::Rename { .. } => None,
        })
    }

    /// What a given revision must still hold for.
    pub(super) fn depends(&self) -> Depends {
        match self {
            Self::Create { id, .. } | Self::Replace { id, .. } | Self::Insert { id, .. } => {
                Depends::Block(id.clone())
            }
            Self::Delete { id } => Depends::Tree(vec![id.clone()]),
            Self::Rename { from, to } => Depends::Tree(vec![from.clone(), to.clone()]),
        }
    }

    /// Thinks: what the call does to this core.
    pub(super) fn step(
        &self,
        around: Surroundings<'_>,
        core: &Core,
        answers: &Answers,
    ) -> Result<Step> {
        let mut draft = Draft::new(around, core);
        if let Some((id, piece, after)) = self.written(core)? {
            let before = core.block(id).map_or("", |block| &block.content);
            let promotion =
                Promotion { block_id: id, piece, before, after: &after, justification: None };
            if let Promoted::Ask(question) = draft.promote(promotion, answers)? {
                return Ok(Step::Ask(question));
            }
        }
        let result = match self {
            Self::Create { id, content } => create(&mut draft, around, core, id, content)?,
            Self::Replace { id, old, new, once, field } => {
                let block = found(core, id)?;
                check_once(&block.content, old, *once, field)?;
                let at = block.content.find(old.as_str()).unwrap_or(0);
                let first = block.content[..at].matches('\n').count();
                let content = block.content.replace(old.as_str(), new);
                rewrite(&mut draft, around, block, content, Some(first))?
            }
            Self::Insert { id, line, text } => {
                let block = found(core, id)?;
                let (content, first) = inserted(&block.content, *line, text)?;
                rewrite(&mut draft, around, block, content, Some(first))?
            }
            Self::Delete { id } => {
                let gone = tree(core, id)?;
                gone.iter().for_each(|id| draft.remove_block(id));
                json!({"block_id": id, "blocks": gone, "token_estimate": 0})
            }
            Self::Rename { from, to } => rename(&mut draft, around, core, from, to)?,
        };
        let result = result.as_object().cloned().unwrap_or_default();
        Ok(draft.finish(own_flush(core), answers, result)?.into())
    }
}

fn inside(id: &str, directory: &str) -> bool {
    lies_in(id, &Place::Named(directory.to_owned()))
}

/// The block of that name.
fn found<'a>(core: &'a Core, id: &str) -> Result<&'a Block> {
    super::fetch_core::find(core, id)
}

/// The block of that name, or the blocks of the directory.
fn tree(core: &Core, id: &str) -> Result<Vec<String>> {
    if core.block(id).is_some() {
        return Ok(vec![id.to_owned()]);
    }
    let blocks = core.working_blocks.iter().map(|block| block.id.clone());
    let within: Vec<String> = blocks.filter(|block| inside(block, id)).collect();
    match within.is_empty() {
        true => found(core, id).map(|block| vec![block.id.clone()]),
        false => Ok(within),
    }
}

/// Refuses a name that a block or a directory has, or that lies within a block.
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
        let why = "lies within a block: a block holds no others";
        return Err(Error::argument("block_id", why).with("block_id", block.id.as_str()));
    }
    Ok(())
}

fn create(
    draft: &mut Draft<'_>,
    around: Surroundings<'_>,
    core: &Core,
    id: &str,
    content: &str,
) -> Result<Value> {
    check_free(core, id)?;
    if core.working_blocks.len() >= BLOCKS_MAX {
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
    render::settle_block(around.counter, &mut block);
    let cost = block.token_estimate;
    draft.after.working_blocks.push(block);
    Ok(json!({"block_id": id, "token_estimate": cost}))
}

/// A block with another text. `edited`: the line from which on it is another one, from 0.
fn rewrite(
    draft: &mut Draft<'_>,
    around: Surroundings<'_>,
    old: &Block,
    content: String,
    edited: Option<usize>,
) -> Result<Value> {
    if content.len() > TEXT_BYTES_MAX {
        let why = format!(
            "longer than {TEXT_BYTES_MAX} bytes with this: begin another block, or take it into the archive"
        );
        return Err(Error::argument("content", why).with("bytes_max", TEXT_BYTES_MAX));
    }
    let mut block = Block { content, changed_at_version: draft.version(), ..old.clone() };
    render::settle_block(around.counter, &mut block);
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

fn rename(
    draft: &mut Draft<'_>,
    around: Surroundings<'_>,
    core: &Core,
    from: &str,
    to: &str,
) -> Result<Value> {
    let named = tree(core, from)?;
    check_free(core, to)?;
    let mut renamed = Vec::with_capacity(named.len());
    for id in named {
        let new = if id == from { to.to_owned() } else { moved(&id, from, to) };
        if new.len() > NAME_BYTES_MAX {
            let why = format!("a name of at most {NAME_BYTES_MAX} bytes for each block");
            return Err(Error::argument("to", why));
        }
        let old = found(core, &id)?;
        let mut block =
            Block { id: new.clone(), changed_at_version: draft.version(), ..old.clone() };
        render::settle_block(around.counter, &mut block);
        let place = draft.after.working_blocks.iter().position(|block| block.id == id);
        draft.remove_block(&id);
        let place = place.unwrap_or(draft.after.working_blocks.len());
        draft.after.working_blocks.insert(place, block);
        renamed.push(json!({"from": id, "to": new}));
    }
    Ok(json!({"block_id": to, "blocks": renamed, "token_estimate": 0}))
}

/// Refuses a text that is not there, or not once.
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
            let why = "not there: give a text of the block as it is, letter for letter";
            Err(Error::argument(field, why).with("lines", lines))
        }
        1 => Ok(()),
        _ if !once => Ok(()),
        _ => {
            let why = "there more than once: give more of what stands around it";
            Err(Error::argument(field, why).with("lines", lines))
        }
    }
}

/// A text with lines between its lines, and the first of them, from 0. A text that ends with its last line's end keeps it.
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

/// Reads blocks as files: one of them, or what lies in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewCore {
    /// What is looked at.
    pub place: Place,
    /// First line and last one, from 1; none for all.
    pub lines: Option<(usize, Option<usize>)>,
}

impl ViewCore {
    /// Reads from this core.
    pub(super) fn step(&self, core: &Core) -> Result<Step> {
        let block = match &self.place {
            Place::Root => None,
            Place::Named(id) => core.block(id),
        };
        let result = match (block, &self.place) {
            (Some(block), _) => self.file(block)?,
            (None, place) => directory(core, place)?,
        };
        Ok(Step::Read(result))
    }

    fn file(&self, block: &Block) -> Result<Map<String, Value>> {
        let (first, last) = self.lines.unwrap_or((1, None));
        let first = first.max(1);
        let lines = block.content.split('\n');
        let count = lines.clone().count();
        if count > VIEW_LINES_MAX {
            let why = format!("{count} lines, of which at most {VIEW_LINES_MAX} have numbers");
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

/// The blocks of a directory with their sizes; an error that lists all blocks where nothing lies in it.
fn directory(core: &Core, place: &Place) -> Result<Map<String, Value>> {
    let within: Vec<Value> = core
        .working_blocks
        .iter()
        .filter(|block| lies_in(&block.id, place))
        .map(|block| json!({"block_id": block.id, "bytes": block.content.len()}))
        .collect();
    if let (true, Place::Named(id)) = (within.is_empty(), place) {
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
