//! Explains the life of one fact, from the messages that contain it to the prompts that showed it;
//! also explains the content of one prompt.

use serde_json::{Value, json};

use super::executor::Executor;
use super::kernel::patience;
use super::paged::paged;
use crate::limits::WHY_SCAN_ROWS;
use crate::store::{self, SaidRow};
use vctx_base::clock::iso8601;
use vctx_core::error::Result;
use vctx_core::limits::RECALL_LIMIT;
use vctx_core::memory::core::Core;
use vctx_core::memory::message::{Kind, Message};
use vctx_core::memory::prompt::Texts;
use vctx_core::proof::{Fact, Lives, PackWithFact, Says, Span, pack_with_fact, presence_ranges};
use vctx_core::search::RecallFilter;
use vctx_core::tools::Tool;
use vctx_core::trust::{Principal, Scope, TaintReport, admit};
use vctx_core::window::Section;

/// Number of core versions in one database request, and maximum number of such requests for one
/// answer.
const WHY_TEXTS: (u64, u64) = (200, 50);
/// Number of core versions in the first step of one such request.
const WHY_STEP: u64 = 8;
/// Maximum number of prompts that are examined for one answer; the next answer begins at
/// `next_turn`.
const WHY_PROMPTS_MAX: u64 = 20_000;
/// Maximum number of turn ranges in one answer.
const WHY_RANGES_MAX: usize = 200;

/// Maximum number of nearest messages that an answer shows if no message contains the fact.
const WHY_NEAREST_MAX: usize = 5;
/// Number of characters that the note of an answer shows of each nearest message.
const WHY_NOTE_CHARS: usize = 60;

/// A message that may contain the fact.
struct FactMessage {
    row: SaidRow,
    says: Option<Says>,
    /// Rank of the message in a recall search for the fact, from 1.
    rank: Option<usize>,
}

impl Executor {
    /// Returns where a fact came from, which prompts showed it, and how it can return to the
    /// window.
    pub async fn why(
        &self,
        principal: &Principal,
        agent: &str,
        text: &str,
        from_turn: u64,
    ) -> Result<Value> {
        let scope = admit(principal, agent)?;
        let fact = Fact::parse(text)?;
        let (core, _) = self.kernel.fresh(&scope, &[], patience()).await?;
        let (said, nearest) = self.messages_with(&scope, &core, &fact).await?;
        let (spans, texts_whole) = self.lives(&scope, &fact).await?;
        let mut marks =
            self.kernel.read(|ro| store::marks(ro, &scope, from_turn, WHY_PROMPTS_MAX + 1)).await?;
        let mut next_turn = None;
        if marks.len() as u64 > WHY_PROMPTS_MAX {
            next_turn = marks.pop().map(|mark| mark.turn);
        }
        let messages: Vec<Message> = said.iter().map(|one| one.row.message.clone()).collect();
        let packs = self.packs_with(&scope, &fact, &messages).await?;
        let mut ranges = presence_ranges(&marks, &messages, &spans, &packs);
        if ranges.len() > WHY_RANGES_MAX {
            next_turn = Some(ranges[WHY_RANGES_MAX].turns.0);
            ranges.truncate(WHY_RANGES_MAX);
        }
        let shown: Vec<Value> = said.iter().map(|one| self.entry_of(one, &core, &fact)).collect();
        let nearest: Vec<Value> =
            nearest.iter().map(|one| self.entry_of(one, &core, &fact)).collect();
        let is_said = said.iter().any(|one| one.says.is_some());
        let scanned = core.queue.next_seq.saturating_sub(1).min(WHY_SCAN_ROWS);
        let mut answer = json!({"agent": scope.agent(), "text": text, "words": fact.words(), "said": shown,
            "searched": {"newest_messages": scanned, "of": core.queue.next_seq - 1},
            "texts": spans, "texts_whole": texts_whole, "prompts": {"held": ranges, "from_turn": from_turn,
                "next_turn": next_turn, "turns": core.turns},
            "back": self.back(&scope, &core, &fact, &said).await?});
        if !is_said {
            answer["note"] = note_of(&nearest).into();
            answer["nearest"] = nearest.into();
        }
        Ok(answer)
    }

