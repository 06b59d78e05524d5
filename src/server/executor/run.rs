//! Runs a writing call: waits for its turn to write to the agent, takes the cached or a fresh core,
//! computes and writes the change, and replies.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::call::{QUESTIONS_MAX, curious, worded};
use super::envelope;
use super::executor::Executor;
use super::figures::report;
use super::kernel::{leaving, no_agent};
use super::request::{
    CallRequest, Guard, ReplayKeys, asked_hash, check_guarded, key_of, request_hash,
};
use super::steps::{StageSpans, step};
use super::turns::Turn;
use crate::executor::limits::PARTS_MS_MAX;
use crate::store::{self, Applied, Broken, Fault, Record, Replay, apply};
use vctx_base::clock::{self, iso8601};
use vctx_base::metric;
use vctx_core::error::{Code, Error, Result};
use vctx_core::limits::{CALL_MS_MAX, MODEL_MS_MAX};
use vctx_core::memory::answer_key::kept_key;
use vctx_core::memory::change::Change;
use vctx_core::memory::core::Core;
use vctx_core::policy::{Answers, Ctx, Depends, Stage, Stages as _, Step, Stop, changed_since};
use vctx_core::tools::Call;
use vctx_core::trust::Scope;

/// Maximum number of parts of one eviction. With the smallest batch (`BATCH_MESSAGES_MIN`), an
/// eviction of 128 000 messages needs about 370 parts: while more than 64 batches are left, a part
/// takes a 64th of them.
const EVICT_PARTS_MAX: u32 = 512;
/// Maximum number of recomputations of a call after conflicts (`conflict_retries_max`).
const CONFLICT_RETRIES_MAX: u32 = 48;
/// Number of conflicts after which a call searches for transactions of dead servers.
const LEFTOVER_CONFLICTS: u32 = 6;
/// Age of a call, in milliseconds, at which even one conflict starts the search for transactions of
/// dead servers. One conflict is enough then: before the database reports a conflict, it waits up
/// to a second for a locked key (ArangoDB: `--rocksdb.transaction-lock-timeout` 1000).
const LEFTOVER_CALL_MS: u64 = 500;
/// Pause between two searches for transactions of dead servers, in milliseconds.
const LEFTOVER_LOOK_MS: u64 = 250;
/// Lifetime of a call's record, in seconds: seven days. A later retry with the same idempotency key
/// counts as a new call.
const REPLAY_S: u64 = 7 * 24 * 3600;

/// A writing call in progress.
pub(super) struct Run<'a> {
    executor: &'a Executor,
    request: &'a CallRequest,
    scope: Scope,
    /// The idempotency key that the server made for this call, if the caller sent none.
    minted_key: Option<String>,
    /// The idempotency key of the call, sent by the caller or made by the server.
    key: String,
    replay: ReplayKeys,
    /// Hash of the call's tool and arguments.
    asked: String,
    request_hash: String,
    begun: Instant,
    deadline: Instant,
    conflicts: u32,
    parts: u32,
    /// Number of messages that earlier parts of this call evicted.
    evicted_in_parts: u64,
    faults: u32,
    /// The revision that the last part of this call wrote; it replaces the caller's revision.
    own_rev: Option<String>,
    /// Whether the computation read further rows after it had read the core.
    looked: bool,
    /// The core's revision at the last refusal that depended on rows read after the core.
    ended_on: Option<String>,
}

/// The core on which a call is computed.
struct Basis {
    core: Arc<Core>,
    /// Whether the core comes from the cache. If so, the record of the call's key is not loaded
    /// yet.
    guessed: bool,
}

/// Outcome of a call's computation.
enum Outcome {
    Reply(Value),
    Apply(Box<Change>, bool),
    /// The cached core does not suffice for the call's answer, so a fresh core must be loaded.
    Fresh,
    /// A model was asked, and other calls could write to the agent meanwhile, so the change must be
    /// computed again with the current core.
    Again,
}

/// Returns the time of the oldest message whose text the answer contains.
fn oldest_text(call: &Call, response: &Map<String, Value>) -> Option<String> {
    if !call.spec().tells_messages {
        return None;
    }
    let results = response.get("result")?.get("results")?.as_array()?;
    let moments = results.iter().filter_map(|one| one.get("created_at")?.as_str());
    moments.min().map(str::to_owned)
}

