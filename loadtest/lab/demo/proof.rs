//! Compares all sent messages with all stored messages, page by page, after the conversation.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::Value;

use crate::demo::planted::{self, Fact, Recalled};
use crate::demo::play::{AGENT, Played, SentMessage};
use vctx_cli::context;
use vctx_cli::exit::Failure;
use vctx_cli::output::{self, field, number};
use vctx_cli::verify::{self, Verdict};
use vctx_cli::verify_signed::Trust;
use vctx_client::{Client, MESSAGES_PER_PAGE_MAX};
use vctx_core::memory::receipt_check::ReceiptCheck;

/// Counts of the comparison between sent and stored messages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Number of stored turns.
    pub stored: u64,
    /// Number of turns of the conversation that are still in the queue.
    pub kept: u64,
    /// Number of evicted turns, each stored in an eviction batch.
    pub evicted: u64,
    /// Number of messages that are not stored byte for byte, or are neither in the queue nor in an
    /// eviction batch.
    pub lost: u64,
    /// Number of messages that are stored more often than sent, or are both in the queue and in an
    /// eviction batch.
    pub doubled: u64,
    /// Number of messages whose sequence number is not above those of all messages sent earlier.
    pub out_of_order: u64,
    /// Number of messages whose stored digest or chain value differs from the receipt.
    pub receipts_broken: u64,
}

/// Results that the demo shows after the conversation.
#[derive(Debug)]
pub(super) struct Proof {
    pub counts: Counts,
    /// Evicted turns of each eviction batch, in order: batch id, first turn, last turn, number of
    /// turns, tokens.
    pub batches: Vec<Batch>,
    /// Number of flushes; the next field is the number of warnings. Both come from the agent's
    /// state.
    pub flushes: u64,
    pub warnings: u64,
    pub verdict: Verdict,
    pub context: Value,
    /// The planted facts of the shipped conversation; empty for any other conversation.
    pub facts: Vec<Fact>,
    /// Results of the searches for facts that left the window.
    pub recalled: Vec<Recalled>,
    /// Limits of window occupancy and summary size that the agent's final state breaks.
    pub broken_at_end: Vec<String>,
}

/// One eviction, reconstructed from the stored messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Batch {
    pub id: String,
    pub first: u64,
    pub last: u64,
    pub count: u64,
    pub tokens: u64,
}

impl Proof {
    /// Reasons why the demo failed; empty if the demo succeeded.
    pub(super) fn broken(&self, played: &Played) -> Vec<String> {
        let counts = &self.counts;
        let mut broken: Vec<String> = [
            (counts.lost, "lost"),
            (counts.doubled, "doubled"),
            (counts.out_of_order, "out of order"),
            (counts.receipts_broken, "that differ from their receipts"),
        ]
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} messages {what}"))
        .collect();
        if counts.kept + counts.evicted != played.sent.len() as u64 {
            broken.push(format!(
                "{} kept and {} evicted messages do not add up to the {} sent",
                counts.kept,
                counts.evicted,
                played.sent.len()
            ));
        }
        let gone = self.facts.iter().filter(|fact| !fact.is_stored).count();
        if gone > 0 {
            broken.push(format!("{gone} planted facts are not stored"));
        }
        for one in self.recalled.iter().filter(|one| !one.is_proven) {
            let what = if one.rank.is_some() { "with another text or receipt" } else { "not" };
            broken.push(format!("\"{}\" was {what} found by search_recall", one.question));
        }
        if !self.verdict.holds() {
            broken.push("verification failed".into());
        }
        broken.extend(played.score.broken.iter().chain(&self.broken_at_end).cloned());
        broken
    }
}

/// Reads all stored messages and compares them with the sent messages. If `is_shipped`, also looks
/// for the planted facts.
pub(super) async fn prove(
    client: &Client,
    played: &Played,
    is_shipped: bool,
) -> Result<Proof, Failure> {
    let rows = all_rows(client).await?;
    let state = client.state(AGENT).await?;
    let context = client.context(AGENT).await?;
    let mut check = ReceiptCheck::new(&context).map_err(Failure::data)?;
    let checked = verify::checked(client, AGENT, Some(&mut check), None, &Trust::default()).await?;
    let mut score = played.score.clone();
    score.broken.clear();
    score.take("at the end", &state);
    let facts = match is_shipped {
        true => planted::facts(&played.sent, &rows, &context)?,
        false => Vec::new(),
    };
    let recalled = planted::recall(client, &facts, &played.sent).await?;
    Ok(Proof {
        facts,
        recalled,
        counts: compare(&played.sent, &rows),
        batches: batches(&rows),
        flushes: number(&state, "/counters/flushes"),
        warnings: number(&state, "/counters/warnings"),
        verdict: Verdict {
            reports: vec![checked],
            proof: Some(check.finish()),
            signed: Value::Null,
            missing: Vec::new(),
            tombstones: Vec::new(),
            strays: Vec::new(),
            strays_more: false,
            away: Vec::new(),
            key: Value::Null,
        },
        context,
        broken_at_end: score.broken,
    })
}

