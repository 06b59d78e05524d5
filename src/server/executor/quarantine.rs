//! Lists the tainted texts of a memory for a reviewer, and shows the text of one tainted item.

use serde_json::{Value, json};

use super::executor::Executor;
use super::kernel::patience;
use super::request::page_limit;
use crate::limits::QUARANTINE_PAGE;
use crate::store::{self, TaintedItem};
use vctx_core::error::{Error, Result};
use vctx_core::memory::core::Core;
use vctx_core::tools::{nothing_tainted, tainted_place};
use vctx_core::trust::{Principal, TaintMode, admit, chunk_place, released_name};

/// First part of the parameter `after` if the previous page ended with a message. `.` and the
/// position of this message follow.
const MESSAGES: &str = "m";
/// First part of the parameter `after` if the next page begins with a chunk. `.` and the key of the
/// previous page's last chunk follow; without such a chunk, the key is empty.
const PASSAGES: &str = "p";

/// Where a page of tainted texts begins; all messages come before all chunks.
#[derive(Debug, PartialEq, Eq)]
enum After {
    Seq(u64),
    Key(String),
}

impl After {
    fn parse(text: &str) -> Result<Self> {
        let odd = || Error::argument("after", "use the `next` of the previous page");
        let plain = |key: &str| !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric());
        match text.split_once('.') {
            None if text.is_empty() => Ok(Self::Seq(0)),
            Some((MESSAGES, seq)) => seq.parse().map(Self::Seq).map_err(|_| odd()),
            Some((PASSAGES, "")) => Ok(Self::Key(String::new())),
            Some((PASSAGES, key)) if plain(key) => Ok(Self::Key(key.to_owned())),
            _ => Err(odd()),
        }
    }
}

impl Executor {
    /// Returns a page of an agent's tainted texts: positions, rules and lengths, never the text
    /// itself. `after` is the `next` of the previous page, if any.
    pub async fn quarantine(
        &self,
        principal: &Principal,
        agent: &str,
        after: &str,
        limit: Option<u64>,
    ) -> Result<Value> {
        let scope = admit(principal, agent)?;
        let limit = page_limit(limit, QUARANTINE_PAGE)?;
        let after = After::parse(after)?;
        let (core, _) = self.kernel.fresh(&scope, &[], patience()).await?;
        let (seq, key) = match &after {
            After::Seq(seq) => (*seq, ""),
            After::Key(key) => (u64::MAX >> 11, key.as_str()),
        };
        let found =
            self.kernel.read(|ro| store::tainted_items(ro, &scope, seq, key, limit)).await?;
        let (mut items, full) =
            (found.messages, |items: &[TaintedItem]| items.len() as u64 == limit);
        let mut next = None;
        if full(&items) {
            next = items.last().and_then(|last| last.seq).map(|seq| format!("{MESSAGES}.{seq}"));
        } else if items.is_empty() {
            items = found.passages;
            if full(&items) {
                next = items.last().map(|last| format!("{PASSAGES}.{}", last.key));
            }
        } else if !found.passages.is_empty() {
            next = Some(format!("{PASSAGES}."));
        }
        let items: Vec<Value> = items.iter().map(|item| item_value(&core, item)).collect();
        Ok(
            json!({"agent": scope.agent(), "_rev": core.rev, "mode": self.taint, "items": items, "next": next}),
        )
    }

    /// Returns one tainted item with its text (only the beginning if it is long), so that a
    /// reviewer can decide whether to release it.
    pub async fn quarantined(&self, principal: &Principal, agent: &str, id: &str) -> Result<Value> {
        let scope = admit(principal, agent)?;
        let place = tainted_place(id, &scope)?;
        let (core, _) = self.kernel.fresh(&scope, &[], patience()).await?;
        let found = self.vertices(&scope, &[place]).await?;
        let Some(item) = found.first() else { return Err(nothing_tainted()) };
        let rules = TaintMode::Mark.rules_of_vertex(item);
        let (place, revision) = item.released_as();
        let released = core.released.contains(&released_name(&place, revision));
        Ok(
            json!({"agent": scope.agent(), "_rev": core.rev, "mode": self.taint, "id": item.id, "seq": item.seq, "role": item.role,
            "doc_id": item.doc_id, "chunk_id": item.chunk_id, "rules": rules, "released": released, "chars": item.chars,
            "text": item.text}),
        )
    }
}

fn item_value(core: &Core, item: &TaintedItem) -> Value {
    let (place, revision) = match (&item.doc_id, &item.revision) {
        (Some(doc_id), Some(revision)) => {
            (chunk_place(&item.key, doc_id, item.parent), revision.as_str())
        }
        _ => (item.key.clone(), ""),
    };
    let released = core.released.contains(&released_name(&place, revision));
    let mut value = json!({"id": item.id, "rules": item.rules, "chars": item.chars, "created_at": item.created_at, "released": released});
    for (name, known) in [
        ("seq", json!(item.seq)),
        ("role", json!(item.role)),
        ("kind", json!(item.said)),
        ("doc_id", json!(item.doc_id)),
        ("chunk_id", json!(item.chunk_id)),
    ] {
        if !known.is_null() {
            value[name] = known;
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_begins_behind_a_message_or_a_chunk() {
        for (text, after) in [
            ("", After::Seq(0)),
            ("m.17", After::Seq(17)),
            ("p.", After::Key(String::new())),
            ("p.9f86d0", After::Key("9f86d0".into())),
        ] {
            assert_eq!(After::parse(text).unwrap(), after);
        }
        for odd in ["17", "m.", "m.x", "p.a b", "x.1", "m.-1"] {
            assert_eq!(After::parse(odd).unwrap_err().fields["field"], "after", "{odd}");
        }
    }
}
