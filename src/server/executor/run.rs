//! The life of a call: admit, take the agent's turn, load or trust the cache, think, ask, apply, reply.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use tracing::Instrument as _;
use tracing::field::Empty;

use super::executor::{Executor, leaving, no_agent, patience};
use super::figures::{occupancy, report, report_search, sample};
use super::heartbeat;
use super::request::{
    CallRequest, Guard, Reply, asked_hash, check_capture, check_guarded, key_hash, key_of,
    replay_key, request_hash,
};
use super::turns::Turn;
use super::{embedding, envelope};
use crate::store::{
    self, Applied, Fault, Record, Replay, Trips, apply, counted, open_archive, vector_setting,
};
use vctx_base::clock::{self, iso8601};
use vctx_base::metric;
use vctx_core::error::{Code, Error, Result};
use vctx_core::limits::{
    CALL_MS_MAX, CONFLICT_RETRIES_MAX, EVICT_PARTS_MAX, LEFTOVER_CALL_MS, LEFTOVER_CONFLICTS,
    LEFTOVER_LOOK_MS, MODEL_MS_MAX, PARTS_MS_MAX, QUESTIONS_MAX, REPLAY_S,
};
use vctx_core::memory::archive::VectorSetting;
use vctx_core::memory::change::Change;
use vctx_core::memory::core::Core;
use vctx_core::memory::receipt;
use vctx_core::policy::{
    Answers, Depends, Question, Scope, TEXT, VectorsAnswer, admit, changed_since,
};
use vctx_core::tools::{Call, Step};

/// One call on its way.
struct Run<'a> {
    executor: &'a Executor,
    request: &'a CallRequest,
    scope: Scope,
    /// The key that was made for this call, since its caller named none.
    minted_key: Option<String>,
    /// The caller's key, or the minted one.
    key: String,
    replay_key: String,
    /// Hash of tool and arguments.
    asked: String,
    request_hash: String,
    begun: Instant,
    deadline: Instant,
    conflicts: u32,
    parts: u32,
    /// Messages that those parts evicted.
    evicted_in_parts: u64,
    faults: u32,
    /// The revision that a part of this very call wrote: it stands in for the caller's own.
    own_rev: Option<String>,
    /// Whether something was read behind the core that is thought on.
    looked: bool,
    /// The revision on which this call was refused by what was read behind it.
    refused_on: Option<String>,
}

/// A core to think on.
struct Basis {
    core: Arc<Core>,
    /// Whether it came from the cache: then nobody has looked the key up yet.
    guessed: bool,
}

/// What became of a call that only reads.
enum Looked {
    Done(Value),
    /// It found something to keep, and has to write: with these answers.
    Keeps(Box<Answers>),
}

enum Thought {
    Reply(Value),
    Apply(Box<Change>, bool),
    /// Look again: the guess led to an answer that only a fresh core may give.
    Fresh,
    /// A model was asked outside the turn; think again on what is there now.
    Again,
}

impl Executor {
    /// Runs a call to its end, with one span, one log line and its metrics.
    pub async fn call(&self, request: &CallRequest) -> Result<Reply> {
        let begun = clock::now();
        let tool = request.call.name();
        let key_hash = key_hash(request);
        let span = tracing::info_span!(
            "tool_call",
            tool,
            agent = request.agent,
            key_hash,
            outcome = Empty
        );
        let work = Box::pin(self.run(request, begun)).instrument(span.clone());
        let (outcome, trips) = counted(work).await;
        let took = begun.elapsed();
        if let Err(error) = &outcome {
            self.note_refused(request, error).await;
        }
        if let (Call::SearchArchival(search), Ok(body)) = (&request.call, &outcome) {
            report_search(search.n_probe.is_some(), body);
        }
        let code = outcome.as_ref().map_or_else(|e| e.code.text(), |_| "OK");
        span.record("outcome", code);
        metrics::counter!(metric::TOOL_CALLS, "tool" => tool, "outcome" => code).increment(1);
        metrics::histogram!(metric::TOOL_SECONDS, "tool" => tool).record(took.as_secs_f64());
        self.measure(request, &outcome, trips, took);
        let duration_ms = u64::try_from(took.as_micros()).unwrap_or(u64::MAX) / 1000;
        let (trips, tokens) = (trips.sent, occupancy(&outcome));
        match &outcome {
            Err(error) if error.code.status() >= 500 => {
                tracing::error!(
                    tool,
                    agent = request.agent,
                    key_hash,
                    code,
                    duration_ms,
                    trips,
                    error = error.chain(),
                    "call failed"
                );
            }
            _ => tracing::info!(
                tool,
                agent = request.agent,
                key_hash,
                code,
                duration_ms,
                trips,
                tokens,
                uid = request.principal.actor.uid,
                "call"
            ),
        }
        if let Err(error) = &outcome {
            heartbeat::count_refusal(error);
        }
        let told = |error: Error| match &request.wording {
            Some(wording) => {
                let text = wording.refused(&error);
                error.with(TEXT, text)
            }
            None => error,
        };
        outcome.map(|body| Reply { body }).map_err(told)
    }

