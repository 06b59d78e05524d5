//! Suites of contexts of an archive (HotpotQA, MuSiQue, code): whether the documents that answer a
//! question are among those with the best grades.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use serde_json::{Value, json};

use super::arms::{Arm, Arms, Pool};
use super::figures::{Figures, flag};
use super::order::best_first;
use super::suites::WINDOW;
use super::told::candidates;
use crate::eval::archive;
use crate::eval::caller::Caller;
use crate::eval::corpus::{self, text_of};
use crate::eval::host::Host;
use crate::eval::progress::Progress;
use vctx_cli::exit::Failure;
use vctx_core::memory::Encoding;
use vctx_core::text::Tiktoken;

/// Tokens of a context whose documents are ranked.
const RANKED_TOKENS: u64 = 2_048;
/// Number of the best documents whose share of the gold is the measure of the suite `fusion`.
const FUSED_WITHIN: usize = 10;
/// Name of this measure.
pub(super) const FUSED: &str = "R@10";
/// Maximum number of pages that are read of a search; 40 results of 4 KiB need fewer.
const PAGES_MAX: usize = 128;

/// A set of questions about documents that are all in one archive.
#[derive(Debug, Clone, Copy)]
pub(super) struct RankedSuite {
    name: &'static str,
    what: &'static str,
    /// Name of the file with the questions, below the directory of contexts.
    pub(super) file: &'static str,
    /// Numbers of the best documents among which those with the answer should be.
    within: [usize; 2],
    read: fn(&Path) -> Result<Vec<AskedOf>, Failure>,
    /// Whether a question counts only if all of its documents are found.
    all: bool,
}

/// A question, the documents that belong to it, and the documents that answer it.
struct AskedOf {
    question: String,
    documents: Vec<String>,
    gold: Vec<String>,
}

pub(super) const HOTPOTQA: RankedSuite = RankedSuite {
    name: "hotpotqa",
    what: "all paragraphs of the answer are among the best",
    file: "multihop/hotpotqa.jsonl",
    within: [5, 10],
    read: paragraphs,
    all: true,
};

pub(super) const MUSIQUE: RankedSuite = RankedSuite {
    name: "musique",
    what: "all paragraphs of the answer are among the best",
    file: "multihop/musique.jsonl",
    within: [10, 20],
    read: paragraphs,
    all: true,
};

pub(super) const CODE: RankedSuite = RankedSuite {
    name: "code",
    what: "share of the chunks with the answer that are among the best",
    file: "code/contextual-queries.jsonl",
    within: [5, 10],
    read: chunks,
    all: false,
};

/// Reads questions with paragraphs, some of which answer them together.
fn paragraphs(path: &Path) -> Result<Vec<AskedOf>, Failure> {
    let part = |one: &Value, name: &str| one[name].as_str().unwrap_or_default().to_owned();
    let whole = |one: &Value| format!("{}\n{}", part(one, "title"), part(one, "text"));
    let asked = |row: Value| {
        let all = row["paragraphs"].as_array().cloned().unwrap_or_default();
        let gold = all.iter().filter(|one| one["gold"] == true);
        AskedOf {
            question: part(&row, "question"),
            gold: gold.map(whole).collect(),
            documents: all.iter().map(whole).collect(),
        }
    };
    Ok(corpus::lines(path)?.into_iter().map(asked).collect())
}

/// Reads questions about code; the chunks of the code are in a file beside the questions.
fn chunks(path: &Path) -> Result<Vec<AskedOf>, Failure> {
    let data = corpus::json(&path.with_file_name("contextual-chunks.json"))?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut texts: BTreeMap<(String, u64), String> = BTreeMap::new();
    for document in data["documents"].as_array().into_iter().flatten() {
        for chunk in document["chunks"].as_array().into_iter().flatten() {
            let number = chunk["original_index"].as_u64().unwrap_or_default();
            texts.insert((text(&document["original_uuid"]), number), text(&chunk["content"]));
        }
    }
    // The first question brings all chunks.
    let mut rest: Vec<String> = texts.values().cloned().collect();
    let asked = |row: Value| {
        let named = row["golden_chunk_uuids"].as_array().into_iter().flatten();
        let places = named.map(|one| (text(&one[0]), one[1].as_u64().unwrap_or_default()));
        AskedOf {
            question: text(&row["query"]),
            gold: places.filter_map(|place| texts.get(&place).cloned()).collect(),
            documents: std::mem::take(&mut rest),
        }
    };
    Ok(corpus::lines(path)?.into_iter().map(asked).collect())
}

impl RankedSuite {
    /// Notes what an order of documents reached for a question whose answer is in the documents
    /// `gold`.
    fn note(
        &self,
        figures: &mut Figures,
        (arm, is_fused): (Option<Arm>, bool),
        ranked: &[usize],
        gold: &[usize],
    ) {
        let found = |best: usize| {
            gold.iter().filter(|at| ranked[..best.min(ranked.len())].contains(at)).count()
        };
        let share = |best: usize| found(best) as f64 / gold.len().max(1) as f64;
        for best in self.within {
            let value = if self.all { flag(found(best) == gold.len()) } else { share(best) };
            figures.note_of(arm, &format!("in {best:02}"), value);
        }
        if is_fused {
            figures.note_of(arm, FUSED, share(FUSED_WITHIN));
        }
    }
}

