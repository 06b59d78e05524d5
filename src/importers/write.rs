//! Writes the planned items of an import to an agent.
//!
//! Looks up existing items first, and derives the idempotency key of each new item from its
//! content, so that a repeated import by any process changes nothing.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::plan::{Block, Document, Entry, Left, Plan};
use vctx_cli::exit::Failure;
use vctx_client::{Client, MESSAGES_PER_PAGE_MAX, NewAgent, Problem, Write};
use vctx_core::limits::{QUERY_BYTES_MAX, RECALL_ENTRIES_MAX};
use vctx_core::memory::Labels;
use vctx_core::memory::receipt::sha256;

/// Maximum size of the entries sent in one call, in bytes of JSON.
const IMPORT_BATCH_BYTES: usize = 1024 * 1024;
/// Number of blocks after which an import reads the agent's revision again; smaller than
/// `REVISIONS_KEPT`.
const IMPORT_BLOCKS_AT_ONCE: usize = 16;
/// Maximum number of the agent's messages with which an import compares its items.
const IMPORT_LOOKED_MAX: u64 = 1_000_000;

/// The settings of an import, as the user chose them.
#[derive(Debug)]
pub(super) struct Order<'a> {
    /// Name of the agent into which the items are imported.
    pub(super) agent: &'a str,
    /// Name of the input format.
    pub(super) from: &'static str,
    /// Window of a new agent, in tokens.
    pub(super) window: u64,
    /// Whether existing texts are overwritten.
    pub(super) replace: bool,
    /// Reason for tainted text in the core, given by the caller of the import, never by the file.
    pub(super) justification: Option<&'a str>,
    /// Whether the import is a dry run.
    pub(super) dry_run: bool,
}

/// Report on an import: the numbers of items by kind and destination, and the skipped items.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Whether the import created the agent; in a dry run, whether it would create the agent.
    pub(super) made: bool,
    /// Numbers of items by kind and destination, in the order of writing.
    pub(super) rows: Vec<Row>,
    /// Skipped items, which were not imported.
    pub(super) left: Vec<Left>,
}

/// Number of items of one kind with one destination.
#[derive(Debug, PartialEq)]
pub(super) struct Row {
    pub(super) what: &'static str,
    pub(super) to: &'static str,
    /// Number of items that this import wrote.
    pub(super) new: u64,
    /// Number of items that already existed.
    pub(super) there: u64,
}

impl Outcome {
    fn count(&mut self, what: &'static str, to: &'static str, new: bool, items: u64) {
        let at = self.rows.iter().position(|row| (row.what, row.to) == (what, to));
        let at = at.unwrap_or_else(|| {
            self.rows.push(Row { what, to, new: 0, there: 0 });
            self.rows.len() - 1
        });
        let row = &mut self.rows[at];
        *(if new { &mut row.new } else { &mut row.there }) += items;
    }

    /// Reports an item as skipped because the agent already has another text under the item's name.
    fn kept(&mut self, what: &'static str, name: &str) {
        let why = "another text has this name: --replace overwrites it";
        self.left.push(Left { what: format!("{what}: {name}"), items: 1, why: why.into() });
    }
}

const BLOCKS: &str = "blocks";
const RECALL: &str = "recall";
const ARCHIVE: &str = "archive";

/// Writes the plan's items; in a dry run, only determines which of them are new.
pub(super) async fn apply(
    client: &Client,
    order: &Order<'_>,
    plan: Plan,
) -> Result<Outcome, Failure> {
    let mut outcome = Outcome { left: plan.left, ..Outcome::default() };
    let found = match client.state(order.agent).await {
        Ok(state) => Some(state),
        Err(problem) if problem.code == "AGENT_NOT_FOUND" => None,
        Err(problem) => return Err(problem.into()),
    };
    let (there, own_system) =
        (found.is_some(), found.as_ref().map(|state| state["system"].clone()));
    outcome.made = !there;
    match (own_system, &plan.system) {
        (Some(own), Some(system)) if own != json!(system) => {
            let why = "the agent has another system text than the file: vctx agent patch changes the agent";
            outcome.left.push(Left { what: "system text".into(), items: 1, why: why.into() });
        }
        _ => {}
    }
    if !there && !order.dry_run {
        let new = NewAgent { system: plan.system, ..NewAgent::with_window(order.window) };
        client.create_agent(order.agent, &new).await?;
    }
    let writer = Writer { client, order, there };
    writer.blocks(&plan.blocks, &mut outcome).await?;
    writer.entries(&plan.entries, &mut outcome).await?;
    writer.documents(&plan.documents, &mut outcome).await?;
    Ok(outcome)
}

