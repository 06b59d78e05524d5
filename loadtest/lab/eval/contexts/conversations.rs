//! Suites of contexts of stored conversations with answers as texts (BFCL memory). All messages
//! have left the window: whether a context has the answer, and how small a context may be.

use std::path::Path;

use serde_json::{Value, json};

use super::arms::{Arms, Pool};
use super::figures::{Figures, flag};
use super::order::{best_first, packed};
use super::suites::WINDOW;
use super::told::{field, text};
use crate::eval::caller::Caller;
use crate::eval::corpus;
use crate::eval::host::Host;
use crate::eval::progress::Progress;
use vctx_cli::exit::Failure;
use vctx_core::memory::{Encoding, TokenCounter as _};
use vctx_core::search::passages;
use vctx_core::text::Tiktoken;

/// Sizes of contexts that are compared with the usual methods, in tokens.
const SIZES: [(&str, u64); 2] = [("256", 256), ("512", 512)];
/// Sizes among which the smallest is looked for that holds [`EVIDENCE_SHARE`] of the answers.
const GROWING_SIZES: [u64; 5] = [256, 512, 1_024, 2_048, 4_096];
/// Share of the answers in the whole conversations that a small context must hold.
const EVIDENCE_SHARE: f64 = 0.95;

/// A conversation that an agent has stored, and its questions.
pub(super) struct HeldTalk {
    pub(super) caller: Caller,
    /// The texts of all messages.
    pub(super) texts: Vec<String>,
    pub(super) questions: Vec<HeldQuestion>,
}

/// A question, and what a context with the answer holds.
pub(super) struct HeldQuestion {
    pub(super) text: String,
    pub(super) holds: Box<dyn Fn(&str) -> bool + Send + Sync>,
}

/// BFCL memory: whether the answer is in contexts of fixed sizes, and the size of the contexts that
/// hold nearly all answers.
pub(super) async fn run(
    host: &Host,
    path: &Path,
    arms: &Arms,
    most: usize,
) -> Result<Vec<Figures>, Failure> {
    let mut figures = Figures::new("bfcl memory", "the answer is in the context");
    let talks = hold(host, path, most).await?;
    let counter = Tiktoken::new(Encoding::default());
    let steps = talks.iter().map(|talk| talk.questions.len()).sum();
    let progress = Progress::new("context bfcl memory", steps);
    for talk in &talks {
        for asked in &talk.questions {
            for (size, tokens_max) in SIZES {
                let told = build(talk, asked, tokens_max).await?;
                figures.note(size, flag((asked.holds)(text(&told))));
            }
            progress.add(1);
        }
        if arms.own().is_empty() {
            continue;
        }
        let parts =
            talk.texts.iter().flat_map(|text| passages(text).into_iter().map(|part| &text[part]));
        let parts: Vec<String> = parts.map(str::to_owned).collect();
        let costs: Vec<u64> = parts.iter().map(|part| counter.count(part)).collect();
        let questions = talk.questions.iter().map(|asked| asked.text.clone()).collect();
        let pool = Pool::of(arms, &parts, questions).await?;
        for arm in arms.own() {
            for (at, asked) in talk.questions.iter().enumerate() {
                let order = best_first(&pool.scores(arm, at));
                for (size, tokens_max) in SIZES {
                    let taken = packed(&order, &costs, tokens_max);
                    let shown: Vec<&str> = taken.iter().map(|at| parts[*at].as_str()).collect();
                    figures.note_of(Some(arm), size, flag((asked.holds)(&shown.join("\n"))));
                }
            }
        }
    }
    progress.close();
    Ok(vec![figures, smallest("bfcl memory", &talks).await?])
}

async fn build(talk: &HeldTalk, asked: &HeldQuestion, tokens_max: u64) -> Result<Value, Failure> {
    talk.caller.build_context(&json!({"question": asked.text, "tokens_max": tokens_max})).await
}