impl<'a> Run<'a> {
    /// Makes a writing call from a request: determines its idempotency key and deadline, and checks
    /// its guard.
    pub(super) fn begin(
        executor: &'a Executor,
        request: &'a CallRequest,
        scope: Scope,
        begun: Instant,
    ) -> Result<Self> {
        let (key, minted) = key_of(request, || executor.kernel.ids.key())?;
        check_guarded(request)?;
        let limit = match &request.call {
            Call::EvictFifo(_) | Call::RefineSummary(_) if executor.kernel.model.is_some() => {
                CALL_MS_MAX + MODEL_MS_MAX
            }
            Call::IngestArchival(ingest) if ingest.splits() || ingest.part.is_some() => {
                CALL_MS_MAX + PARTS_MS_MAX
            }
            _ => CALL_MS_MAX,
        };
        let asked = asked_hash(request.tool_name(), &request.arguments);
        Ok(Self {
            executor,
            request,
            replay: ReplayKeys::of(&scope, &key),
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
            ended_on: None,
        })
    }

    /// Runs the writing call, starting with the given answers.
    pub(super) async fn write(mut self, mut answers: Answers) -> Result<Value> {
        let mut trust = true;
        loop {
            let mut turn = Some(step("wait", self.turn()).await?);
            let basis = match step("load", self.basis(trust)).await? {
                Ok(basis) => basis,
                Err(replay) => return self.replay(replay),
            };
            if !basis.guessed && self.may_have_parts(&basis.core) {
                self.take_up_parts().await?;
            }
            self.looked = false;
            let outcome = match Box::pin(self.think(&basis, &mut answers, &mut turn)).await {
                Err(error) if self.may_be_done(&basis.core, &error) => Outcome::Fresh,
                outcome => outcome?,
            };
            let (change, part) = match outcome {
                Outcome::Reply(body) => return Ok(body),
                Outcome::Apply(mut change, part) => {
                    self.executor.mark_prompt(&self.scope, &mut change.parts);
                    (change, part)
                }
                Outcome::Fresh | Outcome::Again => {
                    trust = false;
                    answers.keep_lasting();
                    self.in_time()?;
                    continue;
                }
            };
            let written = step("write", Box::pin(self.apply(*change, part))).await?;
            drop(turn);
            match written {
                Some(Outcome::Reply(body)) => return Ok(body),
                _ => {
                    trust = part;
                    answers = Answers::default();
                }
            }
            self.in_time()?;
        }
    }

    /// Waits until no other call writes to the agent, at most until the call's deadline.
    async fn turn(&self) -> Result<Turn> {
        let turn = self.executor.kernel.turns.take(self.scope.key());
        match tokio::time::timeout_at(self.deadline.into(), turn).await {
            Ok(turn) => turn,
            Err(_) => Err(self.late()),
        }
    }

    /// Returns the core for the computation: the cached core, or a fresh core if there is none or
    /// it did not suffice. A fresh core is loaded with the record of the call's key; if the call is
    /// already done, returns that record.
    async fn basis(&self, trust: bool) -> Result<std::result::Result<Basis, Replay>> {
        if let Some(core) = self.executor.kernel.cores.get(self.scope.key()).filter(|_| trust) {
            return Ok(Ok(Basis { core, guessed: true }));
        }
        let keys = self.replay.all();
        let loaded = self.executor.kernel.checked(&self.scope, &keys, self.deadline).await;
        if loaded.is_err() {
            self.executor.kernel.cores.drop(self.scope.key());
        }
        let (core, replay) = loaded?;
        Ok(match replay {
            Some(replay) => Err(replay),
            None => Ok(Basis { core, guessed: false }),
        })
    }

    /// Returns whether another server may have caused the refusal by running the same call. The
    /// core and the key's record are read together, but other rows are read later. The other server
    /// may have written between the two reads. In this case, the core and the record are read
    /// again; a second refusal at the same revision is final.
    fn may_be_done(&mut self, core: &Core, error: &Error) -> bool {
        error.code.status() < 500 && self.looked && is_first(&mut self.ended_on, core)
    }