struct Writer<'a> {
    client: &'a Client,
    order: &'a Order<'a>,
    /// Whether the agent existed before the import.
    there: bool,
}

impl Writer<'_> {
    /// Returns an idempotency key: a digest of the input format, the agent and the item's content.
    /// Every process computes the same key for an item.
    fn key(&self, kind: &str, content: &Value) -> String {
        let whole = json!([self.order.from, self.order.agent, kind, content]).to_string();
        format!("import/{}", sha256(&whole))
    }

    /// Whether the import compares its items with the agent's data. It does so except in a dry run
    /// for an agent that does not exist.
    fn looks(&self) -> bool {
        self.there || !self.order.dry_run
    }

    async fn blocks(&self, blocks: &[Block], outcome: &mut Outcome) -> Result<(), Failure> {
        for some in blocks.chunks(IMPORT_BLOCKS_AT_ONCE) {
            // The agent's revision is read again after a few writes, because a server remembers
            // only the newest revisions.
            let state = match self.looks() {
                true => self.client.state(self.order.agent).await?,
                false => Value::Null,
            };
            for block in some {
                self.block(block, &state, outcome).await?;
            }
        }
        Ok(())
    }

    async fn block(
        &self,
        block: &Block,
        state: &Value,
        outcome: &mut Outcome,
    ) -> Result<(), Failure> {
        let blocks = state["working_blocks"].as_array().map_or(&[][..], Vec::as_slice);
        match blocks.iter().find(|there| there["id"] == json!(block.id)) {
            Some(there) if there["content"] == json!(block.content) => {
                outcome.count(block.what, BLOCKS, false, 1);
                return Ok(());
            }
            Some(_) if !self.order.replace => {
                outcome.kept(block.what, &block.id);
                return Ok(());
            }
            _ => {}
        }
        outcome.count(block.what, BLOCKS, true, 1);
        if self.order.dry_run {
            return Ok(());
        }
        let policy = json!({"justification": self.order.justification});
        let arguments = json!({"block_id": block.id, "content": block.content, "policy": policy});
        let revision = state["_rev"].as_str().map(str::to_owned);
        // The idempotency key contains the revision, so that a second overwrite of a block does not
        // count as a repetition of the first overwrite.
        let key = self.key("block", &json!([&arguments, &revision]));
        let write = Write { key, revision };
        let done = self.client.tool(self.order.agent, "store_core", &arguments, &write).await;
        done.map(drop).map_err(|problem| of(&format!("block {}", block.id), problem))
    }

    async fn entries(&self, entries: &[Entry], outcome: &mut Outcome) -> Result<(), Failure> {
        if entries.is_empty() {
            return Ok(());
        }
        let mut there = match self.looks() {
            true => self.entries_there().await?,
            false => HashMap::new(),
        };
        // All planned entries are divided into batches before the entries that the agent already
        // has are left out, so that two imports of the same file form the same batches.
        for batch in batches(entries) {
            let mut new = Vec::with_capacity(batch.len());
            for entry in batch {
                match there.get_mut(&print_of(entry)).filter(|left| **left > 0) {
                    Some(left) => {
                        *left -= 1;
                        outcome.count(entry.what, RECALL, false, 1);
                    }
                    None => {
                        outcome.count(entry.what, RECALL, true, 1);
                        new.push(row(entry));
                    }
                }
            }
            if new.is_empty() || self.order.dry_run {
                continue;
            }
            let arguments = json!({"entries": new});
            let write = Write { key: self.key("entries", &arguments), revision: Some("*".into()) };
            let done = self.client.tool(self.order.agent, "write_recall", &arguments, &write).await;
            done.map_err(|problem| of("entries of recall storage", problem))?;
        }
        Ok(())
    }

    /// Counts how many times each entry is already among the agent's messages, no matter which
    /// writer appended them.
    async fn entries_there(&self) -> Result<HashMap<String, u32>, Failure> {
        let (mut there, mut next) = (HashMap::new(), Some(1));
        while let Some(from) = next {
            if from > IMPORT_LOOKED_MAX {
                let told = format!(
                    "the agent has more than {IMPORT_LOOKED_MAX} messages: import into another agent"
                );
                return Err(Failure::data(told));
            }
            let (messages, following) = self
                .client
                .original_messages(self.order.agent, from, MESSAGES_PER_PAGE_MAX)
                .await?;
            for message in messages.iter().filter(|message| message["copy_of"].is_null()) {
                *there.entry(print_there(message)).or_default() += 1;
            }
            next = following;
        }
        Ok(there)
    }

    async fn documents(
        &self,
        documents: &[Document],
        outcome: &mut Outcome,
    ) -> Result<(), Failure> {
        for document in documents {
            let digest = sha256(&document.text);
            let mut provenance = document.provenance.clone();
            provenance.insert("source".into(), self.order.from.into());
            provenance.insert("sha256".into(), digest.clone().into());
            let mut arguments =
                json!({"doc_id": document.id, "document": document.text, "provenance": provenance});
            if let Some(fresh) = &document.fresh {
                arguments["freshness_ts"] = json!(fresh);
            }
            let there = self.document_there(document, &digest).await?;
            match there {
                There::Same => outcome.count(document.what, ARCHIVE, false, 1),
                There::Other(_) if !self.order.replace => {
                    outcome.kept(document.what, &document.id);
                }
                There::No | There::Other(_) if self.order.dry_run => {
                    outcome.count(document.what, ARCHIVE, true, 1);
                }
                There::No | There::Other(_) => {
                    let text = Text { document, digest: &digest, arguments: &arguments };
                    self.ingest(&text, there, outcome).await?;
                }
            }
        }
        Ok(())
    }

    async fn ingest(
        &self,
        text: &Text<'_>,
        there: There,
        outcome: &mut Outcome,
    ) -> Result<(), Failure> {
        let Text { document, digest, arguments } = *text;
        let write = match there {
            There::Other(before) => {
                let key = self.key("document", &json!([arguments, before]));
                Write { key, revision: Some("*".into()) }
            }
            // With the empty revision, the server refuses the write if a document of this name
            // exists.
            There::No | There::Same => {
                Write { key: self.key("document", arguments), revision: Some(String::new()) }
            }
        };
        let agent = self.order.agent;
        let done = match self.client.tool(agent, "ingest_archival", arguments, &write).await {
            // The server refuses the write because the archive already has a document with this
            // name. The earlier search did not find this document, or another writer has just added
            // it.
            Err(problem) if problem.code == "REVISION_STALE" => {
                outcome.kept(document.what, &document.id);
                return Ok(());
            }
            done => done.map_err(|problem| of(&format!("document {}", document.id), problem))?,
        };
        if done["replayed"] != json!(true) {
            outcome.count(document.what, ARCHIVE, true, 1);
            return Ok(());
        }
        // An earlier import wrote the document under the same idempotency key. The document still
        // exists unless a later call changed or deleted it.
        match self.document_there(document, digest).await? {
            There::Same => outcome.count(document.what, ARCHIVE, false, 1),
            There::No | There::Other(_) => {
                let what = format!("{}: {}", document.what, document.id);
                let why = "an earlier import wrote it; a later call changed or removed it";
                outcome.left.push(Left { what, items: 1, why: why.into() });
            }
        }
        Ok(())
    }

    /// Searches the archive for a document with this name, and compares its digest.
    async fn document_there(&self, document: &Document, digest: &str) -> Result<There, Failure> {
        if !self.looks() {
            return Ok(There::No);
        }
        let asked = json!({"query_text": beginning(&document.text), "limit": 1, "filter": {"doc_id": document.id}});
        let answer =
            self.client.tool(self.order.agent, "search_archival", &asked, &Write::any()).await?;
        Ok(match answer.pointer("/result/results/0") {
            None => There::No,
            Some(passage) if passage["provenance"]["sha256"] == json!(digest) => There::Same,
            Some(passage) => There::Other(passage["provenance"]["sha256"].clone()),
        })
    }
}