    /// Takes the call into the measurements of its agent's session. An agent that is not there has none.
    fn measure(
        &self,
        request: &CallRequest,
        outcome: &Result<Value>,
        trips: Trips,
        took: Duration,
    ) {
        let gone = outcome.as_ref().is_err_and(|e| e.code == Code::AgentNotFound);
        let Ok(scope) = admit(&request.principal, &request.agent) else { return };
        if gone {
            return;
        }
        let sample = sample(request, outcome, trips, took);
        self.measures.note(&scope, self.clock.unix_ms(), self.session_idle_ms, &sample);
    }

    async fn run(&self, request: &CallRequest, begun: Instant) -> Result<Value> {
        let scope = admit(&request.principal, &request.agent)?;
        // A search that was given a key may have kept something under it.
        let keyed = request.call.mints_key() && request.key.is_some();
        let mut found = Answers::default();
        check_capture(request)?;
        if !request.call.writes() && !keyed && request.capture.is_none() {
            match self.read(request, &scope).await? {
                Looked::Done(body) => return Ok(body),
                Looked::Keeps(answers) => found = *answers,
            }
        }
        let (key, minted) = key_of(request, || self.ids.key())?;
        check_guarded(request)?;
        let limit = match &request.call {
            Call::EvictFifo(_) if self.model.is_some() => CALL_MS_MAX + MODEL_MS_MAX,
            Call::IngestArchival(ingest) if ingest.splits() || ingest.part.is_some() => {
                CALL_MS_MAX + PARTS_MS_MAX
            }
            _ => CALL_MS_MAX,
        };
        let asked = asked_hash(request.named(), &request.arguments);
        let run = Run {
            executor: self,
            request,
            replay_key: replay_key(&scope, &key),
            minted_key: minted.then(|| key.clone()),
            key,
            request_hash: request_hash(request, &asked),
            asked,
            scope,
            begun,
            deadline: begun + Duration::from_millis(limit),
            conflicts: 0,
            parts: 0,
            evicted_in_parts: 0,
            faults: 0,
            own_rev: None,
            looked: false,
            refused_on: None,
        };
        Box::pin(run.write(found)).await
    }

    /// Logs what was refused though it is well formed: chunks that are naive, of which nothing is stored but that they were offered, and
    /// tainted text on its way into the core.
    async fn note_refused(&self, request: &CallRequest, error: &Error) {
        if error.code == Code::TaintedContent
            && let Err(fault) = self.note_refusal(&request.principal, &request.agent, error).await
        {
            tracing::error!(error = fault.chain(), "a refused promotion could not be noted");
        }
        if error.code != Code::LateChunkingRequired {
            return;
        }
        let refused = error.fields.get("refused_chunks").and_then(Value::as_u64).unwrap_or(0);
        metrics::counter!(metric::CHUNKS, "outcome" => "refused").increment(refused);
        if let Err(fault) = self.note_refusal(&request.principal, &request.agent, error).await {
            tracing::error!(error = fault.chain(), "a refused ingest could not be noted");
        }
    }

