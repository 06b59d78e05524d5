//! Suites of contexts from given documents: paragraphs (XQuAD), meetings (QMSum), and documents
//! with noise (RAMDocs).

use std::ops::Range;
use std::path::Path;

use serde_json::{Value, json};

use super::arms::{Arms, Pool};
use super::figures::{Figures, flag};
use super::order::{best_first, packed, windowed};
use super::suites::WINDOW;
use super::told::{areas, candidates, field, spans, text};
use crate::eval::caller::Caller;
use crate::eval::corpus;
use crate::eval::host::Host;
use crate::eval::progress::Progress;
use vctx_cli::exit::Failure;
use vctx_core::memory::{Encoding, TokenCounter as _};
use vctx_core::text::Tiktoken;

/// Shares of a paragraph that the context may take.
const PARAGRAPH_SHARES: [(&str, f64); 2] = [("42 %", 0.42), ("31 %", 0.31)];
/// Sizes of contexts of a meeting, in tokens.
const MEETING_TOKENS: [(&str, u64); 3] = [("1024", 1_024), ("2048", 2_048), ("4096", 4_096)];
/// Number of turns on each side of a turn whose scores count in the score of the turn, for the
/// usual methods.
const TURNS_AROUND: usize = 5;
/// Share of the good documents that stay if irrelevant ones are dropped by their grades.
const KEPT_SHARE: f64 = 0.95;
/// Tokens that suffice for all documents of a question.
const ALL_TOKENS: u64 = 60_000;

/// Paragraphs with questions (XQuAD): whether the context has the answer.
pub(super) async fn paragraphs(
    host: &Host,
    path: &Path,
    arms: &Arms,
    most: usize,
) -> Result<Figures, Failure> {
    let mut figures = Figures::new("xquad", "the answer is in the context");
    let counter = Tiktoken::new(Encoding::default());
    let caller = Caller::create(host.client(), host.agent("context-xquad"), WINDOW).await?;
    let rows = corpus::lines(path)?;
    let progress = Progress::new("context xquad", rows.len());
    for row in rows {
        let whole = field(&row, "context");
        let tokens = counter.count(whole) as f64;
        let asked: Vec<&Value> =
            row["questions"].as_array().into_iter().flatten().take(most).collect();
        let sizes = PARAGRAPH_SHARES.map(|(name, share)| (name, (tokens * share) as u64));
        for asked in &asked {
            for (name, tokens_max) in sizes {
                let body = json!({"question": asked["question"], "documents": [{"text": whole}],
                    "tokens_max": tokens_max});
                let told = caller.build_context(&body).await?;
                figures.note(name, flag(has_answer(text(&told), asked)));
            }
        }
        if !arms.own().is_empty() {
            let units: Vec<String> = sentences(whole).map(str::to_owned).collect();
            let costs: Vec<u64> = units.iter().map(|unit| counter.count(unit)).collect();
            let questions = asked.iter().map(|one| field(one, "question").to_owned()).collect();
            let pool = Pool::of(arms, &units, questions).await?;
            for arm in arms.own() {
                for (at, asked) in asked.iter().enumerate() {
                    let order = best_first(&pool.scores(arm, at));
                    for (name, tokens_max) in sizes {
                        let taken = packed(&order, &costs, tokens_max);
                        let shown: String = taken.iter().map(|at| units[*at].as_str()).collect();
                        figures.note_of(Some(arm), name, flag(has_answer(&shown, asked)));
                    }
                }
            }
        }
        progress.add(1);
    }
    progress.close();
    Ok(figures)
}

fn has_answer(shown: &str, asked: &Value) -> bool {
    shown.contains(asked["answer"].as_str().unwrap_or("\0"))
}

/// Splits a text after each end of a sentence that a blank follows. The parts together are the
/// text.
fn sentences(text: &str) -> impl Iterator<Item = &str> {
    let mut ended = false;
    text.split_inclusive(move |c: char| {
        let is_end = ended && c.is_whitespace();
        ended = matches!(c, '.' | '?' | '!') || (ended && matches!(c, '"' | ')' | '”'));
        is_end
    })
}

/// A meeting: its text, and the part and cost of each turn.
struct Meeting {
    text: String,
    turns: Vec<Range<usize>>,
    costs: Vec<u64>,
}