/// A document that the import is writing.
#[derive(Clone, Copy)]
struct Text<'a> {
    document: &'a Document,
    digest: &'a str,
    /// Arguments of the call to `ingest_archival`.
    arguments: &'a Value,
}

/// What the archive has under the name of a planned document: nothing, the same text, or another
/// text.
#[derive(Clone, Debug, PartialEq)]
enum There {
    No,
    Same,
    /// The archive has the document with another text; the value is the digest recorded for the
    /// archived text, or null.
    Other(Value),
}

/// Adds the name of the refused item to the error.
fn of(what: &str, problem: Problem) -> Failure {
    let mut failure = Failure::from(problem);
    failure.message = format!("{what}: {}", failure.message);
    failure
}

/// Formats an entry for `write_recall`.
fn row(entry: &Entry) -> Value {
    let mut row = Map::new();
    row.insert("content".into(), entry.content.as_str().into());
    row.insert("role".into(), entry.role.into());
    for (name, value) in [("name", &entry.name), ("said_at", &entry.said_at)] {
        if let Some(value) = value {
            row.insert(name.into(), value.as_str().into());
        }
    }
    if entry.labels != Labels::default() {
        row.insert("labels".into(), json!(entry.labels));
    }
    Value::Object(row)
}

/// Returns a digest of the fields that determine whether an entry equals a message.
fn print_of(entry: &Entry) -> String {
    sha256(&json!([entry.role, entry.content, entry.name, entry.said_at]).to_string())
}