    /// Runs a reading call on the socket for reads.
    async fn read(&self, request: &CallRequest, scope: &Scope) -> Result<Looked> {
        let mut answers = Answers::default();
        let core = match &request.call {
            Call::SearchArchival(search) if search.page_token.is_none() => {
                let opened = self.patiently(|| open_archive(&self.ro, scope)).await?;
                let core = Arc::new(opened.core.ok_or_else(no_agent)?);
                let vectors = self.vectors(opened.setting, core.archived.chunks).await?;
                answers.vectors = Some(vectors);
                core
            }
            _ => self.fresh(scope, "", patience()).await?.0,
        };
        for _ in 0..QUESTIONS_MAX {
            let around = self.surroundings(scope, request, &core, "", "");
            match request.call.step(around, &core, &answers)? {
                Step::Read(result) => {
                    return Ok(Looked::Done(envelope::of_read(
                        &core,
                        worded(request, result),
                        self.clock.unix_ms(),
                    )));
                }
                Step::Ask(question) => self.ask(question, &mut answers, scope, &core).await?,
                Step::Write(_) | Step::Part(_) if request.call.mints_key() => {
                    return Ok(Looked::Keeps(Box::new(answers.lasting())));
                }
                Step::Write(_) | Step::Part(_) => {
                    return Err(Error::new(Code::Internal, "a reading tool wants to write"));
                }
            }
        }
        Err(curious())
    }

    async fn ask(
        &self,
        question: Question,
        answers: &mut Answers,
        scope: &Scope,
        core: &Core,
    ) -> Result<()> {
        let question = match question {
            Question::Vectors { chunks } => {
                let setting = vector_setting(&self.ro).await?;
                answers.vectors = Some(self.vectors(setting, chunks).await?);
                return Ok(());
            }
            Question::EmbedQuery { text, with } => {
                return embedding::query(&self.embedders, text, &with, answers).await;
            }
            Question::Embed { document, spans, with } => {
                let made = embedding::spans(&self.embedders, &document, &spans, &with).await?;
                answers.embeddings = Some(made);
                answers.embedded_with = Some(with);
                return Ok(());
            }
            Question::EmbedAlone { texts, with } => {
                answers.alone = Some(embedding::alone(&self.embedders, &texts, &with).await?);
                return Ok(());
            }
            Question::EmbedNext { document, spans, with } => {
                let made = embedding::next(&self.embedders, &document, &spans, &with).await?;
                answers.next_embeddings = Some((with, made));
                return Ok(());
            }
            Question::Recall { query, now_ms } => {
                answers.recall = Some(self.recall(scope, query, now_ms).await?);
                return Ok(());
            }
            Question::Schedule { name } => {
                let seen = self.patiently(|| store::looked_at(&self.ro, scope, &name)).await?;
                answers.schedule = Some(seen);
                return Ok(());
            }
            Question::Forget(asked) => {
                answers.forget = Some(self.forget_found(scope, core, &asked).await?);
                return Ok(());
            }
            Question::ForgetStep { key } => {
                answers.forget_step = Some(self.forget_look(scope, &key).await?);
                return Ok(());
            }
            Question::Due { before } => {
                answers.due = Some(store::due(&self.ro, scope, core, &before).await?);
                return Ok(());
            }
            Question::Trace(query) => {
                answers.traced = Some(self.trace(scope, &query).await?);
                return Ok(());
            }
            Question::Traced { places } => {
                answers.vertices = Some(self.vertices(scope, &places).await?);
                return Ok(());
            }
            Question::EmbedParts(upload) => {
                let made = self.embed_parts(&upload, scope).await?;
                answers.embeddings = Some(made);
                answers.embedded_with = Some(upload.with);
                return Ok(());
            }
            Question::KeepPart(given) => {
                answers.gathered = Some(self.gather(&given, scope).await?);
                return Ok(());
            }
            other => other,
        };
        let counter = Arc::clone(self.counters.of(core.encoding));
        let model = self.model.as_ref();
        super::answer::answer(question, answers, &self.ro, scope, counter, model).await?;
        if answers.nearest.as_ref().is_some_and(|found| found.rows.is_none()) {
            self.archive.failed();
        }
        if let Some(queue) = &mut answers.queue {
            // The queue is read after the core; what another server appended meanwhile belongs to a later revision, and
            // the guard of the write will tell.
            queue.retain(|message| message.seq < core.queue.next_seq);
        }
        Ok(())
    }

