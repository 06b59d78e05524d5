//! Suites of contexts of an archive (HotpotQA, MuSiQue, code): whether the documents that answer a
//! question are among those with the best grades.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use super::caller::Caller;
use super::contexts::{Figures, WINDOW, built};
use super::corpus;
use super::host::Host;
use super::progress::Progress;
use vctx_cli::exit::Failure;

/// Tokens of a context whose documents are ranked.
const RANKED_TOKENS: u64 = 2_048;

/// A set of questions about documents that are all in one archive.
#[derive(Clone, Copy)]
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

/// All suites.
pub(super) const SUITES: [RankedSuite; 3] = [
    RankedSuite {
        name: "hotpotqa",
        what: "all paragraphs of the answer are among the best",
        file: "multihop/hotpotqa.jsonl",
        within: [5, 10],
        read: paragraphs,
        all: true,
    },
    RankedSuite {
        name: "musique",
        what: "all paragraphs of the answer are among the best",
        file: "multihop/musique.jsonl",
        within: [10, 20],
        read: paragraphs,
        all: true,
    },
    RankedSuite {
        name: "code",
        what: "share of the chunks with the answer that are among the best",
        file: "code/contextual-queries.jsonl",
        within: [5, 10],
        read: chunks,
        all: false,
    },
];

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

/// Puts the documents of all questions into one archive, and asks the questions.
pub(super) async fn run(
    host: &Host,
    path: &Path,
    suite: RankedSuite,
    most: usize,
) -> Result<Figures, Failure> {
    let mut figures = Figures::new(suite.name, suite.what);
    let agent = host.agent(&format!("context-{}", suite.name));
    let caller = Caller::create(host.client(), agent, WINDOW).await?;
    let asked = (suite.read)(path)?;
    let mut names: BTreeMap<&String, String> = BTreeMap::new();
    let steps = asked.iter().map(|one| one.documents.len()).sum();
    let progress = Progress::new(&format!("context {}", suite.name), steps);
    for text in asked.iter().flat_map(|one| &one.documents) {
        if !names.contains_key(text) {
            let name = format!("p{}", names.len());
            let document = json!({"doc_id": name, "document": text});
            caller.tool("ingest_archival", &document).await?;
            names.insert(text, name);
        }
        progress.add(1);
    }
    progress.close();
    let steps = asked.len().min(most);
    let progress = Progress::new(&format!("context {}, questions", suite.name), steps);
    for one in asked.iter().take(most) {
        let body = json!({"question": one.question, "tokens_max": RANKED_TOKENS, "explain": true});
        let ranked = ranking(&built(&caller, body).await?);
        let gold: Vec<&String> = one.gold.iter().filter_map(|text| names.get(text)).collect();
        for best in suite.within {
            let best_names = &ranked[..best.min(ranked.len())];
            let found = gold.iter().filter(|name| best_names.contains(name)).count();
            let value = match suite.all {
                true => f64::from(u8::from(found == gold.len())),
                false => found as f64 / gold.len().max(1) as f64,
            };
            figures.note(&format!("in {best:02}"), value);
        }
        progress.add(1);
    }
    progress.close();
    Ok(figures)
}

/// Returns the names of the archive's documents that a context shows or leaves out, by grade.
fn ranking(told: &Value) -> Vec<String> {
    let sections = told["sections"].as_array().into_iter().flatten();
    let shown = sections.flat_map(|section| section["items"].as_array().into_iter().flatten());
    let left_out = told["left_out"].as_array().into_iter().flatten();
    let named = shown.chain(left_out).filter_map(|item| {
        let name = item["origin"]["doc_id"].as_str()?.to_owned();
        Some((item["grade"].as_f64().unwrap_or(0.0), name))
    });
    let mut graded: Vec<(f64, String)> = named.collect();
    graded.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut names: Vec<String> = Vec::new();
    for (_, name) in graded {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}