    /// Computes the call until it yields a change or a reply. While a model is asked, other calls
    /// may write to the agent.
    async fn think(
        &mut self,
        basis: &Basis,
        answers: &mut Answers,
        turn: &mut Option<Turn>,
    ) -> Result<Outcome> {
        let core = &basis.core;
        if let Err(error) = self.check_guard(core) {
            return if basis.guessed { Ok(Outcome::Fresh) } else { Err(error) };
        }
        for _ in 0..QUESTIONS_MAX {
            let key_hash = &self.replay.key;
            self.executor.prepare(self.request, core, answers).await?;
            let asked = if self.request.call.spec().in_chains { self.asked.as_str() } else { "" };
            let stages = StageSpans::default();
            let (scope, request) = (&self.scope, self.request);
            let around = self.executor.surroundings(scope, request, core, key_hash, asked, &stages);
            stages.begins(Stage::Execute);
            let decided = self.request.call.step(&Ctx { around, core, answers });
            drop(stages);
            match decided {
                Err(Stop::Fail(error)) => {
                    return if basis.guessed { Ok(Outcome::Fresh) } else { Err(error) };
                }
                Ok(Step::Write(change)) => return Ok(Outcome::Apply(change, false)),
                Ok(Step::Part(change)) => return Ok(Outcome::Apply(change, true)),
                // A cached core may be outdated, so a result without a change, like an error, is
                // final only if the core is fresh.
                Ok(Step::Read(_)) if basis.guessed => return Ok(Outcome::Fresh),
                // Another server may have run the same call between the two reads, as in
                // `may_be_done`: the rows that were read later would then have its effect. A search
                // has no effect that a second look could miss.
                Ok(Step::Read(_))
                    if self.looked
                        && !self.request.call.mints_key()
                        && is_first(&mut self.ended_on, core) =>
                {
                    return Ok(Outcome::Fresh);
                }
                Ok(Step::Read(result)) => {
                    let now = self.executor.kernel.clock.unix_ms();
                    let result = worded(self.request, result);
                    return Ok(Outcome::Reply(envelope::of_read(core, result, now)));
                }
                Ok(Step::Keep(..)) => {
                    return Err(Error::new(Code::Internal, "a writing call wants to keep a pack"));
                }
                Err(Stop::Ask(_)) if basis.guessed => return Ok(Outcome::Fresh),
                Err(Stop::Ask(question)) => {
                    self.looked = true;
                    let slow = question.is_slow(self.executor.kernel.model.is_some());
                    if slow {
                        drop(turn.take());
                        let answer = self.executor.answer(*question, answers, scope, core);
                        step("ask", answer).await?;
                        return Ok(Outcome::Again);
                    }
                    step("ask", self.executor.answer(*question, answers, scope, core)).await?;
                    self.check_manifest(answers)?;
                }
            }
        }
        Err(curious())
    }

    /// Refuses an ingest if the document has changed since the caller read it, unless the stored
    /// document is the one that the call would store. A concurrent ingest after this check makes
    /// the write fail, since every ingest changes the core's revision and the core was read before
    /// the document.
    fn check_manifest(&self, answers: &Answers) -> Result<()> {
        let Some(archive) = &answers.archive else { return Ok(()) };
        let now = archive.manifest.as_ref().map(|m| m.revision.as_str());
        let holds = match &self.request.guard {
            None | Some(Guard::Any) => true,
            Some(Guard::Rev(rev)) => now == Some(rev),
            Some(Guard::Absent) => now.is_none(),
        };
        let is_stored = || {
            let digest = archive.manifest.as_ref().and_then(|m| m.content_digest.as_ref());
            digest.is_some() && digest == self.request.call.document_digest().as_ref()
        };
        if holds || is_stored() {
            return Ok(());
        }
        let message = match now {
            Some(_) => "the document was ingested since: send its _rev to replace it, or \"*\"",
            None => "the document is not in the archive: send \"*\" or an empty _rev to ingest it",
        };
        Err(Error::new(Code::RevisionStale, message).with("_rev", now))
    }

