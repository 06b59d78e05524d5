//! Executes forget operations: finds the affected texts, runs the steps, forgets whole agents, and
//! lists the manifests.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::executor::Executor;
use super::kernel::patience;
use super::request::{CallRequest, Guard, ReplayKeys, key_of, whose};
use crate::executor::limits::ATTEMPTS_MAX;
use crate::limits::FORGET_SCAN_ROWS;
use crate::store::{self, DueForgetting, Sought};
use vctx_base::clock;
use vctx_base::metric;
use vctx_core::error::{Code, Error, Result};
use vctx_core::limits::{FORGET_MESSAGES_MAX, FORGET_ROWS};
use vctx_core::memory::archive::manifest_key;
use vctx_core::memory::core::Core;
use vctx_core::memory::forget::{Forgetting, Phase, QuotingVersion, tombstone_key};
use vctx_core::policy::{ForgetAsked, ForgetFound, ForgetLook, FoundMessage, paired_with};
use vctx_core::search::escaped;
use vctx_core::tools::{Forget, ForgetStep, Tool};
use vctx_core::trust::{Actor, Principal, Scope, admit};

/// Maximum number of substrings that one database request searches for; the substrings come from
/// the texts to be forgotten.
const FORGET_RUNS: usize = 128;
/// Maximum number of substrings that one forget operation searches for in the remaining texts; the
/// others are reported as not searched.
const FORGET_RUNS_MAX: usize = 1_024;
/// Longest time for which one call works on a forget operation, in milliseconds. After this time,
/// the call answers that the forget operation is in progress.
const FORGET_CALL_MS: u64 = 20_000;
/// Maximum distance between a tool call and its result in recall storage, in positions.
const FORGET_PAIR_SEQS: u64 = 64;
/// Maximum number of steps of a forget operation in one round. Only forgetting a whole agent can
/// need more; the next round continues the operation.
const FORGET_STEPS_MAX: u32 = 100_000;
/// Time without progress after which the job continues a forget operation, in milliseconds.
const FORGET_IDLE_MS: u64 = 10_000;
/// Maximum number of abandoned forget operations that one search returns.
const FORGET_DUE_MAX: u64 = 16;

impl Executor {
    /// Forgets texts, or lists the texts that would be forgotten. The answer is the forget
    /// operation's manifest. If the operation takes longer than one call may work on it, the
    /// manifest's state is "in progress". A repeated call with the same idempotency key, or the
    /// background job of any server, continues the forget operation.
    pub async fn forget(&self, request: &CallRequest, forget: &Forget) -> Result<Value> {
        let scope = admit(&request.principal, &request.agent)?;
        if forget.all {
            return self.forget_whole(request, &scope, forget.dry_run).await;
        }
        if forget.dry_run {
            let mut body = self.call(request).await?.body;
            let mut told = body["result"].take();
            told["_rev"] = body["_rev"].clone();
            return Ok(told);
        }
        let (key, _) = key_of(request, || self.kernel.ids.key())?;
        let body = self.call(request).await?.body;
        let key = self.manifest_of(&scope, &ReplayKeys::of(&scope, &key)).await?;
        let row = self.go_on(&request.principal, &request.agent, &scope, &key).await?;
        let mut told = Value::Object(row.manifest());
        told["agent"] = scope.agent().into();
        told["replayed"] = body["replayed"].clone();
        Ok(told)
    }

    /// Returns the key of a forget operation's row. An earlier program version may have begun the
    /// operation under another key.
    async fn manifest_of(&self, scope: &Scope, keys: &ReplayKeys) -> Result<String> {
        if let Some(earlier) = &keys.earlier
            && self.kernel.read(|ro| store::forgetting(ro, scope, earlier)).await?.is_some()
        {
            return Ok(earlier.clone());
        }
        Ok(keys.key.clone())
    }

    /// Returns the manifests of an agent's forget operations, even if the agent itself was
    /// forgotten.
    pub async fn forgettings(&self, principal: &Principal, agent: &str) -> Result<Value> {
        let scope = admit(principal, agent)?;
        let rows = self.kernel.read(|ro| store::forgettings(ro, &scope)).await?;
        if rows.is_empty() {
            self.kernel.fresh(&scope, &[], patience()).await?;
        }
        let tomb = tombstone_key(scope.key());
        if rows.iter().any(|row| row.key == tomb) {
            self.check_current(principal, agent).await?;
        }
        let told: Vec<Value> = rows.iter().map(|row| Value::Object(row.manifest())).collect();
        Ok(json!({"agent": scope.agent(), "forgettings": told}))
    }