/// Looks for the smallest size of contexts that hold nearly all answers of the conversations. The
/// figures are the tokens of these contexts as shares of the conversations; without values if no
/// size holds enough.
pub(super) async fn smallest(suite: &'static str, talks: &[HeldTalk]) -> Result<Figures, Failure> {
    let what = "tokens of contexts with 95 % of the answers, as a share of the conversation (less is better)";
    let counter = Tiktoken::new(Encoding::default());
    let wholes: Vec<String> = talks.iter().map(|talk| talk.texts.join("\n")).collect();
    let tokens: Vec<f64> = wholes.iter().map(|whole| counter.count(whole) as f64).collect();
    for tokens_max in GROWING_SIZES {
        let mut figures = Figures::new(suite, what);
        let (mut held, mut findable) = (0.0, 0.0);
        for ((talk, whole), tokens) in talks.iter().zip(&wholes).zip(&tokens) {
            for asked in talk.questions.iter().filter(|asked| (asked.holds)(whole)) {
                let told = build(talk, asked, tokens_max).await?;
                findable += 1.0;
                held += flag((asked.holds)(text(&told)));
                let used = told["tokens_used"].as_f64().unwrap_or_default();
                figures.note("size at 95 %", used / tokens.max(1.0));
            }
        }
        if held >= EVIDENCE_SHARE * findable && findable > 0.0 {
            figures.notes.push(format!(
                "{suite}: contexts of at most {tokens_max} tokens hold {held} of {findable} answers"
            ));
            return Ok(figures);
        }
    }
    let mut figures = Figures::new(suite, what);
    let largest = GROWING_SIZES[GROWING_SIZES.len() - 1];
    figures.notes.push(format!(
        "{suite}: no context of at most {largest} tokens holds {} % of the answers",
        EVIDENCE_SHARE * 100.0
    ));
    Ok(figures)
}

/// Stores the conversations, and lets all messages leave the window.
async fn hold(host: &Host, path: &Path, most: usize) -> Result<Vec<HeldTalk>, Failure> {
    let data = corpus::json(path)?;
    let questions = data["questions"].as_array().cloned().unwrap_or_default();
    let talks = data["conversations"].as_object().cloned().unwrap_or_default();
    let progress = Progress::new("context bfcl memory, messages", talks.len());
    let mut all = Vec::with_capacity(talks.len());
    for (name, messages) in talks {
        let agent = host.agent(&format!("context-bfcl-{name}"));
        let caller = Caller::create(host.client(), agent, WINDOW).await?;
        let messages = messages.as_array().cloned().unwrap_or_default();
        for message in &messages {
            let role = message["role"].as_str().unwrap_or("user");
            caller.append(role, &message["content"]).await?;
        }
        caller.evict_all().await?;
        let own = questions.iter().filter(|question| question["scenario"] == name.as_str());
        let texts = messages.iter().map(|message| field(message, "content").to_owned()).collect();
        all.push(HeldTalk { caller, texts, questions: own.take(most).map(question).collect() });
        progress.add(1);
    }
    progress.close();
    Ok(all)
}

fn question(asked: &Value) -> HeldQuestion {
    let answers = asked["answers"].as_array().into_iter().flatten();
    let answers: Vec<String> = answers.filter_map(|one| one.as_str()).map(bare).collect();
    let holds = move |shown: &str| {
        let shown = bare(shown);
        answers.iter().any(|answer| shown.contains(answer))
    };
    HeldQuestion { text: field(asked, "question").to_owned(), holds: Box::new(holds) }
}

/// Returns the letters and digits of a text in lower case, as BFCL compares answers.
fn bare(text: &str) -> String {
    text.to_lowercase().chars().filter(|c| c.is_alphanumeric()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_compared_by_letters_and_digits() {
        let asked = question(&json!({"question": "When?", "answers": ["5 May", "May 5th"]}));
        for (shown, holds) in [("on 5-may at noon", true), ("On may 5", false), ("", false)] {
            assert_eq!((asked.holds)(shown), holds, "{shown}");
        }
        assert_eq!(asked.text, "When?");
    }
}