    /// Returns the messages that contain the fact: exact matches first, and among equals the oldest
    /// first. If no message contains the fact, also returns the best results of a search for it.
    async fn messages_with(
        &self,
        scope: &Scope,
        core: &Core,
        fact: &Fact,
    ) -> Result<(Vec<FactMessage>, Vec<FactMessage>)> {
        let now_ms = self.kernel.clock.unix_ms();
        let found = self.recall(scope, core.outbound(), fact.query.clone(), 0..0, now_ms).await?;
        let ids: Vec<String> = found.hits.iter().map(|hit| hit.id.clone()).collect();
        let before = core.queue.next_seq;
        let rows = self
            .kernel
            .patiently(|| {
                store::says(&self.kernel.ro, scope, fact.plain(), fact.words(), &ids, before)
            })
            .await?;
        let (mut all, mut nearest): (Vec<FactMessage>, Vec<FactMessage>) = Default::default();
        for row in rows.said.into_iter().chain(rows.found) {
            let says = fact.said_in(&row.message.content);
            let known = all.iter().any(|one| one.row.message.key == row.message.key);
            if known {
                continue;
            }
            let rank = ids.iter().position(|id| *id == row.message.key).map(|at| at + 1);
            let is_near = says.is_none() && row.message.expired_at.is_none();
            let list = if is_near { &mut nearest } else { &mut all };
            list.push(FactMessage { row, says, rank });
        }
        all.sort_by_key(|one| (one.says.is_none(), one.says, one.row.message.seq));
        if all.iter().any(|one| one.says.is_some()) {
            nearest.clear();
        }
        nearest.retain(|one| one.rank.is_some());
        nearest.sort_by_key(|one| one.rank);
        nearest.truncate(WHY_NEAREST_MAX);
        Ok((all, nearest))
    }

    /// Returns a message with the fact, as JSON that says whether it was evicted, copied or
    /// removed. An explanation replaces the text of a message in quarantine.
    fn entry_of(&self, one: &FactMessage, core: &Core, fact: &Fact) -> Value {
        let message = &one.row.message;
        let left = one.row.logged_ms.map(|at| {
            json!({"batch": one.row.batch, "at": iso8601(at), "summary_rev": one.row.summary_rev,
                "directly": one.row.batch.is_none()})
        });
        let stands = message.kind.queued() && message.seq >= core.queue.head_seq;
        let mut entry = json!({"seq": message.seq, "id": message.key, "kind": message.kind,
            "role": message.role, "created_at": message.created_at, "says": one.says,
            "text": fact.excerpt(&message.content), "copy_of": message.copy_of,
            "in_window": stands, "left": left, "rank": one.rank, "expired_at": message.expired_at});
        let TaintReport { rules, held } = self.taint.untrusted(core, message);
        if let Some(told) = held {
            entry["text"] = told.into();
            entry["tainted"] = json!(rules);
            entry["quarantined"] = true.into();
        }
        entry
    }

    /// Returns the context packs that show the fact.
    async fn packs_with(
        &self,
        scope: &Scope,
        fact: &Fact,
        said: &[Message],
    ) -> Result<Vec<PackWithFact>> {
        let seqs: Vec<u64> = said.iter().map(|message| message.seq).collect();
        let (text, words) = (fact.plain(), fact.words());
        let read = |ro| store::packs_about(ro, scope, &seqs, text, words);
        let loaded = self.kernel.read(read).await?;
        let shows = |pack| pack_with_fact(fact, pack, &loaded.said);
        Ok(loaded.packs.iter().filter_map(shows).collect())
    }

    /// Returns the periods in which texts of the core contained the fact; the boolean is `false` if
    /// not all versions were examined.
    async fn lives(&self, scope: &Scope, fact: &Fact) -> Result<(Vec<Span>, bool)> {
        let (rows, pages) = WHY_TEXTS;
        let (mut lives, mut from) = (Lives::default(), 1);
        for _ in 0..pages {
            let read =
                |from, count| self.kernel.read(move |ro| store::texts(ro, scope, from, count));
            let page = paged(from, rows, WHY_STEP, length_of, read).await?;
            page.rows.iter().for_each(|texts| lives.take(fact, texts));
            match page.next {
                Some(next) => from = next,
                None => return Ok((lives.spans(), true)),
            }
        }
        Ok((lives.spans(), false))
    }