    /// Returns the forget operations that were abandoned because their server died.
    pub async fn due_forgettings(&self) -> Result<Vec<DueForgetting>> {
        let before = self.kernel.clock.unix_ms().saturating_sub(FORGET_IDLE_MS);
        self.kernel.read(|ro| store::due_forgettings(ro, before, FORGET_DUE_MAX)).await
    }

    /// Continues an abandoned forget operation.
    pub async fn take_up_forgetting(&self, due: &DueForgetting, actor: &Actor) -> Result<()> {
        let (principal, agent) = whose(actor, &due.tenant, &due.agent_id);
        let scope = admit(&principal, &agent)?;
        self.go_on(&principal, &agent, &scope, &due.key).await.map(drop)
    }

    /// Runs the steps of a forget operation until it is done or the call's time is over.
    pub(super) async fn go_on(
        &self,
        principal: &Principal,
        agent: &str,
        scope: &Scope,
        key: &str,
    ) -> Result<Forgetting> {
        let until = clock::now() + Duration::from_millis(FORGET_CALL_MS);
        let mut races = 0;
        let mut quoted = None;
        for _ in 0..FORGET_STEPS_MAX {
            let row = self.kernel.read(|ro| store::forgetting(ro, scope, key)).await?;
            let mut row =
                row.ok_or_else(|| Error::new(Code::Internal, "its manifest is missing"))?;
            if row.is_done() || clock::now() > until {
                // The stored manifest has only digests of the names, but this answer may say which
                // texts stay.
                row.quoted = quoted.unwrap_or(row.quoted);
                return Ok(row);
            }
            quoted = Some(row.quoted.clone());
            let stepped = match row.phase {
                Phase::Rows => self.rows_step(scope, row).await,
                Phase::Beside
                | Phase::Documents
                | Phase::Messages
                | Phase::Versions
                | Phase::Answers
                | Phase::Threads
                | Phase::Prompts
                | Phase::Done => {
                    let documents = (row.phase == Phase::Documents).then_some(&row.documents);
                    if let Some(doc_id) = documents.and_then(|all| all.get(row.at as usize)) {
                        self.forget_document(principal, agent, key, doc_id).await?;
                    }
                    self.step(principal, agent, key).await
                }
            };
            match stepped {
                // The core is gone: another forget operation removes the whole agent, including the
                // rows that this operation was to remove.
                Err(error) if error.code == Code::AgentNotFound => {
                    return self.end_with_agent(scope, key, error).await;
                }
                Err(error) if error.code == Code::Conflict && races < ATTEMPTS_MAX => races += 1,
                other => other?,
            }
        }
        Err(Error::new(Code::Internal, format!("more than {FORGET_STEPS_MAX} steps")))
    }

    async fn step(&self, principal: &Principal, agent: &str, key: &str) -> Result<()> {
        let whose = (principal.clone(), agent.to_owned());
        let request = CallRequest::internal(whose, ForgetStep { key: key.to_owned() }, []);
        self.call(&request).await?;
        metrics::counter!(metric::FORGET_STEPS).increment(1);
        Ok(())
    }

    /// Removes a document from the archive, exactly once, by an ordinary `ingest_archival` call.
    async fn forget_document(
        &self,
        principal: &Principal,
        agent: &str,
        key: &str,
        doc_id: &str,
    ) -> Result<()> {
        let arguments = [("doc_id", Value::from(doc_id)), ("delete", true.into())];
        let decoded = arguments.clone().map(|(name, value)| (name.to_owned(), value));
        let call = Tool::IngestArchival.decode(Map::from_iter(decoded))?;
        let whose = (principal.clone(), agent.to_owned());
        let mut request = CallRequest::internal(whose, call, arguments);
        request.key = Some(format!("forget:{}:{}", &key[..16], &manifest_key(agent, doc_id)[..16]));
        request.guard = Some(Guard::Any);
        match self.call(&request).await {
            Err(error) if error.code == Code::DocumentNotFound => Ok(()),
            other => other.map(drop),
        }
    }