/// Puts the documents of all questions into one archive, and asks the questions. `is_fused` says
/// that the suite `fusion` needs the figures of its search methods.
pub(super) async fn run(
    host: &Host,
    path: &Path,
    suite: RankedSuite,
    (arms, is_fused): (&Arms, bool),
    most: usize,
) -> Result<Figures, Failure> {
    let mut figures = Figures::new(suite.name, suite.what);
    let asked = (suite.read)(path)?;
    let mut texts: Vec<String> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for text in asked.iter().flat_map(|one| &one.documents) {
        places.entry(text).or_insert_with(|| {
            texts.push(text.clone());
            texts.len() - 1
        });
    }
    let asked_now = &asked[..most.min(asked.len())];
    let gold: Vec<Vec<usize>> = asked_now
        .iter()
        .map(|one| one.gold.iter().filter_map(|text| places.get(text.as_str()).copied()).collect())
        .collect();
    let caller = fill(host, suite.name, &texts).await?;
    let progress = Progress::new(&format!("context {}, questions", suite.name), asked_now.len());
    for (one, gold) in asked_now.iter().zip(&gold) {
        let body = json!({"question": one.question, "tokens_max": RANKED_TOKENS, "explain": true});
        let ranked = ranking(&caller.build_context(&body).await?);
        suite.note(&mut figures, (None, is_fused), &ranked, gold);
        if arms.asked.contains(&Arm::Plain) {
            let most = suite.within[1].max(FUSED_WITHIN);
            let ranked = plain(&caller, &one.question, most).await?;
            suite.note(&mut figures, (Some(Arm::Plain), is_fused), &ranked, gold);
        }
        progress.add(1);
    }
    progress.close();
    let mut own = arms.own();
    own.extend(super::fusion::ARMS.into_iter().filter(|arm| is_fused && !arms.asked.contains(arm)));
    if !own.is_empty() {
        let questions = asked_now.iter().map(|one| one.question.clone()).collect();
        let pool = Pool::of(arms, &texts, questions).await?;
        for arm in own {
            for (at, gold) in gold.iter().enumerate() {
                let ranked = best_first(&pool.scores(arm, at));
                suite.note(&mut figures, (Some(arm), is_fused), &ranked, gold);
            }
        }
    }
    Ok(figures)
}

/// Stores each text as a document.
async fn fill(host: &Host, name: &str, texts: &[String]) -> Result<Caller, Failure> {
    let agent = host.agent(&format!("context-{name}"));
    let caller = Caller::create(host.client(), agent, WINDOW).await?;
    let progress = Progress::new(&format!("context {name}"), texts.len());
    for (at, text) in texts.iter().enumerate() {
        let document = json!({"doc_id": document_name(at), "document": text});
        caller.tool("ingest_archival", &document).await?;
        progress.add(1);
    }
    progress.close();
    Ok(caller)
}

fn document_name(at: usize) -> String {
    format!("p{at}")
}

fn document_index(name: &str) -> Option<usize> {
    name.strip_prefix('p')?.parse().ok()
}

/// Returns the archive's documents that a context shows or leaves out, by grade.
fn ranking(told: &Value) -> Vec<usize> {
    let graded = candidates(told).filter_map(|item| {
        let at = document_index(item["origin"]["doc_id"].as_str()?)?;
        Some((item["grade"].as_f64().unwrap_or(0.0), at))
    });
    let mut graded: Vec<(f64, usize)> = graded.collect();
    graded.sort_by(|a, b| b.0.total_cmp(&a.0));
    distinct(graded.into_iter().map(|(_, at)| at))
}

/// Returns the documents that the server's search finds, best first, at least `most` if there are
/// as many.
async fn plain(caller: &Caller, question: &str, most: usize) -> Result<Vec<usize>, Failure> {
    let counter = Tiktoken::new(Encoding::O200kBase);
    let mut arguments = json!({"query_text": question, "limit": archive::RESULTS_MAX});
    let mut found: Vec<usize> = Vec::new();
    for _ in 0..PAGES_MAX {
        let turned = archive::turn(caller, &mut arguments, &counter).await?;
        let names = turned.page.results.iter().map(|one| text_of(one, "doc_id"));
        found.extend(names.filter_map(|name| document_index(&name)));
        found = distinct(found.into_iter());
        if found.len() >= most || !turned.goes_on {
            break;
        }
    }
    Ok(found)
}

fn distinct(all: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut distinct: Vec<usize> = Vec::new();
    for at in all {
        if !distinct.contains(&at) {
            distinct.push(at);
        }
    }
    distinct
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_ranked_by_grade_and_counted_once() {
        let item = |name: &str, grade: f64| json!({"origin": {"doc_id": name}, "grade": grade});
        let told = json!({"sections": [{"items": [item("p3", 0.4), item("p1", 0.9)]}],
            "left_out": [item("p3", 0.8), item("x", 1.0), item("p0", 0.1)]});
        assert_eq!(ranking(&told), [1, 3, 0]);
    }

    #[test]
    fn a_question_with_two_documents_is_found_whole_or_not() {
        for (suite, wanted) in [(HOTPOTQA, [0.0, 1.0]), (CODE, [0.5, 1.0])] {
            let mut figures = Figures::new(suite.name, suite.what);
            let ranked: Vec<usize> = (0..12).collect();
            suite.note(&mut figures, (None, true), &ranked, &[1, 8]);
            let value = |measure: &str| figures.values(None, measure).unwrap()[0];
            assert_eq!([value("in 05"), value("in 10")], wanted, "{suite:?}");
            assert_eq!(value(FUSED), 1.0);
        }
    }
}
