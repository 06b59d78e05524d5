//! Forgetting from outside the thinking rooms: what is found, the steps one after the other, whole agents, and the manifests.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::executor::{Executor, leaving, no_agent, patience};
use super::request::{CallRequest, Guard, key_of, replay_key, request_hash_of};
use super::schedule::whose;
use crate::store::{self, DueForgetting};
use vctx_base::clock::{self, iso8601};
use vctx_base::metric;
use vctx_core::error::{Code, Error, Result};
use vctx_core::limits::{
    ATTEMPTS_MAX, FORGET_CALL_MS, FORGET_DUE_MAX, FORGET_IDLE_MS, FORGET_MESSAGES_MAX,
    FORGET_PAIR_SEQS, FORGET_ROWS, FORGET_RUNS, FORGET_RUNS_MAX, FORGET_SCAN_ROWS,
    FORGET_STEPS_MAX,
};
use vctx_core::memory::archive::manifest_key;
use vctx_core::memory::core::Core;
use vctx_core::memory::forget::{Forgetting, Phase, tombstone_key};
use vctx_core::policy::{
    Actor, ForgetAsked, ForgetFound, ForgetLook, FoundMessage, Principal, Scope, admit, paired_with,
};
use vctx_core::tools::{Call, Forget, ForgetStep, Tool, decode};