    /// What the vectors of this database are; whether an index serves them is asked only where that matters.
    async fn vectors(&self, setting: Option<VectorSetting>, chunks: u64) -> Result<VectorsAnswer> {
        let exact_rows_max = self.archive.settings.exact_rows_max;
        let index_ready = match &setting {
            Some(setting) if chunks > exact_rows_max => {
                self.archive.serves(&self.ro, &setting.attribute()).await?
            }
            Some(_) | None => false,
        };
        if index_ready && self.archive.unsettled() {
            self.archive.nudge();
        }
        let filters_first = self.archive.settings.filters_first;
        Ok(VectorsAnswer { setting, index_ready, exact_rows_max, filters_first })
    }
}

/// A result, told in the words of its caller where they are not ours.
fn worded(request: &CallRequest, mut result: Map<String, Value>) -> Map<String, Value> {
    if let Some(wording) = &request.wording {
        result.insert(TEXT.into(), wording.told(&result).into());
    }
    result
}

/// Tools that answer with texts of messages.
const TELLERS: [&str; 3] = ["search_recall", "recall_dates", "trace_memory"];

/// When the oldest of the messages was said whose texts an answer holds.
fn oldest_text(tool: &str, response: &Map<String, Value>) -> Option<String> {
    if !TELLERS.contains(&tool) {
        return None;
    }
    let results = response.get("result")?.get("results")?.as_array()?;
    let moments = results.iter().filter_map(|one| one.get("created_at")?.as_str());
    moments.min().map(str::to_owned)
}

fn curious() -> Error {
    Error::new(Code::Internal, format!("a call asked more than {QUESTIONS_MAX} questions"))
}