    /// Finds the texts to be forgotten, and the other texts that quote them.
    pub(super) async fn forget_found(
        &self,
        scope: &Scope,
        core: &Core,
        asked: &ForgetAsked,
    ) -> Result<ForgetFound> {
        let mut found = ForgetFound::default();
        let mut seqs = asked.seqs.clone();
        if let Some(text) = &asked.text {
            let sought = Sought { texts: forms(text), pieces: escaped::patterns(text) };
            seqs.extend(self.holding(scope, &sought).await?);
            if seqs.len() > FORGET_MESSAGES_MAX {
                // The list keeps one message more than the maximum, so that the tool `forget` sees
                // the excess and refuses the call.
                seqs.truncate(FORGET_MESSAGES_MAX + 1);
            }
            let quotes = store::quotes(&self.kernel.ro, scope, &sought).await?;
            found.documents = quotes.documents;
            found.documents.extend(self.across_chunks(scope, text).await?);
            found.schedules = quotes.schedules;
            found.tool_sets = quotes.tool_sets;
            found.packs = quotes.packs;
            found.versions = quotes.versions;
            found.answers = quotes.answers;
            found.prompts = quotes.prompts;
            found.in_summary = !quotes.summaries.is_empty();
            let holds = |held: &str| escaped::contains(held, text);
            found.in_names = core.has_name_with(holds);
            look_into(core, holds, &mut found);
        }
        if let Some(doc_id) = &asked.doc_id {
            let key = manifest_key(scope.key(), doc_id);
            let loaded = store::load_archive(&self.kernel.ro, scope, &key, &[]).await?;
            found.documents.extend(loaded.manifest.map(|_| doc_id.clone()));
        }
        found.messages = self.with_copies_and_pairs(scope, core, &seqs, &asked.ids).await?;
        let ids: Vec<String> = found.messages.iter().map(|one| one.id.clone()).collect();
        found.documents.extend(store::derived(&self.kernel.ro, scope, &ids).await?);
        found.documents.sort();
        found.documents.dedup();
        if asked.text.is_none() {
            self.quoted(scope, core, &mut found).await?;
        } else {
            found.quoted.searched = found.messages.len() as u64;
        }
        if !(asked.blocks || (found.quoted.blocks.is_empty() && !found.quoted.system)) {
            // A block or the system text still quotes the forgotten text and is not removed, so the
            // earlier versions of the core are not removed either.
            found.versions.clear();
        }
        if asked.counted && found.messages.len() <= FORGET_MESSAGES_MAX {
            found.preview = Some(self.forget_preview(scope, core, asked, &found).await?);
        }
        Ok(found)
    }

    /// Returns the positions of all messages that contain a sought text.
    async fn holding(&self, scope: &Scope, sought: &Sought) -> Result<Vec<u64>> {
        let (mut seqs, mut after) = (Vec::new(), Some(0));
        // The loop ends, since each page of messages begins after the previous page.
        while let Some(from) = after {
            let (hits, next) = store::matching(&self.kernel.ro, scope, sought, from).await?;
            seqs.extend(hits);
            after = next.filter(|_| seqs.len() <= FORGET_MESSAGES_MAX);
        }
        Ok(seqs)
    }

    async fn with_copies_and_pairs(
        &self,
        scope: &Scope,
        core: &Core,
        seqs: &[u64],
        ids: &[String],
    ) -> Result<Vec<FoundMessage>> {
        let mut found: Vec<FoundMessage> = Vec::new();
        for part in seqs.chunks(FORGET_SCAN_ROWS as usize) {
            found.extend(store::selected_messages(&self.kernel.ro, scope, part, &[], &[]).await?);
        }
        for part in ids.chunks(FORGET_SCAN_ROWS as usize) {
            found.extend(store::selected_messages(&self.kernel.ro, scope, &[], part, &[]).await?);
        }
        let partners = self.partners(scope, core, &found).await?;
        found.extend(store::selected_messages(&self.kernel.ro, scope, &partners, &[], &[]).await?);
        let originals: Vec<String> = found.iter().map(|one| one.id.clone()).collect();
        for part in originals.chunks(FORGET_SCAN_ROWS as usize) {
            found.extend(store::selected_messages(&self.kernel.ro, scope, &[], &[], part).await?);
        }
        found.sort_by_key(|one| one.seq);
        found.dedup_by_key(|one| one.seq);
        Ok(found)
    }

    /// Returns the positions of the messages paired with the given ones: the results of the given
    /// tool calls, and the calls of the given results. A call and its result must be forgotten
    /// together, since a provider accepts neither without the other. In the queue, a late result
    /// may be far from its call, so the whole queue is searched. Outside the queue, a call and its
    /// result are close together, since they were evicted together.
    async fn partners(
        &self,
        scope: &Scope,
        core: &Core,
        found: &[FoundMessage],
    ) -> Result<Vec<u64>> {
        let mut partners = BTreeSet::new();
        let paired = |one: &&FoundMessage| !one.calls.is_empty() || one.call_id.is_some();
        let (head, next) = (core.queue.head_seq, core.queue.next_seq);
        let queued = found.iter().filter(paired).any(|one| one.seq >= head);
        let queue = match queued {
            true => store::calls_between(&self.kernel.ro, scope, head, next).await?,
            false => Vec::new(),
        };
        for one in found.iter().filter(paired) {
            let near = match one.seq >= head {
                true => None,
                false => {
                    let first = one.seq.saturating_sub(FORGET_PAIR_SEQS);
                    let last = one.seq + FORGET_PAIR_SEQS;
                    Some(store::calls_between(&self.kernel.ro, scope, first, last).await?)
                }
            };
            let around = near.as_ref().unwrap_or(&queue);
            partners.extend(paired_with(one.seq, around));
        }
        Ok(partners.into_iter().collect())
    }