fn print_there(message: &Value) -> String {
    let meta = &message["meta"];
    sha256(&json!([message["role"], message["content"], meta["name"], meta["said_at"]]).to_string())
}

/// Divides entries into groups of which each fits into one call, in order.
fn batches(entries: &[Entry]) -> Vec<&[Entry]> {
    let (mut batches, mut start, mut bytes) = (Vec::new(), 0, 0);
    for (at, entry) in entries.iter().enumerate() {
        let length = row(entry).to_string().len();
        if at > start && (at - start >= RECALL_ENTRIES_MAX || bytes + length > IMPORT_BATCH_BYTES) {
            batches.push(&entries[start..at]);
            (start, bytes) = (at, 0);
        }
        bytes += length;
    }
    batches.push(&entries[start..]);
    batches
}

/// Returns the beginning of a document's text as a query that finds the document; the query has at
/// most half of the maximum length of a query.
fn beginning(text: &str) -> &str {
    let text = text.trim_start();
    &text[..text.floor_char_boundary(QUERY_BYTES_MAX / 2)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(content: &str) -> Entry {
        Entry {
            what: "messages",
            role: "user",
            content: content.into(),
            name: None,
            said_at: None,
            labels: Labels::default(),
        }
    }

    #[test]
    fn batches_are_the_whole_list_within_both_bounds() {
        let mut entries: Vec<Entry> = (0..600).map(|n| entry(&format!("line {n}"))).collect();
        entries.push(entry(&"x".repeat(IMPORT_BATCH_BYTES)));
        entries.push(entry("last"));
        let cut = batches(&entries);
        let sizes: Vec<usize> = cut.iter().map(|batch| batch.len()).collect();
        assert_eq!(sizes, [256, 256, 88, 1, 1]);
        assert_eq!(cut.concat(), entries);
    }

    #[test]
    fn an_entry_is_known_again_as_a_message() {
        let named = Entry { name: Some("Bea".into()), said_at: Some("2025".into()), ..entry("Hi") };
        let message = json!({"role": "user", "content": "Hi", "meta": {"said_at": "2025", "name": "Bea"}, "seq": 4});
        assert_eq!(print_of(&named), print_there(&message));
        assert_ne!(print_of(&entry("Hi")), print_there(&message));
        assert_eq!(
            print_of(&entry("Hi")),
            print_there(&json!({"role": "user", "content": "Hi", "meta": {}}))
        );
    }
}
