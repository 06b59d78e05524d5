//! Benchmark of questions about documents: the archive contains passages, each question has gold
//! passages with the answer, and result pages have up to 512 tokens.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use flate2::read::GzDecoder;
use serde_json::{Value, json};

use super::archive::{self, PAGE_TOKENS_MAX, RESULTS_MAX, Walk};
use super::bootstrap::interval;
use super::caller::Caller;
use super::corpus::{self, text_of};
use super::host::Host;
use super::progress::Progress;
use super::report::{Report, Section, percent};
use vctx_cli::exit::Failure;
use vctx_core::memory::Encoding;
use vctx_core::text::Tiktoken;

/// Maximum size of an unpacked file, in bytes.
const TEXT_BYTES_MAX: u64 = 256 << 20;
/// Page counts n for which the benchmark counts the questions whose gold passage is on the first n
/// pages.
const PAGES: [usize; 5] = [1, 2, 3, 5, 10];
/// Result limits for one query; the list of a smaller limit must be a prefix of the list of a
/// larger limit.
const LIMITS: [u64; 4] = [1, 5, 10, 20];
/// One question in this number of questions is also asked with every limit in [`LIMITS`]. All other
/// questions are asked only once.
const LIMITS_EACH: usize = 20;
/// Time after the last passage until the ArangoSearch view shows all passages. The benchmark
/// measures the ranking, not how soon a passage is in the view.
const VIEW_LAG: Duration = Duration::from_secs(5);
/// Window of the agent; paging through results must work within this window.
const WINDOW: u64 = 4096;

/// A corpus of passages with questions.
#[derive(Debug, Default)]
struct Corpus {
    /// Title and text of each passage.
    passages: Vec<(String, String)>,
    questions: Vec<NqQuestion>,
}

/// A question with the accepted answers.
#[derive(Debug)]
struct NqQuestion {
    text: String,
    answers: Vec<String>,
    /// Indexes of the question's gold passages, which contain the answer.
    gold: BTreeSet<usize>,
}

/// The result of one question.
struct Outcome {
    /// Number (from 1) of the first page with a gold passage, and of the first page with an answer.
    gold: Option<usize>,
    answer: Option<usize>,
    /// Number of the first page with a gold passage if the pages contained only the results' texts,
    /// without the rest of the JSON.
    bare: Option<usize>,
    pages_too_large: usize,
    told_otherwise: usize,
    doubled: usize,
    missing: bool,
    plan: String,
}

/// Runs the document question benchmark on a directory of `.jsonl` or `.jsonl.gz` files.
pub(super) async fn run(
    host: &Host,
    directory: &Path,
    questions_max: usize,
    mode: Option<&str>,
) -> Result<Report, Failure> {
    let corpus = read(directory)?;
    if corpus.questions.is_empty() {
        let why = format!("nq: no question in {}", directory.display());
        return Ok(Report { skipped: vec![why], ..Report::default() });
    }
    let questions = &corpus.questions[..corpus.questions.len().min(questions_max)];
    let progress = Progress::new("nq", corpus.passages.len() + questions.len());
    let caller = Caller::create(host.client(), host.agent("nq"), WINDOW).await?;
    for (at, (title, text)) in corpus.passages.iter().enumerate() {
        archive::ingest(&caller, &doc_id(at), &[format!("{title}\n{text}")]).await?;
        progress.add(1);
    }
    tokio::time::sleep(VIEW_LAG).await;
    let counter = Tiktoken::new(Encoding::O200kBase);
    let mut outcomes = Vec::with_capacity(questions.len());
    let mut flat = Flat::default();
    for (at, question) in questions.iter().enumerate() {
        let walk = search(&caller, question, RESULTS_MAX, mode, &counter).await?;
        if at % LIMITS_EACH == 0 {
            flat.check(&caller, question, &walk, mode, &counter).await?;
        }
        outcomes.push(outcome(question, &walk, &counter));
        progress.add(1);
    }
    progress.close();
    Ok(report_of(&corpus, &outcomes, &flat))
}

fn doc_id(at: usize) -> String {
    format!("nq-{at}")
}