    /// Searches the remaining texts for sequences of words from the messages to be forgotten.
    async fn quoted(&self, scope: &Scope, core: &Core, found: &mut ForgetFound) -> Result<()> {
        let going: BTreeSet<u64> = found.messages.iter().map(|one| one.seq).collect();
        let (mut runs, mut searched) = (Vec::new(), 0);
        for one in found.messages.iter().filter(|one| !one.runs.is_empty()) {
            if runs.len() + one.runs.len() <= FORGET_RUNS_MAX {
                runs.extend(one.runs.iter().cloned());
                searched += 1;
            }
        }
        found.quoted.searched = searched;
        found.quoted.unsearched = found.messages.len() as u64 - searched;
        for part in runs.chunks(FORGET_RUNS) {
            let texts: Vec<String> = part.iter().flat_map(|run| forms(run)).collect();
            let sought = Sought { texts, pieces: Vec::new() };
            let quotes = store::quotes(&self.kernel.ro, scope, &sought).await?;
            let holding = self.holding(scope, &sought).await?;
            found.quoted.messages.extend(holding.iter().filter(|seq| !going.contains(seq)));
            found.quoted.documents.extend(quotes.documents);
            found.quoted.schedules.extend(quotes.schedules);
            found.versions.extend(quotes.versions);
            found.answers.extend(quotes.answers);
            found.prompts.extend(quotes.prompts);
            found.in_summary |= !quotes.summaries.is_empty();
            let holds = |held: &str| sought.texts.iter().any(|one| held.contains(one.as_str()));
            look_into(core, holds, found);
        }
        let documents = std::mem::take(&mut found.quoted.documents);
        let stays = |doc: &String| !found.documents.contains(doc);
        found.quoted.documents = documents.into_iter().filter(stays).collect();
        QuotingVersion::join(&mut found.versions);
        for list in [
            &mut found.quoted.documents,
            &mut found.quoted.schedules,
            &mut found.quoted.blocks,
            &mut found.answers,
            &mut found.prompts,
        ] {
            list.sort();
            list.dedup();
        }
        found.quoted.messages.sort_unstable();
        found.quoted.messages.dedup();
        Ok(())
    }

    /// Loads the rows that the next step of a forget operation needs.
    pub(super) async fn forget_look(&self, scope: &Scope, key: &str) -> Result<ForgetLook> {
        let mut look = ForgetLook {
            row: store::forgetting(&self.kernel.ro, scope, key).await?,
            ..ForgetLook::default()
        };
        let Some(row) = &look.row else { return Ok(look) };
        match row.phase {
            Phase::Messages => {
                let items = row.items.iter().skip(row.at as usize).take(FORGET_ROWS as usize);
                let ids: Vec<String> = items.map(|one| one.id.clone()).collect();
                look.messages = store::standing(&self.kernel.ro, scope, &ids).await?;
            }
            Phase::Versions => {
                if let Some(from) = row.summary_from {
                    // Only versions up to `summary_until` are read. Later versions were written
                    // after the forget operation began, so they contain no summary of the forgotten
                    // text.
                    (look.keys, look.after) =
                        store::summaries(&self.kernel.ro, scope, from, row.summary_until).await?;
                }
            }
            Phase::Answers => {
                let page = store::stored_answers(&self.kernel.ro, scope, &row.after).await?;
                let full = page.len() as u64 == FORGET_SCAN_ROWS;
                look.after = page.last().filter(|_| full).map(|last| last.key.clone());
                let names = Names::of(row);
                let told = page.into_iter().filter(|one| names.are_told(&one.response));
                look.keys = told.map(|one| one.key).collect();
            }
            Phase::Threads if row.threads => {
                let first = row.items.first().map_or(1, |one| one.seq);
                let after = row.after.parse().unwrap_or(first.saturating_sub(1));
                (look.keys, look.after) = store::threaded(&self.kernel.ro, scope, after).await?;
            }
            Phase::Prompts if !row.items.is_empty() => {
                let seqs: BTreeSet<u64> = row.items.iter().map(|one| one.seq).collect();
                let (first, last) = (row.items[0].seq, row.items[row.items.len() - 1].seq);
                let after = row.after.parse().unwrap_or(0);
                let (page, next) =
                    store::shown_between(&self.kernel.ro, scope, after, (first, last)).await?;
                let shows = |one: &store::ShownQueue| {
                    seqs.range(one.head_seq..one.next_seq).next().is_some()
                };
                look.keys = page.into_iter().filter(shows).map(|one| one.key).collect();
                look.after = next.map(|turn| turn.to_string());
            }
            Phase::Beside if !row.documents.is_empty() => {
                let (keys, more) =
                    store::packs_with(&self.kernel.ro, scope, &row.documents).await?;
                look.keys = keys;
                look.after = more.then(String::new);
            }
            Phase::Beside
            | Phase::Documents
            | Phase::Threads
            | Phase::Prompts
            | Phase::Rows
            | Phase::Done => {}
        }
        Ok(look)
    }
}