impl Run<'_> {
    /// Runs a writing call, with what is known already.
    async fn write(mut self, mut answers: Answers) -> Result<Value> {
        let mut trust = true;
        loop {
            let mut turn = Some(self.turn().await?);
            let basis = match self.basis(trust).await? {
                Ok(basis) => basis,
                Err(replay) => return self.replay(replay),
            };
            if !basis.guessed && self.may_have_parts(&basis.core) {
                self.take_up_parts().await?;
            }
            self.looked = false;
            let thought = match self.think(&basis, &mut answers, &mut turn).await {
                Err(error) if self.may_be_done(&basis.core, &error) => Thought::Fresh,
                thought => thought?,
            };
            let (change, part) = match thought {
                Thought::Reply(body) => return Ok(body),
                Thought::Apply(change, part) => (change, part),
                Thought::Fresh | Thought::Again => {
                    trust = false;
                    answers.queue = None;
                    answers.archive = None;
                    answers.cited = None;
                    answers.due = None;
                    answers.schedule = None;
                    answers.forget = None;
                    answers.forget_step = None;
                    self.in_time()?;
                    continue;
                }
            };
            let written = self.apply(*change, part).await?;
            drop(turn);
            match written {
                Some(Thought::Reply(body)) => return Ok(body),
                _ => {
                    trust = part;
                    answers = Answers::default();
                }
            }
            self.in_time()?;
        }
    }

    /// The agent's turn, waited for no longer than the call may take.
    async fn turn(&self) -> Result<Turn> {
        let turn = self.executor.turns.take(self.scope.key());
        match tokio::time::timeout_at(self.deadline.into(), turn).await {
            Ok(turn) => turn,
            Err(_) => Err(self.late()),
        }
    }

    /// The core to think on: the cached one as a first guess, else a fresh one with the key looked up.
    async fn basis(&self, trust: bool) -> Result<std::result::Result<Basis, Replay>> {
        if let Some(core) = self.executor.cores.get(self.scope.key()).filter(|_| trust) {
            return Ok(Ok(Basis { core, guessed: true }));
        }
        let loaded = self.executor.fresh(&self.scope, &self.replay_key, self.deadline).await;
        if loaded.is_err() {
            self.executor.cores.drop(self.scope.key());
        }
        let (core, replay) = loaded?;
        self.executor.cores.put(Arc::clone(&core));
        Ok(match replay {
            Some(replay) => Err(replay),
            None => Ok(Basis { core, guessed: false }),
        })
    }

    /// Whether a refusal may be due to this very call, done elsewhere with the same key: core and key are read at once, but what was asked for
    /// was read later. Then both are read again; a refusal on the same revision stands.
    fn may_be_done(&mut self, core: &Core, error: &Error) -> bool {
        let doubts = self.looked
            && error.code.status() < 500
            && self.refused_on.as_deref() != Some(core.rev.as_str());
        if doubts {
            self.refused_on = Some(core.rev.clone());
        }
        doubts
    }

    /// Thinks until there is a change. The turn is given back while a model is asked.
    async fn think(
        &mut self,
        basis: &Basis,
        answers: &mut Answers,
        turn: &mut Option<Turn>,
    ) -> Result<Thought> {
        let core = &basis.core;
        if let Err(error) = self.check_guard(core) {
            return if basis.guessed { Ok(Thought::Fresh) } else { Err(error) };
        }
        for _ in 0..QUESTIONS_MAX {
            let key_hash = &self.replay_key;
            self.executor.prepare(self.request, core, answers).await?;
            let asked = if self.request.call.goes_round() { self.asked.as_str() } else { "" };
            let around =
                self.executor.surroundings(&self.scope, self.request, core, key_hash, asked);
            match self.request.call.step(around, core, answers) {
                Err(error) => return if basis.guessed { Ok(Thought::Fresh) } else { Err(error) },
                Ok(Step::Write(change)) => return Ok(Thought::Apply(change, false)),
                Ok(Step::Part(change)) => return Ok(Thought::Apply(change, true)),
                // That there is nothing to write is no more to be believed on a guess than an error.
                Ok(Step::Read(_)) if basis.guessed => return Ok(Thought::Fresh),
                Ok(Step::Read(result)) => {
                    let now = self.executor.clock.unix_ms();
                    let result = worded(self.request, result);
                    return Ok(Thought::Reply(envelope::of_read(core, result, now)));
                }
                Ok(Step::Ask(_)) if basis.guessed => return Ok(Thought::Fresh),
                Ok(Step::Ask(question)) => {
                    self.looked = true;
                    let slow = match question {
                        Question::Summary { may_wait: true, .. } => self.executor.model.is_some(),
                        Question::EmbedParts(_) => true,
                        _ => false,
                    };
                    if slow {
                        drop(turn.take());
                        self.executor.ask(question, answers, &self.scope, core).await?;
                        return Ok(Thought::Again);
                    }
                    self.executor.ask(question, answers, &self.scope, core).await?;
                    self.check_manifest(answers)?;
                }
            }
        }
        Err(curious())
    }

    /// Whether the document is as the caller of an ingest saw it. It is read behind the core, whose revision every ingest
    /// moves: if it changes between this look and the write, the write is stale.
    fn check_manifest(&self, answers: &Answers) -> Result<()> {
        let Some(archive) = &answers.archive else { return Ok(()) };
        let now = archive.manifest.as_ref().map(|m| m.revision.as_str());
        let holds = match &self.request.guard {
            None | Some(Guard::Any) => true,
            Some(Guard::Rev(rev)) => now == Some(rev),
            Some(Guard::Absent) => now.is_none(),
        };
        if holds {
            return Ok(());
        }
        let message = match now {
            Some(_) => "the document was taken in since: send its _rev to replace it, or \"*\"",
            None => "the document is not in the archive: send \"*\" or an empty _rev to take it in",
        };
        Err(Error::new(Code::RevisionStale, message).with("_rev", now))
    }

    /// Whether what the caller builds on still holds for this call.
    fn check_guard(&self, core: &Core) -> Result<()> {
        let Some(Guard::Rev(rev)) = &self.request.guard else { return Ok(()) };
        if self.request.call.depends() == Depends::Manifest {
            return Ok(());
        }
        let rev = self.own_rev.as_ref().unwrap_or(rev);
        if *rev == core.rev {
            return Ok(());
        }
        let changed = changed_since(core, core.version_of(rev), &self.request.call.depends());
        if changed.is_empty() {
            return Ok(());
        }
        Err(Error::new(
            Code::RevisionStale,
            "what this call builds on has changed: read it again and send the new _rev",
        )
        .with("_rev", core.rev.as_str())
        .with("changed", changed))
    }

    /// Whether a revision that no longer holds may have been outdated by a part of this very call: then something was evicted
    /// since, with a new summary unless the call wants none.
    fn may_have_parts(&self, core: &Core) -> bool {
        let Some(Guard::Rev(rev)) = &self.request.guard else { return false };
        let seen = core.version_of(self.own_rev.as_ref().unwrap_or(rev));
        let evicted = seen.is_some_and(|v| core.queue_head_summary.changed_at_version > v);
        let may_evict = evicted || matches!(self.request.call, Call::EvictFifo(_));
        may_evict && self.check_guard(core).is_err()
    }

    /// Finds the parts that an earlier try of this call wrote: what they changed is no news to the caller.
    async fn take_up_parts(&mut self) -> Result<()> {
        while self.parts <= EVICT_PARTS_MAX {
            let key = self.part_key();
            let found = self.executor.fresh(&self.scope, &key, self.deadline).await?.1;
            let Some(replay) = found else { return Ok(()) };
            self.take_part(&replay);
        }
        Ok(())
    }

    fn take_part(&mut self, replay: &Replay) {
        let evicted = replay.response["flush"]["evicted_count"].as_u64();
        let rev = replay.response["_rev"].as_str().unwrap_or_default();
        self.count_part(evicted.unwrap_or(0), rev.to_owned());
    }

    fn count_part(&mut self, evicted: u64, rev: String) {
        self.parts += 1;
        self.evicted_in_parts += evicted;
        self.own_rev = Some(rev);
    }

    /// The answer of a call counts what its parts evicted too.
    fn sum_up_parts(&self, change: &mut Change) {
        if self.parts == 0 {
            return;
        }
        let parts = json!({"count": self.parts, "evicted_count": self.evicted_in_parts});
        change.envelope.insert("parts".into(), parts);
        if let Some(count) = change.result.get_mut("evicted_count") {
            *count = (count.as_u64().unwrap_or(0) + self.evicted_in_parts).into();
        }
    }

    /// A part has a key of its own, derived from the call's and its place, so that it happens once too.
    fn part_key(&self) -> String {
        receipt::sha256(&format!("{}\0part\0{}", self.replay_key, self.parts))
    }

    /// Writes a change. `None` means: nothing is certain or a part is done, think again.
    async fn apply(&mut self, mut change: Change, part: bool) -> Result<Option<Thought>> {
        if !part {
            self.sum_up_parts(&mut change);
        }
        let record = self.record(&change, part);
        let executor = self.executor;
        let applied = tokio::select! {
            applied = apply(&executor.rw, &self.scope, &change, &record, executor.mode) => applied,
            never = self.clear_leftovers() => match never {},
        };
        let key = self.scope.key();
        match applied {
            Ok(Applied::Written(rev)) => {
                let mut core = change.after.clone();
                core.rev.clone_from(&rev);
                executor.cores.put(Arc::new(core));
                report(&change, self.request.call.name());
                if change.ingest.is_some() {
                    executor.archive.nudge();
                }
                if part {
                    let evicted = change.evict.as_ref().map_or(0, |e| e.evicted_count);
                    self.count_part(evicted, rev);
                    return Ok(None);
                }
                Ok(Some(Thought::Reply(envelope::finished(record.response, &rev, false))))
            }
            Ok(Applied::Seen(replay)) if part => {
                executor.cores.drop(key);
                self.take_part(&replay);
                Ok(None)
            }
            Ok(Applied::Seen(replay)) => self.replay(replay).map(|body| Some(Thought::Reply(body))),
            Ok(Applied::NoAgent) => {
                executor.cores.drop(key);
                Err(no_agent())
            }
            Ok(Applied::Leaving) => {
                executor.cores.drop(key);
                Err(leaving())
            }
            Ok(Applied::Stale) => {
                executor.cores.drop(key);
                self.recompute().await.map(|()| None)
            }
            Ok(Applied::Raced) => {
                executor.cores.drop(key);
                self.recompute().await.map(|()| None)
            }
            Ok(Applied::Unknown) => {
                executor.cores.drop(key);
                self.repeat(Fault {
                    kind: store::FaultKind::Lost,
                    message: "commit not confirmed".into(),
                })
                .await
            }
            Err(fault) => {
                executor.cores.drop(key);
                self.repeat(fault).await
            }
        }
    }

    async fn repeat(&mut self, fault: Fault) -> Result<Option<Thought>> {
        metrics::counter!(metric::RECOMPUTED, "why" => "fault").increment(1);
        self.executor.pause(fault, &mut self.faults, self.deadline).await.map(|()| None)
    }

    /// Another writer was faster. A fresh look decides: a caller that builds on one revision learns there whether it still holds.
    async fn recompute(&mut self) -> Result<()> {
        self.conflicts += 1;
        metrics::counter!(metric::RECOMPUTED, "why" => "conflict").increment(1);
        if self.conflicts > CONFLICT_RETRIES_MAX {
            return Err(Error::new(
                Code::Conflict,
                "other writers were faster each time: retry later with the same key",
            )
            .with("retry_after_ms", 50));
        }
        if self.conflicts > 1 {
            // Short while others are only faster, longer when somebody seems to hold on to it.
            let ceiling = match u64::from(self.conflicts) {
                few @ ..=16 => few * 2,
                many => (many - 8) * 8,
            };
            tokio::time::sleep(Duration::from_millis(self.executor.ids.below(ceiling))).await;
        }
        Ok(())
    }

    /// After some conflicts in a row, a transaction that a dead server left behind may hold the locks: it is looked for while this call
    /// waits for them. One look at a time for all calls of this server, which remember together since when each has been there.
    async fn clear_leftovers(&self) -> Infallible {
        let waited = self.begun.elapsed() > Duration::from_millis(LEFTOVER_CALL_MS);
        if self.conflicts == 0 || (self.conflicts < LEFTOVER_CONFLICTS && !waited) {
            return std::future::pending().await;
        }
        loop {
            if let Ok(mut leftovers) = self.executor.leftovers.try_lock()
                && let Err(fault) = leftovers.look(&self.executor.rw).await
            {
                tracing::debug!(%fault, "no look at the running transactions");
            }
            tokio::time::sleep(Duration::from_millis(LEFTOVER_LOOK_MS)).await;
        }
    }

    fn in_time(&self) -> Result<()> {
        if self.parts > EVICT_PARTS_MAX {
            return Err(Error::new(
                Code::Internal,
                format!("an eviction needs more than {EVICT_PARTS_MAX} parts"),
            ));
        }
        if clock::now() < self.deadline {
            return Ok(());
        }
        Err(self.late())
    }

    fn late(&self) -> Error {
        let ms = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        Error::new(Code::Timeout, "the call took longer than allowed: retry with the same key")
            .with("after_ms", ms)
    }

    fn replay(&self, replay: Replay) -> Result<Value> {
        // Of what was forgotten there is no hash either: nobody can hold a guess against it.
        if !replay.request_hash.is_empty() && replay.request_hash != self.request_hash {
            return Err(Error::new(
                Code::IdempotencyKeyReused,
                "this idempotency key was used for another call: send a fresh one for each new call",
            ));
        }
        metrics::counter!(metric::REPLAYED).increment(1);
        let map = match replay.response {
            Value::Object(map) => map,
            _ => Map::new(),
        };
        let rev = map.get("_rev").and_then(Value::as_str).unwrap_or_default().to_owned();
        Ok(envelope::finished(map, &rev, true))
    }

    fn record(&self, change: &Change, part: bool) -> Record {
        let now = self.executor.clock.unix_ms();
        let replay_key = if part { self.part_key() } else { self.replay_key.clone() };
        let mut response = envelope::of_change(change);
        if let Some(key) = &self.minted_key {
            response.insert("idempotency_key".into(), key.as_str().into());
        }
        let texts_since = oldest_text(self.request.call.name(), &response);
        Record {
            replay_key,
            key: self.key.clone(),
            part: part.then_some(self.parts),
            texts_since,
            request_hash: self.request_hash.clone(),
            tool: self.request.call.name(),
            response,
            created_at: iso8601(now),
            expires_at: now / 1000 + REPLAY_S,
        }
    }
}