async fn search(
    caller: &Caller,
    question: &NqQuestion,
    limit: u64,
    mode: Option<&str>,
    counter: &Tiktoken,
) -> Result<Walk, Failure> {
    let mut arguments = json!({"query_text": question.text, "limit": limit});
    if let Some(mode) = mode {
        arguments["mode"] = mode.into();
    }
    archive::walk(caller, arguments, counter, usize::MAX).await
}

fn outcome(question: &NqQuestion, walk: &Walk, counter: &Tiktoken) -> Outcome {
    let gold: Vec<String> = question.gold.iter().map(|at| doc_id(*at)).collect();
    let answers: Vec<String> = question.answers.iter().map(|answer| plain(answer)).collect();
    let page_of =
        |holds: &dyn Fn(&archive::Page) -> bool| walk.pages.iter().position(holds).map(|at| at + 1);
    let has_answer = |page: &archive::Page| {
        page.texts().map(plain).any(|text| answers.iter().any(|answer| text.contains(answer)))
    };
    let mut seen = HashMap::new();
    let results = walk.pages.iter().flat_map(|page| &page.results);
    for result in results {
        let place = (text_of(result, "id"), text_of(&result["part"], "start"));
        *seen.entry(place).or_insert(0) += 1;
    }
    let passages: BTreeSet<&String> = seen.keys().map(|(id, _)| id).collect();
    Outcome {
        gold: page_of(&|page| gold.iter().any(|id| page.holds(id))),
        answer: page_of(&has_answer),
        bare: bare_page(walk, &gold, counter),
        pages_too_large: walk.pages.iter().filter(|page| page.tokens > PAGE_TOKENS_MAX).count(),
        told_otherwise: walk.pages.iter().filter(|page| page.tokens != page.told).count(),
        doubled: seen.values().filter(|times| **times > 1).count(),
        missing: passages.len() as u64 != walk.k_actual,
        plan: walk.plan.clone(),
    }
}

/// Returns the number of the page that would contain the gold passage if the pages contained only
/// the results' texts, without the rest of the JSON.
fn bare_page(walk: &Walk, gold: &[String], counter: &Tiktoken) -> Option<usize> {
    use vctx_core::memory::TokenCounter as _;
    let (mut page, mut used) = (1, 0);
    for result in walk.pages.iter().flat_map(|page| &page.results) {
        let cost = counter.count(&text_of(result, "text"));
        if used > 0 && used + cost > PAGE_TOKENS_MAX {
            (page, used) = (page + 1, 0);
        }
        used += cost;
        if gold.contains(&text_of(result, "doc_id")) {
            return Some(page);
        }
    }
    None
}

/// Counts of the check that the result list of each limit is a prefix of the longest result list.
#[derive(Debug, Default)]
struct Flat {
    lists: usize,
    broken: usize,
    /// Number of questions whose answer is in the result list: one number for each limit in
    /// [`LIMITS`], and one for the longest list.
    answers: [usize; LIMITS.len() + 1],
    questions: usize,
}

impl Flat {
    async fn check(
        &mut self,
        caller: &Caller,
        question: &NqQuestion,
        longest: &Walk,
        mode: Option<&str>,
        counter: &Tiktoken,
    ) -> Result<(), Failure> {
        let all = ids(longest);
        self.questions += 1;
        for (at, limit) in LIMITS.into_iter().enumerate() {
            let walk = search(caller, question, limit, mode, counter).await?;
            let own = ids(&walk);
            self.lists += 1;
            self.broken += usize::from(!all.starts_with(&own));
            self.answers[at] += usize::from(outcome(question, &walk, counter).answer.is_some());
        }
        let found = outcome(question, longest, counter).answer.is_some();
        self.answers[LIMITS.len()] += usize::from(found);
        Ok(())
    }
}

/// Returns the ids of the passages in a result list, in order. A passage split over pages is listed
/// once.
fn ids(walk: &Walk) -> Vec<String> {
    let all = walk.pages.iter().flat_map(|page| &page.results);
    let mut ids: Vec<String> = all.map(|result| text_of(result, "id")).collect();
    ids.dedup();
    ids
}