impl Meeting {
    fn of(row: &Value, counter: &Tiktoken) -> Meeting {
        let (mut text, mut turns): (String, Vec<Range<usize>>) = (String::new(), Vec::new());
        for turn in row["meeting_transcripts"].as_array().into_iter().flatten() {
            let begin = text.len();
            let word = |name: &str| field(turn, name).replace('\n', " ");
            text.push_str(&format!("{}: {}\n", word("speaker"), word("content")));
            turns.push(begin..text.trim_end().len());
        }
        let costs = turns.iter().map(|turn| counter.count(&text[turn.clone()])).collect();
        Meeting { text, turns, costs }
    }

    /// Returns the tokens of a turn that the spans have.
    fn shown(&self, at: usize, spans: &[Range<usize>], counter: &Tiktoken) -> u64 {
        let turn = &self.turns[at];
        let parts = spans.iter().map(|span| turn.start.max(span.start)..turn.end.min(span.end));
        let parts = parts.filter(|part| part.start < part.end);
        parts.map(|part| counter.count(&self.text[part])).sum::<u64>().min(self.costs[at])
    }

    /// Returns the share of the tokens of the relevant turns that are shown, by the shown tokens of
    /// each turn.
    fn share(&self, gold: &[usize], shown: impl Fn(usize) -> u64) -> f64 {
        let all: u64 = gold.iter().map(|at| self.costs[*at]).sum();
        gold.iter().map(|at| shown(*at)).sum::<u64>() as f64 / all.max(1) as f64
    }
}

/// Meetings with questions (QMSum): the share of the tokens of the relevant turns that the context
/// has. The usual methods take turns by the mean score of the turns around them.
pub(super) async fn meetings(
    host: &Host,
    path: &Path,
    arms: &Arms,
    most: usize,
) -> Result<Figures, Failure> {
    let mut figures = Figures::new("qmsum", "tokens of the relevant turns in the context");
    let counter = Tiktoken::new(Encoding::default());
    let caller = Caller::create(host.client(), host.agent("context-qmsum"), WINDOW).await?;
    let rows = corpus::lines(path)?;
    let progress = Progress::new("context qmsum", rows.len());
    for row in rows {
        let meeting = Meeting::of(&row, &counter);
        let asked: Vec<&Value> =
            row["specific_query_list"].as_array().into_iter().flatten().take(most).collect();
        let gold: Vec<Vec<usize>> = asked
            .iter()
            .map(|one| relevant(&one["relevant_text_span"], meeting.turns.len()))
            .collect();
        for (asked, gold) in asked.iter().zip(&gold) {
            for (name, tokens_max) in MEETING_TOKENS {
                let body = json!({"question": asked["query"],
                    "documents": [{"text": meeting.text}], "tokens_max": tokens_max});
                let spans = spans(&caller.build_context(&body).await?);
                figures.note(name, meeting.share(gold, |at| meeting.shown(at, &spans, &counter)));
            }
        }
        if !arms.own().is_empty() {
            let turns: Vec<String> =
                meeting.turns.iter().map(|turn| meeting.text[turn.clone()].to_owned()).collect();
            let questions = asked.iter().map(|one| field(one, "query").to_owned()).collect();
            let pool = Pool::of(arms, &turns, questions).await?;
            for arm in arms.own() {
                for (at, gold) in gold.iter().enumerate() {
                    let order = best_first(&windowed(&pool.scores(arm, at), TURNS_AROUND));
                    for (name, tokens_max) in MEETING_TOKENS {
                        let taken = packed(&order, &meeting.costs, tokens_max);
                        let cost = |at: usize| match taken.binary_search(&at) {
                            Ok(_) => meeting.costs[at],
                            Err(_) => 0,
                        };
                        let share = meeting.share(gold, cost);
                        figures.note_of(Some(arm), name, share);
                    }
                }
            }
        }
        progress.add(1);
    }
    progress.close();
    Ok(figures)
}