/// Returns a text in its plain form and, if it differs, in its form inside a JSON string.
fn forms(text: &str) -> Vec<String> {
    let quoted = Value::from(text).to_string();
    let inside = quoted[1..quoted.len() - 1].to_owned();
    let mut forms = vec![text.to_owned()];
    if inside != text {
        forms.push(inside);
    }
    forms
}

/// Finds the parts of the core that hold a text, as `holds` tells.
fn look_into(core: &Core, holds: impl Fn(&str) -> bool, found: &mut ForgetFound) {
    let blocks = core.working_blocks.iter().filter(|block| block.texts().any(&holds));
    found.quoted.blocks.extend(blocks.map(|block| block.id.clone()));
    found.quoted.system |= holds(&core.system.content);
    found.in_summary |= holds(&core.queue_head_summary.content);
}

/// The positions, ids and documents by which a stored answer may refer to forgotten texts.
pub(super) struct Names<'a> {
    pub(super) seqs: BTreeSet<u64>,
    pub(super) ids: BTreeSet<&'a str>,
    pub(super) documents: BTreeSet<&'a str>,
}

impl<'a> Names<'a> {
    fn of(row: &'a Forgetting) -> Self {
        Self {
            seqs: row.items.iter().map(|one| one.seq).collect(),
            ids: row.items.iter().map(|one| one.id.as_str()).collect(),
            documents: row.documents.iter().map(String::as_str).collect(),
        }
    }

    /// Returns whether a stored answer refers to a forgotten text, and still has its result.
    pub(super) fn are_told(&self, response: &Value) -> bool {
        response["result"]["forgotten_at"].is_null() && self.stand_in(response, "")
    }

    /// Returns whether a field of a stored answer refers to a forgotten text.
    fn stand_in(&self, value: &Value, name: &str) -> bool {
        match value {
            Value::Object(map) => map.iter().any(|(name, value)| self.stand_in(value, name)),
            Value::Array(all) => all.iter().any(|value| self.stand_in(value, name)),
            Value::Number(number) => {
                name.contains("seq") && number.as_u64().is_some_and(|seq| self.seqs.contains(&seq))
            }
            Value::String(text) => {
                let id = text.strip_prefix("messages/").unwrap_or(text);
                self.ids.contains(id) || (name == "doc_id" && self.documents.contains(&**text))
            }
            Value::Null | Value::Bool(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vctx_core::memory::forget::ForgottenText;

    #[test]
    fn a_stored_answer_is_about_what_it_names() {
        let item =
            ForgottenText { seq: 7, id: "m7".into(), kind: "turn".into(), digest: String::new() };
        let row = Forgetting {
            items: vec![item],
            documents: vec!["letter".into()],
            ..Forgetting::default()
        };
        let names = Names::of(&row);
        for (answer, about) in [
            (json!({"receipt": {"seq": 7}}), true),
            (json!({"receipt": {"seq": 8}, "tokens": 7}), false),
            (json!({"result": {"results": [{"id": "messages/m7"}]}}), true),
            (json!({"result": {"doc_id": "letter"}}), true),
            (json!({"result": {"block_id": "letter"}}), false),
        ] {
            assert_eq!(names.stand_in(&answer, ""), about, "{answer}");
        }
    }

    #[test]
    fn a_text_is_looked_for_as_json_has_it_too() {
        assert_eq!(forms("plain"), ["plain"]);
        assert_eq!(forms("a \"b\""), ["a \"b\"", "a \\\"b\\\""]);
    }
}