impl Executor {
    /// Forgets, or tells what would go. The answer is the manifest: done, or under way where it takes longer than a call may; the same call
    /// with the same key goes on with it, and so does any server.
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
        let (key, _) = key_of(request, || self.ids.key())?;
        let body = self.call(request).await?.body;
        let key = replay_key(&scope, &key);
        let row = self.go_on(&request.principal, &request.agent, &scope, &key).await?;
        let mut told = Value::Object(row.manifest());
        told["agent"] = scope.agent().into();
        told["replayed"] = body["replayed"].clone();
        Ok(told)
    }

    /// The manifests of an agent, of one that was forgotten whole too.
    pub async fn forgettings(&self, principal: &Principal, agent: &str) -> Result<Value> {
        let scope = admit(principal, agent)?;
        let rows = self.patiently(|| store::forgettings(&self.ro, &scope)).await?;
        if rows.is_empty() {
            self.fresh(&scope, "", patience()).await?;
        }
        let told: Vec<Value> = rows.iter().map(|row| Value::Object(row.manifest())).collect();
        Ok(json!({"agent": scope.agent(), "forgettings": told}))
    }

    /// Forgettings that stand still, since their server died.
    pub async fn due_forgettings(&self) -> Result<Vec<DueForgetting>> {
        let before = self.clock.unix_ms().saturating_sub(FORGET_IDLE_MS);
        self.patiently(|| store::due_forgettings(&self.ro, before, FORGET_DUE_MAX)).await
    }

    /// Goes on with one of them.
    pub async fn take_up_forgetting(&self, due: &DueForgetting, actor: &Actor) -> Result<()> {
        let (principal, agent) = whose(actor, &due.tenant, &due.agent_id);
        let scope = admit(&principal, &agent)?;
        self.go_on(&principal, &agent, &scope, &due.key).await.map(drop)
    }

    /// Does one step after the other until all is gone or the time of a call is over.
    async fn go_on(
        &self,
        principal: &Principal,
        agent: &str,
        scope: &Scope,
        key: &str,
    ) -> Result<Forgetting> {
        let until = clock::now() + Duration::from_millis(FORGET_CALL_MS);
        let mut races = 0;
        for _ in 0..FORGET_STEPS_MAX {
            let row = self.patiently(|| store::forgetting(&self.ro, scope, key)).await?;
            let row = row.ok_or_else(|| Error::new(Code::Internal, "its manifest is missing"))?;
            if row.done() || clock::now() > until {
                return Ok(row);
            }
            let stepped = match row.phase {
                Phase::Rows => self.rows_step(scope, row).await,
                Phase::Documents => match row.documents.get(row.at as usize) {
                    Some(doc_id) => {
                        self.forget_document(principal, agent, key, doc_id).await?;
                        self.step(principal, agent, key).await
                    }
                    None => self.step(principal, agent, key).await,
                },
                _ => self.step(principal, agent, key).await,
            };
            match stepped {
                // Its core went meanwhile: whoever forgets the whole agent takes the rows of this too.
                Err(error) if error.code == Code::AgentNotFound => {
                    return self.settle_with_agent(scope, key, error).await;
                }
                Err(error) if error.code == Code::Conflict && races < ATTEMPTS_MAX => races += 1,
                other => other?,
            }
        }
        Err(Error::new(Code::Internal, format!("more than {FORGET_STEPS_MAX} steps")))
    }

    /// The end of a forgetting whose agent was forgotten whole meanwhile, with everything that it was about.
    async fn settle_with_agent(&self, scope: &Scope, key: &str, gone: Error) -> Result<Forgetting> {
        let tomb = tombstone_key(scope.key());
        if self.patiently(|| store::forgetting(&self.ro, scope, &tomb)).await?.is_none() {
            return Err(gone);
        }
        let row = self.patiently(|| store::forgetting(&self.ro, scope, key)).await?;
        let mut row = row.ok_or(gone)?;
        let at = row.step;
        row.step += 1;
        row.end(&iso8601(self.clock.unix_ms()));
        self.unraced(|| store::note_rows(&self.rw, scope, &row, at)).await?;
        Ok(row)
    }

    async fn step(&self, principal: &Principal, agent: &str, key: &str) -> Result<()> {
        let request = CallRequest {
            principal: principal.clone(),
            agent: agent.to_owned(),
            arguments: Map::new(),
            call: Call::ForgetStep(ForgetStep { key: key.to_owned() }),
            key: None,
            guard: None,
            wording: None,
            capture: None,
        };
        self.call(&request).await?;
        metrics::counter!(metric::FORGET_STEPS).increment(1);
        Ok(())
    }

    /// Takes a document out of the archive, by the call that everybody has for it; once.
    async fn forget_document(
        &self,
        principal: &Principal,
        agent: &str,
        key: &str,
        doc_id: &str,
    ) -> Result<()> {
        let arguments = Map::from_iter([
            ("doc_id".to_owned(), Value::from(doc_id)),
            ("delete".to_owned(), true.into()),
        ]);
        let request = CallRequest {
            principal: principal.clone(),
            agent: agent.to_owned(),
            call: decode(Tool::IngestArchival, arguments.clone())?,
            arguments,
            key: Some(format!("forget:{}:{}", &key[..16], &manifest_key(agent, doc_id)[..16])),
            guard: Some(Guard::Any),
            wording: None,
            capture: None,
        };
        match self.call(&request).await {
            Err(error) if error.code == Code::DocumentNotFound => Ok(()),
            other => other.map(drop),
        }
    }

    /// What there is of what is to be forgotten, and where it is quoted.
    pub(super) async fn forget_found(
        &self,
        scope: &Scope,
        core: &Core,
        asked: &ForgetAsked,
    ) -> Result<ForgetFound> {
        let mut found = ForgetFound::default();
        let mut seqs = asked.seqs.clone();
        let mut texts = Vec::new();
        if let Some(text) = &asked.text {
            texts = forms(text);
            seqs.extend(self.holding(scope, &texts).await?);
            if seqs.len() > FORGET_MESSAGES_MAX {
                // The tool refuses it by its number.
                seqs.truncate(FORGET_MESSAGES_MAX + 1);
            }
            let quotes = store::quotes(&self.ro, scope, &texts).await?;
            found.documents = quotes.documents;
            found.schedules = quotes.schedules;
            found.tool_sets = quotes.tool_sets;
            found.versions = quotes.versions;
            found.answers = quotes.answers;
            found.in_summary = !quotes.summaries.is_empty();
            look_into(core, &texts, &mut found);
        }
        if let Some(doc_id) = &asked.doc_id {
            let key = manifest_key(scope.key(), doc_id);
            let loaded = store::load_archive(&self.ro, scope, &key, &[]).await?;
            found.documents.extend(loaded.manifest.map(|_| doc_id.clone()));
        }
        found.messages = self.with_copies_and_pairs(scope, core, &seqs, &asked.ids).await?;
        let ids: Vec<String> = found.messages.iter().map(|one| one.id.clone()).collect();
        found.documents.extend(store::derived(&self.ro, scope, &ids).await?);
        found.documents.sort();
        found.documents.dedup();
        if texts.is_empty() {
            self.quoted(scope, core, &mut found).await?;
        } else {
            found.quoted.searched = found.messages.len() as u64;
        }
        if !(asked.blocks || (found.quoted.blocks.is_empty() && !found.quoted.system)) {
            // What a block says that stays is kept in its history too.
            found.versions.clear();
        }
        Ok(found)
    }

    /// Places of all messages that hold one of some texts.
    async fn holding(&self, scope: &Scope, texts: &[String]) -> Result<Vec<u64>> {
        let (mut seqs, mut after) = (Vec::new(), Some(0));
        // Ends with the last message: each page begins behind the one before.
        while let Some(from) = after {
            let (hits, next) = store::matching(&self.ro, scope, texts, from).await?;
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
            found.extend(store::named(&self.ro, scope, part, &[], &[]).await?);
        }
        for part in ids.chunks(FORGET_SCAN_ROWS as usize) {
            found.extend(store::named(&self.ro, scope, &[], part, &[]).await?);
        }
        let partners = self.partners(scope, core, &found).await?;
        found.extend(store::named(&self.ro, scope, &partners, &[], &[]).await?);
        let originals: Vec<String> = found.iter().map(|one| one.id.clone()).collect();
        for part in originals.chunks(FORGET_SCAN_ROWS as usize) {
            found.extend(store::named(&self.ro, scope, &[], &[], part).await?);
        }
        found.sort_by_key(|one| one.seq);
        found.dedup_by_key(|one| one.seq);
        Ok(found)
    }

    /// Places of results whose calls are among some messages, and of calls whose results are: a provider takes neither alone. In the
    /// queue they may stand anywhere, since a result may come late; elsewhere they left together.
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
            true => store::calls_between(&self.ro, scope, head, next).await?,
            false => Vec::new(),
        };
        for one in found.iter().filter(paired) {
            let near = match one.seq >= head {
                true => None,
                false => {
                    let first = one.seq.saturating_sub(FORGET_PAIR_SEQS);
                    let last = one.seq + FORGET_PAIR_SEQS;
                    Some(store::calls_between(&self.ro, scope, first, last).await?)
                }
            };
            let around = near.as_ref().unwrap_or(&queue);
            partners.extend(paired_with(one.seq, around));
        }
        Ok(partners.into_iter().collect())
    }

    /// Looks for runs of the messages that go in everything that stays.
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
            let quotes = store::quotes(&self.ro, scope, &texts).await?;
            let holding = self.holding(scope, &texts).await?;
            found.quoted.messages.extend(holding.iter().filter(|seq| !going.contains(seq)));
            found.quoted.documents.extend(quotes.documents);
            found.quoted.schedules.extend(quotes.schedules);
            found.versions.extend(quotes.versions);
            found.answers.extend(quotes.answers);
            found.in_summary |= !quotes.summaries.is_empty();
            look_into(core, &texts, found);
        }
        let documents = std::mem::take(&mut found.quoted.documents);
        let stays = |doc: &String| !found.documents.contains(doc);
        found.quoted.documents = documents.into_iter().filter(stays).collect();
        for list in [
            &mut found.quoted.documents,
            &mut found.quoted.schedules,
            &mut found.quoted.blocks,
            &mut found.versions,
            &mut found.answers,
        ] {
            list.sort();
            list.dedup();
        }
        found.quoted.messages.sort_unstable();
        found.quoted.messages.dedup();
        Ok(())
    }

    /// What the next step of a forgetting is about.
    pub(super) async fn forget_look(&self, scope: &Scope, key: &str) -> Result<ForgetLook> {
        let mut look = ForgetLook {
            row: store::forgetting(&self.ro, scope, key).await?,
            ..ForgetLook::default()
        };
        let Some(row) = &look.row else { return Ok(look) };
        match row.phase {
            Phase::Messages => {
                let items = row.items.iter().skip(row.at as usize).take(FORGET_ROWS as usize);
                let ids: Vec<String> = items.map(|one| one.id.clone()).collect();
                look.messages = store::standing(&self.ro, scope, &ids).await?;
            }
            Phase::Versions => {
                if let Some(from) = row.summary_from {
                    // What was written since holds no summary made of it: those before were dropped.
                    (look.keys, look.after) =
                        store::summaries(&self.ro, scope, from, row.summary_until).await?;
                }
            }
            Phase::Answers => {
                let page = store::stored_answers(&self.ro, scope, &row.after).await?;
                let full = page.len() as u64 == FORGET_SCAN_ROWS;
                look.after = page.last().filter(|_| full).map(|last| last.key.clone());
                let names = Names::of(row);
                let told = page.into_iter().filter(|one| names.stand_in(&one.response, ""));
                look.keys = told.map(|one| one.key).collect();
            }
            Phase::Threads if row.threads => {
                let first = row.items.first().map_or(1, |one| one.seq);
                let after = row.after.parse().unwrap_or(first.saturating_sub(1));
                (look.keys, look.after) = store::threaded(&self.ro, scope, after).await?;
            }
            Phase::Beside | Phase::Documents | Phase::Threads | Phase::Rows | Phase::Done => {}
        }
        Ok(look)
    }

    /// Forgets a whole agent: its core goes first, so that nothing is read of it or written to it from then on; its rows follow.
    async fn forget_whole(
        &self,
        request: &CallRequest,
        scope: &Scope,
        dry_run: bool,
    ) -> Result<Value> {
        if dry_run {
            let (core, _) = self.fresh(scope, "", patience()).await?;
            return Ok(
                json!({"dry_run": true, "what": "agent", "agent": scope.agent(), "_rev": core.rev,
                "messages": core.chain.length, "documents": core.archived.documents, "chunks": core.archived.chunks,
                "blocks": core.working_blocks.iter().map(|block| &block.id).collect::<Vec<_>>(), "prompts": core.turns,
                "versions": core.version}),
            );
        }
        let (key, _) = key_of(request, || self.ids.key())?;
        super::request::check_guarded(request)?;
        let now = self.clock.unix_ms();
        let row = Forgetting {
            key: tombstone_key(scope.key()),
            agent_id: scope.key().to_owned(),
            tenant: scope.tenant().to_owned(),
            what: "agent".into(),
            phase: Phase::Rows,
            by: json!(request.principal.actor),
            begun_at: iso8601(now),
            touched_ms: now,
            answer_key: replay_key(scope, &key),
            request_hash: request_hash_of(request),
            ..Forgetting::default()
        };
        let rev = match &request.guard {
            Some(Guard::Rev(rev)) => Some(rev.as_str()),
            _ => None,
        };
        let answer_key = row.answer_key.clone();
        let begun = self.unraced(|| store::forget_agent(&self.rw, scope, &row, rev)).await?;
        self.cores.drop(scope.key());
        let replayed = match (&begun.seen, begun.done, &begun.rev) {
            (Some(seen), ..) if seen.answer_key == answer_key => true,
            (Some(_), ..) | (None, false, None) => return Err(no_agent()),
            (None, true, _) => false,
            (None, false, Some(_)) if begun.moving => return Err(leaving()),
            (None, false, Some(now)) => {
                let text = "the memory changed since the given revision: look again at what goes, and send the new _rev";
                return Err(Error::new(Code::RevisionStale, text).with("_rev", now.as_str()));
            }
        };
        tracing::info!(agent = request.agent, replayed, "an agent is forgotten whole");
        let row = self.go_on(&request.principal, &request.agent, scope, &row.key).await?;
        let mut told = Value::Object(row.manifest());
        told["agent"] = scope.agent().into();
        told["replayed"] = replayed.into();
        Ok(told)
    }

    /// Some rows of a whole agent; the last step is the one that finds none.
    async fn rows_step(&self, scope: &Scope, mut row: Forgetting) -> Result<()> {
        let gone = self.unraced(|| store::forget_rows(&self.rw, scope)).await?;
        let at = row.step;
        row.step += 1;
        row.touched_ms = self.clock.unix_ms();
        let none = gone.values().all(|count| *count == 0);
        for (collection, count) in gone {
            row.count(&collection, count);
        }
        if none {
            row.end(&iso8601(row.touched_ms));
        }
        // Where another server noted the step, its count stands.
        self.unraced(|| store::note_rows(&self.rw, scope, &row, at)).await?;
        Ok(())
    }
}