/// Returns the indexes of the turns in a question's spans.
fn relevant(spans: &Value, turns: usize) -> Vec<usize> {
    let number = |value: &Value| value.as_str().and_then(|text| text.parse::<usize>().ok());
    let mut found: Vec<usize> = Vec::new();
    for span in spans.as_array().into_iter().flatten() {
        if let (Some(from), Some(to)) = (number(&span[0]), number(&span[1])) {
            found.extend(from..(to + 1).min(turns));
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Questions with good and irrelevant documents (RAMDocs): how often a good document has a better
/// grade or score than an irrelevant one.
pub(super) async fn noise(
    host: &Host,
    path: &Path,
    arms: &Arms,
    most: usize,
) -> Result<Figures, Failure> {
    let mut figures = Figures::new("ramdocs", "a good document has a better grade than noise");
    let caller = Caller::create(host.client(), host.agent("context-ramdocs"), WINDOW).await?;
    let rows = corpus::lines(path)?;
    let mut graded = vec![(None, Vec::new(), Vec::new())];
    graded.extend(arms.own().into_iter().map(|arm| (Some(arm), Vec::new(), Vec::new())));
    let progress = Progress::new("context ramdocs", rows.len().min(most));
    for row in rows.iter().take(most) {
        let given = row["documents"].as_array().cloned().unwrap_or_default();
        let named = given.iter().enumerate();
        let documents: Vec<Value> =
            named.map(|(at, one)| json!({"id": at.to_string(), "text": one["text"]})).collect();
        let body = json!({"question": row["question"], "documents": documents,
            "tokens_max": ALL_TOKENS, "explain": true});
        let told = caller.build_context(&body).await?;
        let grades = candidates(&told).filter_map(|item| {
            let number = item["origin"]["id"].as_str().and_then(|id| id.parse::<usize>().ok())?;
            Some((number, item["grade"].as_f64()?))
        });
        let built: Vec<(usize, f64)> = grades.collect();
        let mut pool = None;
        if graded.len() > 1 {
            let texts: Vec<String> =
                given.iter().map(|one| field(one, "text").to_owned()).collect();
            let question = field(row, "question").to_owned();
            pool = Some(Pool::of(arms, &texts, vec![question]).await?);
        }
        for (arm, good, bad) in &mut graded {
            let scores = match (*arm, &pool) {
                (Some(arm), Some(pool)) => pool.scores(arm, 0).into_iter().enumerate().collect(),
                _ => built.clone(),
            };
            for (number, grade) in scores {
                let is_noise = given.get(number).is_some_and(|one| one["type"] == "noise");
                if is_noise { &mut *bad } else { &mut *good }.push(grade);
            }
        }
        progress.add(1);
    }
    progress.close();
    for (arm, good, bad) in &graded {
        for area in areas(good, bad) {
            figures.note_of(*arm, "AUC", area);
        }
        let least = kept_from(good);
        for grade in bad {
            figures.note_of(*arm, "noise dropped, 95 % of the others kept", flag(*grade < least));
        }
    }
    Ok(figures)
}

/// Returns the grade from which [`KEPT_SHARE`] of the documents stay.
fn kept_from(grades: &[f64]) -> f64 {
    let mut sorted = grades.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = ((1.0 - KEPT_SHARE) * sorted.len() as f64) as usize;
    sorted.get(at).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_end_before_a_blank_and_lose_nothing() {
        let text = "It costs 3.5 euros. Does it? (Yes.) \"No!\" he said";
        let parts: Vec<&str> = sentences(text).collect();
        assert_eq!(parts, ["It costs 3.5 euros. ", "Does it? ", "(Yes.) ", "\"No!\" ", "he said"]);
        assert_eq!(parts.concat(), text);
    }

    #[test]
    fn nearly_all_good_documents_stay() {
        let grades: Vec<f64> = (0..40).rev().map(f64::from).collect();
        assert_eq!(kept_from(&grades), 2.0);
        assert_eq!(kept_from(&[]), 0.0);
    }

    #[test]
    fn turns_of_spans_are_counted_once_and_within_the_meeting() {
        let spans = json!([["1", "2"], ["2", "9"], ["x", "1"]]);
        assert_eq!(relevant(&spans, 4), [1, 2, 3]);
        let row = json!({"meeting_transcripts": [{"speaker": "A", "content": "one\ntwo"},
            {"speaker": "B", "content": "three"}]});
        let meeting = Meeting::of(&row, &Tiktoken::new(Encoding::default()));
        assert_eq!(meeting.text, "A: one two\nB: three\n");
        let counter = Tiktoken::new(Encoding::default());
        let share = |spans: Vec<(usize, usize)>| {
            let spans: Vec<Range<usize>> = spans.into_iter().map(|(from, to)| from..to).collect();
            meeting.share(&[0, 1], |at| meeting.shown(at, &spans, &counter))
        };
        let whole = (share(vec![(0, 19)]), share(vec![(0, 10), (10, 19)]));
        assert_eq!((whole, share(vec![])), ((1.0, 1.0), 0.0));
        let (more, less) = (share(vec![(0, 10)]), share(vec![(0, 6)]));
        assert!(more > 0.4 && less < more, "{more} {less}");
        assert_eq!(meeting.share(&[], |_| 1), 0.0);
    }
}