async fn all_rows(client: &Client) -> Result<Vec<Value>, Failure> {
    let mut rows = Vec::new();
    let mut from = 1;
    loop {
        let (page, next) = client.messages(AGENT, from, MESSAGES_PER_PAGE_MAX).await?;
        rows.extend(page);
        match next {
            Some(next) => from = next,
            None => return Ok(rows),
        }
    }
}

/// Compares the sent turns with the stored turns. The receipt of a sent message contains the
/// sequence number of the stored message. The order check compares these sequence numbers only.
fn compare(sent: &[SentMessage], rows: &[Value]) -> Counts {
    let turns: Vec<&Value> = rows.iter().filter(|row| row["kind"] == "turn").collect();
    let mut counts = Counts { stored: turns.len() as u64, ..Counts::default() };
    let mut by_seq: HashMap<u64, Vec<&Value>> = HashMap::new();
    for row in &turns {
        by_seq.entry(number(row, "/seq")).or_default().push(row);
        match (row["in_queue"] == Value::Bool(true), row["evicted_batch_id"].is_string()) {
            (true, false) => counts.kept += 1,
            (false, true) => counts.evicted += 1,
            (true, true) => counts.doubled += 1,
            (false, false) => counts.lost += 1,
        }
    }
    let mut before = 0;
    for one in sent {
        if one.seq <= before {
            counts.out_of_order += 1;
        }
        before = before.max(one.seq);
        // Each stored row matches one sent message, so a second message with the same receipt finds
        // no row.
        match by_seq.get_mut(&one.seq).and_then(Vec::pop) {
            Some(row) if same(one, row) => {
                let receipt =
                    field(row, "/digest") == one.digest && field(row, "/chain") == one.chain;
                counts.receipts_broken += u64::from(!receipt);
            }
            _ => counts.lost += 1,
        }
    }
    counts.doubled += by_seq.values().map(|left| left.len() as u64).sum::<u64>();
    counts
}

fn same(sent: &SentMessage, row: &Value) -> bool {
    let meta = row.get("meta").unwrap_or(&Value::Null);
    row["role"] == sent.role.as_str()
        && row["content"] == sent.content.as_str()
        && sent.parts.iter().all(|(name, part)| meta.get(name) == Some(part))
}

fn batches(rows: &[Value]) -> Vec<Batch> {
    let mut batches: Vec<Batch> = Vec::new();
    for row in rows {
        let id = field(row, "/evicted_batch_id");
        if id.is_empty() {
            continue;
        }
        let (seq, tokens) = (number(row, "/seq"), number(row, "/token_estimate"));
        match batches.iter_mut().rev().find(|batch| batch.id == id) {
            Some(batch) => {
                batch.last = seq;
                batch.count += 1;
                batch.tokens += tokens;
            }
            None => batches.push(Batch { id, first: seq, last: seq, count: 1, tokens }),
        }
    }
    batches
}

/// Renders the demo's report for people: evictions, the last context window, a table of results.
pub(super) fn report_text(played: &Played, proof: &Proof, took: Duration) -> String {
    let mut parts = vec![
        format!("EVICTED\n{}", evicted(played, proof)),
        format!("THE WINDOW AT THE END\n{}", context::rendered(&proof.context)),
        format!("VERIFICATION\n{}", verify::verdict_text(&proof.verdict, None)),
        format!("FACTS PLANTED EARLY\n{}", facts(&proof.facts)),
        format!("ASKED AFTER THEY LEFT THE WINDOW (search_recall)\n{}", recalled(&proof.recalled)),
        format!("CONSERVATION\n{}", conservation(played, proof, took)),
    ];
    if proof.facts.is_empty() {
        parts.retain(|part| !part.starts_with("FACTS"));
    }
    if proof.recalled.is_empty() {
        parts.retain(|part| !part.starts_with("ASKED"));
    }
    parts.join("\n\n")
}