    /// Returns how the fact can return to the window: the window already contains the fact, a
    /// tested search finds it, or no search finds it.
    async fn back(
        &self,
        scope: &Scope,
        core: &Core,
        fact: &Fact,
        said: &[FactMessage],
    ) -> Result<Value> {
        let stands = |m: &Message| m.kind.queued() && m.seq >= core.queue.head_seq;
        let whole = |one: &&FactMessage| one.says.is_some();
        if let Some(one) = said.iter().filter(whole).find(|one| stands(&one.row.message)) {
            return Ok(json!({"in_window": true, "seq": one.row.message.seq}));
        }
        if let Some(block) = core.working_blocks.iter().find(|b| fact.said_in(&b.content).is_some())
        {
            return Ok(json!({"in_window": true, "block_id": block.id}));
        }
        let Some(best) = said.iter().filter(whole).find(|one| one.row.message.kind != Kind::Copy)
        else {
            let expired = said.iter().any(|one| one.row.message.expired_at.is_some());
            let why =
                if expired { "its text was removed by retention" } else { "no message says it" };
            return Ok(json!({"in_window": false, "call": null, "why": why}));
        };
        let (_, most) = RECALL_LIMIT;
        let mut arguments = json!({"query": fact.query.words});
        let mut rank = best.rank;
        if rank.is_none_or(|rank| rank as u64 > most) {
            // Other messages match better, so the search is restricted to this message's role and
            // time.
            let message = &best.row.message;
            let mut query = fact.query.clone();
            query.filter = RecallFilter {
                role: Some(message.role.text().to_owned()),
                after: Some(message.created_at.clone()),
                ..RecallFilter::default()
            };
            let now_ms = self.kernel.clock.unix_ms();
            let found = self.recall(scope, core.outbound(), query, 0..0, now_ms).await?;
            rank = found.hits.iter().position(|hit| hit.id == message.key).map(|at| at + 1);
            arguments["role"] = message.role.text().into();
            arguments["after"] = message.created_at.as_str().into();
        }
        let Some(rank) = rank.filter(|rank| *rank as u64 <= most) else {
            let seq = best.row.message.seq;
            let call = json!({"tool": Tool::TraceMemory.spec().name, "arguments": {"from": seq.to_string()}});
            return Ok(json!({"in_window": false, "call": call, "seq": seq,
                "command": command(scope, &call), "why": "no search finds the fact among its first results: this shows the message without bringing it back"}));
        };
        arguments["limit"] = (rank as u64).max(1).into();
        let call = json!({"tool": Tool::SearchRecall.spec().name, "arguments": arguments});
        Ok(json!({"in_window": false, "call": call, "rank": rank, "seq": best.row.message.seq,
            "command": command(scope, &call)}))
    }