fn report_of(corpus: &Corpus, outcomes: &[Outcome], flat: &Flat) -> Report {
    let within = |page: Option<usize>, most: usize| page.is_some_and(|page| page <= most);
    let share = |holds: &dyn Fn(&Outcome) -> bool| {
        outcomes.iter().filter(|one| holds(one)).count() as f64 / outcomes.len().max(1) as f64
    };
    let mut rows = Vec::new();
    let mut reached = Vec::new();
    for pages in PAGES {
        let gold = share(&|one| within(one.gold, pages));
        let answer = share(&|one| within(one.answer, pages));
        let bare = share(&|one| within(one.bare, pages));
        reached.push((format!("nq gold@{pages}"), gold * 100.0));
        reached.push((format!("nq ans@{pages}"), answer * 100.0));
        reached.push((format!("nq bare gold@{pages}"), bare * 100.0));
        rows.push(vec![pages.to_string(), percent(gold), percent(answer), percent(bare)]);
    }
    let count = |of: fn(&Outcome) -> usize| outcomes.iter().map(of).sum::<usize>();
    let first: Vec<f64> =
        outcomes.iter().map(|one| f64::from(u8::from(within(one.gold, 1)))).collect();
    let (low, high) = interval(&first).unwrap_or_default();
    let plans: BTreeSet<&str> = outcomes.iter().map(|one| one.plan.as_str()).collect();
    let sound = count(|one| one.pages_too_large + one.told_otherwise + one.doubled) == 0
        && !outcomes.iter().any(|one| one.missing)
        && flat.broken == 0
        && flat.answers.is_sorted();
    reached.push(("nq paging".into(), if sound { 100.0 } else { 0.0 }));
    let notes = vec![
        format!(
            "{} passages, {} questions, plans {plans:?}; 95 % interval of gold@1: {} to {}",
            corpus.passages.len(),
            outcomes.len(),
            percent(low),
            percent(high)
        ),
        format!(
            "pages above {PAGE_TOKENS_MAX} tokens: {}; pages with another token count: {}; passages doubled: {}; lists with a passage missing: {}",
            count(|one| one.pages_too_large),
            count(|one| one.told_otherwise),
            count(|one| one.doubled),
            outcomes.iter().filter(|one| one.missing).count()
        ),
        format!(
            "flatness: of {} shorter lists, {} are not a prefix of the longest list; answers found within the first {LIMITS:?} and {RESULTS_MAX} passages, for {} questions: {:?}",
            flat.lists, flat.broken, flat.questions, flat.answers
        ),
    ];
    let bars = reached.iter().filter(|(id, _)| id.starts_with("nq gold")).cloned().collect();
    let heads = ["pages", "gold", "answer", "gold, texts alone"].map(str::to_owned).into();
    let section = Section { title: "nq: document questions".into(), heads, rows, notes, bars };
    Report { sections: vec![section], reached, ..Report::default() }
}

/// Normalises a text for comparison of answers (SQuAD's rule): lower case, no punctuation and
/// articles, single blanks.
fn plain(text: &str) -> String {
    let kept: String = text
        .to_lowercase()
        .chars()
        .map(|c| if c.is_ascii_punctuation() { ' ' } else { c })
        .collect();
    let words = kept.split_whitespace().filter(|word| !matches!(*word, "a" | "an" | "the"));
    words.collect::<Vec<_>>().join(" ")
}

/// Reads the passages from the files of a directory; each returned text is the title followed by
/// the passage.
pub(super) fn passages(directory: &Path) -> Result<Vec<String>, Failure> {
    let passages = read(directory)?.passages;
    Ok(passages.into_iter().map(|(title, text)| format!("{title}\n{text}")).collect())
}

fn read(directory: &Path) -> Result<Corpus, Failure> {
    let mut corpus = Corpus::default();
    let mut places: HashMap<(String, String), usize> = HashMap::new();
    let mut files = corpus::files(directory, ".jsonl")?;
    files.extend(corpus::files(directory, ".jsonl.gz")?);
    for path in files {
        for (number, line) in unpacked(&path)?.lines().enumerate() {
            if line.trim().is_empty() {
                continue;
            }
            let value: Value = serde_json::from_str(line).map_err(|error| {
                Failure::data(format!("{} line {}: not JSON: {error}", path.display(), number + 1))
            })?;
            take(&mut corpus, &mut places, &value);
        }
    }
    Ok(corpus)
}

