//! Suites of contexts of stored conversations (LoCoMo, BEAM): how much of a question's evidence a
//! context has, beside a plain search whose results have as many tokens.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use super::background;
use super::contexts::{Figures, WINDOW};
use super::corpus::{Question, Talk};
use super::host::Host;
use super::measures::rendered_inside;
use super::progress::Progress;
use super::recall::{self, Setting, StoredTalk, side_by_side};
use super::{beam, locomo};
use vctx_cli::exit::Failure;
use vctx_core::search::passages;

/// Abilities of BEAM whose questions are asked.
const ABILITIES: [&str; 4] =
    ["event_ordering", "instruction_following", "multi_session_reasoning", "summarization"];

/// A set of conversations with questions.
pub(super) struct EvidenceSuite {
    name: &'static str,
    what: &'static str,
    /// Tokens of a context.
    tokens_max: u64,
    /// Returns the name of the measure to which a question counts; `None` if it is not asked.
    measure: fn(&Question) -> Option<String>,
    /// Whether a question counts only if all of its evidence is found.
    all: bool,
}

/// Questions with several messages as evidence.
const LOCOMO: EvidenceSuite = EvidenceSuite {
    name: "locomo",
    what: "questions with several messages as evidence: all of them in 2048 tokens",
    tokens_max: 2_048,
    measure: |question| {
        let is_asked = question.evidence.len() > 1 && question.group != locomo::ADVERSARIAL;
        is_asked.then(|| "several".to_owned())
    },
    all: true,
};

const BEAM: EvidenceSuite = EvidenceSuite {
    name: "beam",
    what: "share of the evidence in 4096 tokens",
    tokens_max: 4_096,
    measure: |question| {
        ABILITIES.contains(&question.group.as_str()).then(|| question.group.replace('_', " "))
    },
    all: false,
};

/// Asks the questions of the conversations in a directory that is named as the suite.
pub(super) async fn run(
    host: &Host,
    name: &str,
    directory: &Path,
    most: usize,
) -> Result<Figures, Failure> {
    let (suite, talks) = match name {
        "beam" => (BEAM, beam::read(directory)?),
        _ => (LOCOMO, locomo::read(directory)?),
    };
    let talks: Vec<Talk> = talks.into_iter().map(|talk| only(talk, &suite, most)).collect();
    let before = background::vectors_made(host).await;
    let setting = Setting { window: WINDOW, mode: None, is_shifted: false };
    let stored = recall::hold(host, &format!("context-{}", suite.name), talks, &setting).await?;
    let texts = stored.iter().flat_map(|one| &one.talk.messages);
    let expected: usize = texts.map(|message| passages(&message.text).len()).sum();
    background::wait(host, before, expected as u64).await;
    let steps = stored.iter().map(|one| one.talk.questions.len()).sum();
    let progress = Arc::new(Progress::new(&format!("context {}, questions", suite.name), steps));
    let closing = Arc::clone(&progress);
    let suite = Arc::new(suite);
    let of = Arc::clone(&suite);
    let work = move |stored: StoredTalk| {
        let (suite, progress) = (Arc::clone(&of), Arc::clone(&progress));
        async move { asked(&stored, &suite, &progress).await }
    };
    let found = side_by_side(stored, work).await?;
    closing.close();
    let mut figures = Figures::new(suite.name, suite.what);
    for (measure, built, plain) in found.into_iter().flatten() {
        figures.note(&measure, built);
        figures.note(&format!("{measure}, plain search"), plain);
    }
    Ok(figures)
}

fn only(mut talk: Talk, suite: &EvidenceSuite, most: usize) -> Talk {
    talk.questions.retain(|question| (suite.measure)(question).is_some());
    talk.questions.truncate(most);
    talk
}

/// Returns for each question its measure, and what a context and a plain search reached.
async fn asked(
    stored: &StoredTalk,
    suite: &EvidenceSuite,
    progress: &Progress,
) -> Result<Vec<(String, f64, f64)>, Failure> {
    let mut all = Vec::new();
    for question in &stored.talk.questions {
        let Some(measure) = (suite.measure)(question) else { continue };
        let body = json!({"question": question.text, "tokens_max": suite.tokens_max});
        let shown = shown(&stored.caller.build_context(&body).await?, stored);
        let built = shown.intersection(&question.evidence).count();
        let ranking = recall::plain(stored, question).await?;
        let plain = rendered_inside(&question.evidence, &ranking, suite.tokens_max);
        let reached = |found: usize| match suite.all {
            true => f64::from(u8::from(found == question.evidence.len())),
            false => found as f64 / question.evidence.len().max(1) as f64,
        };
        all.push((measure, reached(built), reached(plain)));
        progress.add(1);
    }
    Ok(all)
}

/// Returns the messages of the conversation of which a context shows something.
fn shown(told: &Value, stored: &StoredTalk) -> BTreeSet<usize> {
    let sections = told["sections"].as_array().into_iter().flatten();
    let items = sections.flat_map(|section| section["items"].as_array().into_iter().flatten());
    let seqs = items.filter_map(|item| item["origin"]["seq"].as_u64());
    seqs.filter_map(|seq| stored.places.get(&seq).copied()).collect()
}