fn recalled(recalled: &[Recalled]) -> String {
    let rows: Vec<Vec<String>> = recalled
        .iter()
        .map(|one| {
            let place = one.rank.map_or("NOT FOUND".to_string(), |rank| format!("result {rank}"));
            let proof = if one.is_proven { "as sent" } else { "NOT PROVEN" };
            let digest = output::cell(&one.digest, 16);
            vec![
                one.question.clone(),
                one.answer.clone(),
                one.seq.to_string(),
                place,
                digest,
                proof.into(),
            ]
        })
        .collect();
    output::table(
        &["question", "answer", "seq", "found as", "receipt", "text and receipt"],
        &[2],
        &rows,
    )
}

fn facts(facts: &[Fact]) -> String {
    let rows: Vec<Vec<String>> = facts
        .iter()
        .map(|fact| {
            let stored = if fact.is_stored { "stored" } else { "LOST" };
            let window = if fact.is_in_window { "yes" } else { "no" };
            vec![
                fact.turn.to_string(),
                fact.question.clone(),
                fact.answer.clone(),
                stored.into(),
                window.into(),
            ]
        })
        .collect();
    output::table(&["turn", "question", "answer", "message", "in the window now"], &[0], &rows)
}

fn evicted(played: &Played, proof: &Proof) -> String {
    let rows: Vec<Vec<String>> = proof
        .batches
        .iter()
        .map(|batch| {
            let flush = played.flushes.iter().find(|flush| flush.batch == batch.id);
            let left = flush.map_or(String::new(), |flush| flush.after.to_string());
            let summary = flush.map_or(String::new(), |flush| flush.summary_tokens.to_string());
            let span = format!("{} to {}", batch.first, batch.last);
            vec![
                output::cell(&batch.id, 40),
                span,
                batch.count.to_string(),
                batch.tokens.to_string(),
                summary,
                left,
            ]
        })
        .collect();
    match rows.is_empty() {
        true => "nothing: the conversation fits the window".into(),
        false => output::table(
            &["batch", "messages", "count", "tokens", "summary", "left in window"],
            &[2, 3, 4, 5],
            &rows,
        ),
    }
}

fn conservation(played: &Played, proof: &Proof, took: Duration) -> String {
    let (counts, score, metrics) = (&proof.counts, &played.score, &played.metrics);
    let sent = played.sent.len() as u64;
    let must = |found: u64, wanted: bool| (found.to_string(), if wanted { "ok" } else { "BROKEN" });
    let plain = |found: u64| (found.to_string(), "");
    let share = metrics
        .typed_share()
        .map_or("unknown".to_string(), |share| format!("{:.1} %", share * 100.0));
    let summary_max = score.window * 15 / 100;
    let lines = [
        (
            "messages sent",
            plain(sent),
            format!("{} turns, {} of them in parts", played.turns, played.turns_split),
        ),
        ("kept in the queue", plain(counts.kept), String::new()),
        (
            "evicted",
            must(counts.evicted, counts.kept + counts.evicted == sent),
            format!("kept + evicted = {}", counts.kept + counts.evicted),
        ),
        ("lost", must(counts.lost, counts.lost == 0), "each compared byte for byte".into()),
        (
            "doubled",
            must(counts.doubled, counts.doubled == 0),
            format!(
                "{} retries, {} answered from the stored answer",
                played.retries, played.replayed
            ),
        ),
        ("out of order", must(counts.out_of_order, counts.out_of_order == 0), String::new()),
        (
            "receipts broken",
            must(counts.receipts_broken, counts.receipts_broken == 0),
            "digest and chain value of each answer".into(),
        ),
        (
            "occupancy, highest",
            must(score.occupancy_max, score.occupancy_max <= score.window),
            format!("window {}", score.window),
        ),
        (
            "summary, highest",
            must(score.summary_tokens_max, score.summary_tokens_max <= summary_max),
            format!("15 % are {summary_max}"),
        ),
        (
            "flushes",
            plain(proof.flushes),
            format!(
                "target {}; {} reported that the target was out of reach",
                score.target, score.short_of_target
            ),
        ),
        ("warnings", plain(proof.warnings), String::new()),
        ("limits broken", must(score.broken.len() as u64, score.broken.is_empty()), String::new()),
        (
            "kills with SIGKILL",
            plain(played.kills),
            format!("{} of them during a call", played.kills_in_flight),
        ),
        (
            "transactions committed",
            plain(metrics.committed),
            format!("{} aborted{}", metrics.aborted, missed(played)),
        ),
        (
            "database requests",
            plain(metrics.typed + metrics.raw),
            format!("{share} through arangors' typed calls"),
        ),
    ];
    let rows: Vec<Vec<String>> = lines
        .into_iter()
        .map(|(name, (found, verdict), note)| {
            vec![name.to_string(), found, verdict.to_string(), note]
        })
        .collect();
    let verdict = match proof.broken(played).is_empty() {
        true => "Nothing was lost, doubled or put out of order.",
        false => "THE PROOF FAILED.",
    };
    format!(
        "{}\n\n{verdict} {:.1} seconds.",
        output::table(&["", "", "", ""], &[1], &rows).trim_start(),
        took.as_secs_f64()
    )
}

