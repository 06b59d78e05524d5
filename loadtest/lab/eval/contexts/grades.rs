//! The suite of grades: sets from which the answer is taken away in steps, and questions that a
//! conversation cannot answer.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use super::figures::{Figures, flag};
use super::suites::WINDOW;
use super::told::{areas, field};
use crate::eval::caller::Caller;
use crate::eval::corpus::{self, Question, Talk};
use crate::eval::host::Host;
use crate::eval::locomo::ADVERSARIAL;
use crate::eval::progress::Progress;
use crate::eval::recall::{StoredTalk, side_by_side};
use vctx_cli::exit::Failure;

/// Maximum number of questions, evenly spread, whose documents are taken away.
const ABLATED_MAX: usize = 100;
/// Maximum number of answerable and of unanswerable questions of each conversation.
const ASKED_MAX: usize = 50;

/// HotpotQA: all documents, without half of those with the answer, and without all of them.
pub(super) async fn ablated(host: &Host, path: &Path, most: usize) -> Result<Figures, Failure> {
    let mut figures = Figures::new("grades", "the verdict of a build is the expected one");
    let caller = Caller::create(host.client(), host.agent("context-grades"), WINDOW).await?;
    let rows = corpus::lines(path)?;
    let step = rows.len().div_ceil(ABLATED_MAX.min(most).max(1)).max(1);
    let rows: Vec<Value> = rows.into_iter().step_by(step).collect();
    let progress = Progress::new("context grades", rows.len());
    for row in rows {
        let paragraphs = row["paragraphs"].as_array().cloned().unwrap_or_default();
        for (name, wanted, documents) in sets(&paragraphs) {
            let body =
                json!({"question": row["question"], "documents": documents, "explain": true});
            let told = caller.build_context(&body).await?;
            let is_right = flag(told["verdict"]["grade"] == wanted);
            figures.note("all", is_right);
            figures.note(name, is_right);
        }
        progress.add(1);
    }
    progress.close();
    Ok(figures)
}

/// Returns the three sets of documents of a question, with the expected verdicts.
fn sets(paragraphs: &[Value]) -> [(&'static str, &'static str, Vec<Value>); 3] {
    let gold = paragraphs.iter().filter(|one| one["gold"] == true).count();
    let with = |most: usize| {
        let mut left = most;
        let is_in = |one: &&Value| {
            let is_gold = one["gold"] == true;
            let is_in = !is_gold || left > 0;
            left -= usize::from(is_gold && is_in);
            is_in
        };
        let text = |one: &Value| json!({"text": format!("{}\n{}", field(one, "title"), field(one, "text"))});
        paragraphs.iter().filter(is_in).map(text).collect()
    };
    [
        ("all gold in: correct", "correct", with(gold)),
        ("half in: ambiguous", "ambiguous", with(gold / 2)),
        ("none in: incorrect", "incorrect", with(0)),
    ]
}

/// LoCoMo: how often the verdict's number for an answerable question is above that for a question
/// without an answer in the conversation.
pub(super) async fn unanswerable(
    stored: &[Arc<StoredTalk>],
    most: usize,
) -> Result<Figures, Failure> {
    let most = most.min(ASKED_MAX);
    let progress = Arc::new(Progress::new("context grades, locomo", stored.len()));
    let closing = Arc::clone(&progress);
    let work = move |stored: Arc<StoredTalk>| {
        let progress = Arc::clone(&progress);
        async move {
            let graded = graded(&stored, most).await;
            progress.add(1);
            graded
        }
    };
    let all: Vec<(bool, f64)> =
        side_by_side(stored.to_vec(), work).await?.into_iter().flatten().collect();
    closing.close();
    let of = |is_answerable: bool| -> Vec<f64> {
        let own = all.iter().filter(|(one, _)| *one == is_answerable);
        own.map(|(_, grade)| *grade).collect()
    };
    let what = "the verdict on an answerable question is surer than on an unanswerable one";
    let mut figures = Figures::new("grades", what);
    for area in areas(&of(true), &of(false)) {
        figures.note("locomo, AUC", area);
    }
    Ok(figures)
}

/// Returns for each question whether it can be answered, and the number of its verdict.
async fn graded(stored: &StoredTalk, most: usize) -> Result<Vec<(bool, f64)>, Failure> {
    let mut all = Vec::new();
    for (is_answerable, question) in asked(&stored.talk, most) {
        let body = json!({"question": question.text, "explain": true});
        let told = stored.caller.build_context(&body).await?;
        all.push((is_answerable, told["verdict"]["number"].as_f64().unwrap_or_default()));
    }
    Ok(all)
}

/// Returns questions without an answer, and as many with one, evenly spread.
fn asked(talk: &Talk, most: usize) -> Vec<(bool, &Question)> {
    let (bad, good): (Vec<&Question>, Vec<&Question>) =
        talk.questions.iter().partition(|one| one.group == ADVERSARIAL);
    let most = most.min(bad.len()).min(good.len());
    let spread = |all: &[&'_ Question], place: usize| place * all.len() / most.max(1);
    let pick =
        |place: usize| [(false, bad[spread(&bad, place)]), (true, good[spread(&good, place)])];
    (0..most).flat_map(pick).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_taken_away_in_steps_and_the_rest_stays() {
        let one = |title: &str, gold: bool| json!({"title": title, "text": "t", "gold": gold});
        let given = [one("a", true), one("b", false), one("c", true), one("d", false)];
        let titles = sets(&given).map(|(_, _, documents)| {
            let first = |one: &Value| field(one, "text")[..1].to_owned();
            documents.iter().map(first).collect::<String>()
        });
        assert_eq!(titles, ["abcd", "abd", "bd"]);
    }

    #[test]
    fn as_many_answerable_questions_are_asked_as_unanswerable_ones() {
        let question = |text: String, group: &str| Question {
            text,
            group: group.into(),
            ..Question::default()
        };
        let mut talk = Talk::default();
        talk.questions.extend((0..6).map(|at| question(format!("g{at}"), "1")));
        talk.questions.extend((0..2).map(|at| question(format!("b{at}"), ADVERSARIAL)));
        let named = |most| -> Vec<String> {
            asked(&talk, most).into_iter().map(|(_, one)| one.text.clone()).collect()
        };
        assert_eq!(named(50), ["b0", "g0", "b1", "g3"]);
        assert_eq!(named(1), ["b0", "g0"]);
        assert!(asked(&Talk::default(), 5).is_empty());
    }
}
