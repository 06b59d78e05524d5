//! Suites of contexts of stored conversations (LoCoMo, BEAM): how much of a question's evidence a
//! context has, beside a plain search whose results have as many tokens.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use super::arms::Arm;
use super::figures::{Figures, flag};
use super::suites::WINDOW;
use super::told::items;
use crate::eval::background;
use crate::eval::corpus::{Question, Talk};
use crate::eval::host::Host;
use crate::eval::measures::rendered_inside;
use crate::eval::progress::Progress;
use crate::eval::recall::{self, Setting, StoredTalk, side_by_side};
use crate::eval::{beam, locomo};
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

/// Stores the conversations of the suite with the given name.
pub(super) async fn hold(
    host: &Host,
    name: &str,
    directory: &Path,
) -> Result<Vec<Arc<StoredTalk>>, Failure> {
    let talks: Vec<Talk> = match name {
        "beam" => beam::read(directory)?,
        _ => locomo::read(directory)?,
    };
    let before = background::vectors_made(host).await;
    let setting = Setting { window: WINDOW, mode: None, is_shifted: false };
    let stored = recall::hold(host, &format!("context-{name}"), talks, &setting).await?;
    let texts = stored.iter().flat_map(|one| &one.talk.messages);
    let expected: usize = texts.map(|message| passages(&message.text).len()).sum();
    background::wait(host, before, expected as u64).await;
    Ok(stored.into_iter().map(Arc::new).collect())
}

/// Asks the questions of stored conversations.
pub(super) async fn run(
    name: &str,
    stored: &[Arc<StoredTalk>],
    most: usize,
) -> Result<Figures, Failure> {
    let suite = Arc::new(if name == "beam" { BEAM } else { LOCOMO });
    let steps = stored.iter().map(|one| suite.asked(&one.talk, most).count()).sum();
    let progress = Arc::new(Progress::new(&format!("context {name}, questions"), steps));
    let (of, closing) = (Arc::clone(&suite), Arc::clone(&progress));
    let work = move |stored: Arc<StoredTalk>| {
        let (suite, progress) = (Arc::clone(&of), Arc::clone(&progress));
        async move { asked(&stored, &suite, most, &progress).await }
    };
    let found = side_by_side(stored.to_vec(), work).await?;
    closing.close();
    let mut figures = Figures::new(suite.name, suite.what);
    for (measure, built, plain) in found.into_iter().flatten() {
        figures.note(&measure, built);
        figures.note_of(Some(Arm::Plain), &measure, plain);
    }
    Ok(figures)
}

impl EvidenceSuite {
    /// Returns the questions that are asked, each with the name of its measure.
    fn asked<'a>(
        &self,
        talk: &'a Talk,
        most: usize,
    ) -> impl Iterator<Item = (String, &'a Question)> {
        let measure = self.measure;
        let named = talk.questions.iter().filter_map(move |one| Some((measure(one)?, one)));
        named.take(most)
    }
}

/// Returns for each question its measure, and what a context and a plain search reached.
async fn asked(
    stored: &StoredTalk,
    suite: &EvidenceSuite,
    most: usize,
    progress: &Progress,
) -> Result<Vec<(String, f64, f64)>, Failure> {
    let mut all = Vec::new();
    for (measure, question) in suite.asked(&stored.talk, most) {
        let body = json!({"question": question.text, "tokens_max": suite.tokens_max});
        let shown = shown(&stored.caller.build_context(&body).await?, stored);
        let built = shown.intersection(&question.evidence).count();
        let ranking = recall::plain(stored, question).await?;
        let plain = rendered_inside(&question.evidence, &ranking, suite.tokens_max);
        let reached = |found: usize| match suite.all {
            true => flag(found == question.evidence.len()),
            false => found as f64 / question.evidence.len().max(1) as f64,
        };
        all.push((measure, reached(built), reached(plain)));
        progress.add(1);
    }
    Ok(all)
}

/// Returns the messages of the conversation of which a context shows something.
fn shown(told: &Value, stored: &StoredTalk) -> BTreeSet<usize> {
    let seqs = items(told).filter_map(|item| item["origin"]["seq"].as_u64());
    seqs.filter_map(|seq| stored.places.get(&seq).copied()).collect()
}