/// A text as it stands, and as it stands within JSON.
fn forms(text: &str) -> Vec<String> {
    let quoted = Value::from(text).to_string();
    let inside = quoted[1..quoted.len() - 1].to_owned();
    let mut forms = vec![text.to_owned()];
    if inside != text {
        forms.push(inside);
    }
    forms
}

/// What of the core itself holds one of some texts.
fn look_into(core: &Core, texts: &[String], found: &mut ForgetFound) {
    let holds = |text: &str| texts.iter().any(|one| text.contains(one.as_str()));
    let blocks = core.working_blocks.iter().filter(|block| block.texts().any(&holds));
    found.quoted.blocks.extend(blocks.map(|block| block.id.clone()));
    found.quoted.system |= holds(&core.system.content);
    found.in_summary |= holds(&core.queue_head_summary.content);
}

/// How a stored answer names what goes.
struct Names<'a> {
    seqs: BTreeSet<u64>,
    ids: BTreeSet<&'a str>,
    documents: BTreeSet<&'a str>,
}

impl<'a> Names<'a> {
    fn of(row: &'a Forgetting) -> Self {
        Self {
            seqs: row.items.iter().map(|one| one.seq).collect(),
            ids: row.items.iter().map(|one| one.id.as_str()).collect(),
            documents: row.documents.iter().map(String::as_str).collect(),
        }
    }

    /// Whether a part of an answer, which stands under a name, is about it.
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
    use vctx_core::memory::forget::Item;

    #[test]
    fn a_stored_answer_is_about_what_it_names() {
        let item = Item { seq: 7, id: "m7".into(), kind: "turn".into(), digest: String::new() };
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