    /// Refuses a call if the texts on which it depends have changed since the caller's revision.
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
            "a text that this call builds on has changed: read it again and send the new _rev",
        )
        .with("_rev", core.rev.as_str())
        .with("changed", changed))
    }

    /// Returns whether an earlier part of this call may have made the caller's revision outdated.
    /// This is possible only if messages were evicted since that revision, or if the call itself is
    /// an eviction.
    fn may_have_parts(&self, core: &Core) -> bool {
        let Some(Guard::Rev(rev)) = &self.request.guard else { return false };
        let seen = core.version_of(self.own_rev.as_ref().unwrap_or(rev));
        let evicted = seen.is_some_and(|v| core.queue_head_summary.changed_at_version > v);
        let may_evict = evicted || matches!(self.request.call, Call::EvictFifo(_));
        may_evict && self.check_guard(core).is_err()
    }

    /// Finds the parts of this call that an earlier attempt wrote. The caller's revision stays
    /// valid in spite of the changes that these parts made.
    async fn take_up_parts(&mut self) -> Result<()> {
        while self.parts <= EVICT_PARTS_MAX {
            let keys = self.part_keys();
            let kernel = &self.executor.kernel;
            let found = kernel.fresh(&self.scope, &keys.all(), self.deadline).await?.1;
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

    /// Adds to the call's answer the messages that earlier parts of the call evicted.
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

    /// Returns the document keys for the record of the next part. They are derived from the call's
    /// keys and the part's number, so that each part is written once.
    fn part_keys(&self) -> ReplayKeys {
        self.replay.part(self.parts)
    }

    /// Writes a change. Returns `None` if the call must be computed again: the outcome is unknown,
    /// another writer was faster, or the change was only a part of the call.
    async fn apply(&mut self, mut change: Change, part: bool) -> Result<Option<Outcome>> {
        if !part {
            self.sum_up_parts(&mut change);
        }
        let record = self.record(&change, part);
        let executor = self.executor;
        let applied = tokio::select! {
            applied = apply(&executor.kernel.rw, &self.scope, &change, &record, executor.kernel.mode) => applied,
            never = self.clear_leftovers() => match never {},
        };
        let key = self.scope.key();
        match applied {
            Ok(Applied::Written(rev)) => {
                report(&change, self.request.call.name());
                if executor.refines() {
                    executor.refines.add(&change);
                }
                if change.ingest().is_some() {
                    executor.archive.nudge();
                }
                let evicted = change.evict().map_or(0, |e| e.evicted_count);
                let core = Core { rev: rev.clone(), ..change.after };
                executor.kernel.cores.put(Arc::new(core));
                if part {
                    self.count_part(evicted, rev);
                    return Ok(None);
                }
                Ok(Some(Outcome::Reply(envelope::finished(record.response, &rev, false))))
            }
            Ok(Applied::NoAgent) => {
                executor.kernel.cores.drop(key);
                Err(no_agent())
            }
            Ok(Applied::Leaving) => {
                executor.kernel.cores.drop(key);
                Err(leaving())
            }
            Ok(Applied::Raced) => {
                executor.kernel.cores.drop(key);
                if part {
                    // An earlier attempt may have written this part.
                    self.take_up_parts().await?;
                }
                self.recompute().await.map(|()| None)
            }
            Ok(Applied::Unsealed) => {
                executor.kernel.cores.drop(key);
                match Box::pin(store::adopt(&executor.kernel.rw, &self.scope)).await {
                    Ok(_) => self.recompute().await.map(|()| None),
                    Err(Broken::Store(fault)) => self.repeat(fault).await,
                    Err(Broken::Other(error)) => Err(error),
                }
            }
            Ok(Applied::Unknown) => {
                executor.kernel.cores.drop(key);
                self.repeat(Fault {
                    kind: store::FaultKind::Lost,
                    message: "commit not confirmed".into(),
                })
                .await
            }
            Err(fault) => {
                executor.kernel.cores.drop(key);
                self.repeat(fault).await
            }
        }
    }

    async fn repeat(&mut self, fault: Fault) -> Result<Option<Outcome>> {
        metrics::counter!(metric::RECOMPUTED, "why" => "fault").increment(1);
        self.executor.kernel.pause(fault, &mut self.faults, self.deadline).await.map(|()| None)
    }

    /// Prepares another computation after a conflict. That computation will load a fresh core,
    /// which shows whether the caller's revision is still valid.
    async fn recompute(&mut self) -> Result<()> {
        self.conflicts += 1;
        metrics::counter!(metric::RECOMPUTED, "why" => "conflict").increment(1);
        if self.conflicts > CONFLICT_RETRIES_MAX {
            return Err(Error::new(
                Code::Conflict,
                "at each attempt, another write changed the memory first: retry later with the same key",
            )
            .with("retry_after_ms", 50));
        }
        if self.conflicts > 1 {
            // The pause is short after few conflicts, and longer when another writer seems to hold
            // a lock.
            let ceiling = match u64::from(self.conflicts) {
                few @ ..=16 => few * 2,
                many => (many - 8) * 8,
            };
            tokio::time::sleep(Duration::from_millis(self.executor.kernel.ids.below(ceiling)))
                .await;
        }
        Ok(())
    }

    /// While this call waits, searches for transactions of dead servers, since after several
    /// conflicts the locks may belong to one of them. All calls of the server share one search,
    /// which remembers when it first saw each transaction.
    async fn clear_leftovers(&self) -> Infallible {
        let waited = self.begun.elapsed() > Duration::from_millis(LEFTOVER_CALL_MS);
        if self.conflicts == 0 || (self.conflicts < LEFTOVER_CONFLICTS && !waited) {
            return std::future::pending().await;
        }
        loop {
            if let Ok(mut leftovers) = self.executor.kernel.rw.leftovers.try_lock()
                && let Err(fault) = leftovers.look(&self.executor.kernel.rw).await
            {
                tracing::debug!(%fault, "cannot list the running transactions");
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
        // The record of a forgotten request has no hash, so that no guessed text can be tested
        // against the hash.
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
        let now = self.executor.kernel.clock.unix_ms();
        let keys = if part { self.part_keys() } else { self.replay.clone() };
        let mut response = envelope::of_change(change);
        if let Some(key) = &self.minted_key {
            response.insert("idempotency_key".into(), key.as_str().into());
        }
        let texts_since = oldest_text(&self.request.call, &response);
        Record {
            replay_key: keys.key,
            key: kept_key(&self.key),
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

/// Whether a call ends without a change for the first time at this revision; notes the revision.
fn is_first(ended_on: &mut Option<String>, core: &Core) -> bool {
    let is_first = ended_on.as_deref() != Some(core.rev.as_str());
    if is_first {
        *ended_on = Some(core.rev.clone());
    }
    is_first
}