/// Returns a sentence on the server processes that ended before the demo could read their metrics.
fn missed(played: &Played) -> String {
    match played.metrics_missed {
        0 => String::new(),
        missed => {
            format!("; not counted: {missed} server processes with unreadable metrics")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Map, json};

    fn sent(seq: u64, content: &str) -> SentMessage {
        SentMessage {
            turn: seq,
            role: "user".into(),
            content: content.into(),
            parts: Map::new(),
            seq,
            digest: format!("d{seq}"),
            chain: format!("c{seq}"),
        }
    }

    fn row(seq: u64, content: &str, batch: Option<&str>) -> Value {
        json!({"seq": seq, "kind": "turn", "role": "user", "content": content, "meta": {}, "token_estimate": 3, "in_queue": batch.is_none(),
            "evicted_batch_id": batch, "digest": format!("d{seq}"), "chain": format!("c{seq}")})
    }

    fn rows() -> Vec<Value> {
        vec![row(1, "a", Some("x")), row(2, "b", Some("x")), row(3, "a", None)]
    }

    fn counts(tamper: impl FnOnce(&mut Vec<SentMessage>, &mut Vec<Value>)) -> [u64; 6] {
        let (mut messages, mut stored) = (vec![sent(1, "a"), sent(2, "b"), sent(3, "a")], rows());
        tamper(&mut messages, &mut stored);
        let counts = compare(&messages, &stored);
        [
            counts.kept,
            counts.evicted,
            counts.lost,
            counts.doubled,
            counts.out_of_order,
            counts.receipts_broken,
        ]
    }

    #[test]
    fn the_comparison_sees_each_way_to_fail() {
        assert_eq!(counts(|_, _| {}), [1, 2, 0, 0, 0, 0]);
        assert_eq!(counts(|_, rows| drop(rows.remove(1))), [1, 1, 1, 0, 0, 0]);
        assert_eq!(counts(|_, rows| rows.push(row(4, "a", None))), [2, 2, 0, 1, 0, 0]);
        assert_eq!(counts(|_, rows| rows.push(rows[2].clone())), [2, 2, 0, 1, 0, 0]);
        assert_eq!(counts(|_, rows| rows[1]["content"] = json!("B")), [1, 2, 1, 0, 0, 0]);
        assert_eq!(counts(|_, rows| rows[1]["evicted_batch_id"] = Value::Null), [1, 1, 1, 0, 0, 0]);
        assert_eq!(counts(|_, rows| rows[1]["in_queue"] = json!(true)), [1, 1, 0, 1, 0, 0]);
        assert_eq!(counts(|_, rows| rows[1]["digest"] = json!("")), [1, 2, 0, 0, 0, 1]);
        assert_eq!(
            counts(|sent, _| sent[2].parts = Map::from_iter([("name".to_string(), json!("Ada"))])),
            [1, 2, 1, 0, 0, 0]
        );
        // Two messages are stored in the wrong order.
        assert_eq!(
            counts(|sent, rows| {
                (sent[0].seq, sent[1].seq) = (2, 1);
                (rows[0], rows[1]) = (row(1, "b", Some("x")), row(2, "a", Some("x")));
                (sent[0].digest, sent[1].digest) = ("d2".into(), "d1".into());
                (sent[0].chain, sent[1].chain) = ("c2".into(), "c1".into());
            }),
            [1, 2, 0, 0, 1, 0]
        );
        // If two sent messages have the same receipt, one of them is lost.
        assert_eq!(
            counts(|sent, rows| {
                sent[1] = sent[0].clone();
                rows.remove(1);
            }),
            [1, 1, 1, 0, 1, 0]
        );
    }

    #[test]
    fn batches_come_with_their_span() {
        let batch = Batch { id: "x".into(), first: 1, last: 2, count: 2, tokens: 6 };
        assert_eq!(batches(&rows()), [batch]);
    }
}