/// Parses a line of the data: `passages` of the prepared data set, or the gold passages in `ctxs`
/// of the published data set.
fn take(corpus: &mut Corpus, places: &mut HashMap<(String, String), usize>, line: &Value) {
    let list = line.get("passages").or_else(|| line.get("ctxs")).and_then(Value::as_array);
    let mut gold = BTreeSet::new();
    for passage in list.into_iter().flatten() {
        let key = (text_of(passage, "title"), text_of(passage, "text"));
        let at = *places.entry(key.clone()).or_insert_with(|| {
            corpus.passages.push(key);
            corpus.passages.len() - 1
        });
        if passage.get("isgold").and_then(Value::as_bool) != Some(false) {
            gold.insert(at);
        }
    }
    let text = text_of(line, "question");
    let answers = line.get("answers").and_then(Value::as_array);
    let answers: Vec<String> =
        answers.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    if !text.is_empty() && !gold.is_empty() {
        corpus.questions.push(NqQuestion { text, answers, gold });
    }
}

fn unpacked(path: &Path) -> Result<String, Failure> {
    let failed = |error| Failure::reading(path.display(), &error);
    let file = File::open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    let is_packed = path.extension().is_some_and(|ending| ending == "gz");
    match is_packed {
        true => GzDecoder::new(file).take(TEXT_BYTES_MAX + 1).read_to_end(&mut bytes),
        false => file.take(TEXT_BYTES_MAX + 1).read_to_end(&mut bytes),
    }
    .map_err(failed)?;
    if bytes.len() as u64 > TEXT_BYTES_MAX {
        return Err(Failure::data(format!(
            "{} is longer than {TEXT_BYTES_MAX} bytes",
            path.display()
        )));
    }
    String::from_utf8(bytes).map_err(|_| Failure::data(format!("{} is not UTF-8", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn answers_are_compared_without_articles_and_marks() {
        assert_eq!(plain("The  \"Blue\" Kite, of an Ida"), "blue kite of ida");
    }

    #[test]
    fn passages_are_taken_once_and_packed_files_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let line = |title: &str, question: &str| {
            json!({"question": question, "answers": ["x"], "passages": [{"title": title, "text": "t"}]}).to_string()
        };
        let lines = [line("A", "one"), line("B", ""), line("A", "two")].join("\n");
        let file = File::create(dir.path().join("q.jsonl.gz")).unwrap();
        let mut packed = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
        packed.write_all(lines.as_bytes()).unwrap();
        packed.finish().unwrap();
        std::fs::write(
            dir.path().join("p.jsonl"),
            "{\"question\":\"three\",\"answers\":[],\"ctxs\":[{\"title\":\"C\",\"text\":\"t\",\"isgold\":false},{\"title\":\"D\",\"text\":\"t\",\"isgold\":true}]}\n",
        )
        .unwrap();
        let corpus = read(dir.path()).unwrap();
        let titles: Vec<&str> = corpus.passages.iter().map(|(title, _)| title.as_str()).collect();
        assert_eq!(titles, ["C", "D", "A", "B"]);
        let gold: Vec<Vec<usize>> =
            corpus.questions.iter().map(|q| q.gold.iter().copied().collect()).collect();
        assert_eq!(gold, [vec![1], vec![2], vec![2]]);
    }

    #[test]
    fn the_page_of_the_gold_passage_and_broken_pages_are_seen() {
        let counter = Tiktoken::new(Encoding::O200kBase);
        let result = |id: &str, text: &str| json!({"id": id, "doc_id": id, "text": text});
        let page = |results: Vec<Value>, tokens, told| archive::Page { results, tokens, told };
        let walk = Walk {
            pages: vec![
                page(vec![result("nq-1", "no")], 500, 500),
                page(vec![result("nq-0", "The Kite"), result("nq-1", "no")], 513, 500),
            ],
            plan: "exact".into(),
            k_actual: 3,
            n_probe: None,
        };
        let question =
            NqQuestion { text: "q".into(), answers: vec!["kite".into()], gold: [0].into() };
        let found = outcome(&question, &walk, &counter);
        assert_eq!((found.gold, found.answer, found.bare), (Some(2), Some(2), Some(1)));
        assert_eq!((found.pages_too_large, found.told_otherwise, found.doubled), (1, 1, 1));
        assert!(found.missing);
    }
}