    /// Explains one prompt: the content of each section, the messages outside the window, and what
    /// changed since the previous prompt.
    pub async fn why_prompt(&self, principal: &Principal, agent: &str, turn: u64) -> Result<Value> {
        let scope = admit(principal, agent)?;
        let (prompt, found) = self.replayed(&scope, turn).await?;
        let (head, next) = (prompt.window.head_seq, prompt.window.next_seq);
        let outside = self.kernel.read(|ro| store::outside(ro, &scope, head, next)).await?;
        let before = match turn.checked_sub(1).filter(|turn| *turn > 0) {
            Some(earlier) => {
                let rows = self.kernel.read(|ro| store::marks(ro, &scope, earlier, 1)).await?;
                rows.into_iter().next()
            }
            None => None,
        };
        let since = before.filter(|before| before.turn < turn).map(|before| {
            json!({"turn": before.turn, "came_in": [before.next_seq, next], "left": [before.head_seq, head],
                "versions": [before.version, prompt.window.version]})
        });
        let mut sections: Vec<Value> = Vec::new();
        for item in found.window.manifest["items"].as_array().into_iter().flatten() {
            let told = json!({"id": item["id"], "seq": item["seq"], "role": item["role"], "tokens": item["tokens"], "why": item["why"]});
            let tokens = item["tokens"].as_u64().unwrap_or(0);
            match sections.iter_mut().find(|section| section["section"] == item["section"]) {
                Some(section) => {
                    section["tokens"] = (section["tokens"].as_u64().unwrap_or(0) + tokens).into();
                    if let Some(items) = section["items"].as_array_mut() {
                        items.push(told);
                    }
                }
                None => sections
                    .push(json!({"section": item["section"], "tokens": tokens, "items": [told]})),
            }
        }
        let window = found.window.tokens;
        let offered = (prompt.window.token_estimate + window[Section::Tools])
            .saturating_sub(window.occupancy);
        if offered > 0 {
            sections.push(json!({"section": Section::Tools.name(), "tokens": offered, "items": [
                {"id": prompt.sent.tools, "tokens": offered, "why": "offered to the model"}]}));
        }
        let entries: Vec<Value> = outside["entries"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|entry| {
                let mut entry = entry.clone();
                entry["why"] = if entry["kind"] == "spool" {
                    "did not fit: the whole text is in recall storage, only its beginning was shown"
                        .into()
                } else {
                    "written to recall storage without entering the window".into()
                };
                entry
            })
            .collect();
        let evicted = match &outside["last"] {
            Value::Null => Value::Null,
            last => {
                // Exports of earlier releases are tested to give the same answers: keep the text.
                json!({"through_seq": head - 1, "last_seq": last["seq"], "batch": last["batch"],
                "at": last["logged_ms"].as_u64().map(iso8601), "summary_rev": last["summary_rev"],
                "occupancy_before": outside["flush"]["details"]["before_occupancy"],
                "target": outside["flush"]["details"]["target"],
                "why": "the oldest messages left when the window would have reached its flush threshold, or was told to"})
            }
        };
        let mut told = json!({"agent": scope.agent(), "turn": turn, "exact": found.is_exact(), "gone": found.gone, "differs": found.differs,
            "model": prompt.sent.model, "token_estimate": prompt.window.token_estimate, "policy": prompt.window.policy,
            "usage": prompt.end.as_ref().and_then(|end| end.usage), "factor_permille": prompt.factor_permille,
            "sections": sections, "outside": {"evicted": evicted, "entries": entries}, "since": since,
            "created_at": prompt.created_at, "end": prompt.end});
        if let Some(content) = &found.context {
            let items = content.items.iter().zip(&found.context_texts).map(|(item, text)| {
                let mut told = json!(item);
                told["text"] = json!(text);
                told
            });
            let items: Vec<Value> = items.collect();
            told["context"] = json!({"pack": prompt.window.pack, "question_seq": content.question_seq,
                "tokens": content.tokens, "items": items, "left_out": content.left_out});
        }
        Ok(told)
    }
}

/// Returns the number of a version, and the length of its texts in bytes.
fn length_of(texts: &Texts) -> (u64, usize) {
    let blocks: usize = texts.working_blocks.iter().map(|block| block.content.len()).sum();
    let summary = texts.queue_head_summary["content"].as_str().map_or(0, str::len);
    (texts.version, blocks + texts.system.content.len() + summary)
}

/// Returns a tool call as a shell command.
fn command(scope: &Scope, call: &Value) -> String {
    let quoted = call["arguments"].to_string().replace('\'', "'\\''");
    let tool = call["tool"].as_str().unwrap_or_default();
    format!("vctx tool {tool} --agent {} --args '{quoted}'", scope.agent())
}

/// Returns the sentence that says that no message contains the fact, with the nearest messages.
fn note_of(nearest: &[Value]) -> String {
    let none = "no message holds all of these words";
    let line = |one: &Value| {
        let text = |name: &str| one[name].as_str().unwrap_or_default().to_owned();
        let beginning: String = text("text").chars().take(WHY_NOTE_CHARS).collect();
        let day: String = text("created_at").chars().take_while(|c| *c != 'T').collect();
        format!("#{} {day} {beginning}", one["seq"])
    };
    match nearest.iter().map(line).collect::<Vec<String>>() {
        lines if lines.is_empty() => none.to_owned(),
        lines => format!("{none}; nearest: {}", lines.join("; ")),
    }
}
