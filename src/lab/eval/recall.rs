//! Recall measured: a conversation is appended, evicted whole, and each question's list is walked page by page.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::background;
use super::caller::Caller;
use super::corpus::{Question, Said, Talk};
use super::host::Host;
use super::measures::{BUDGETS, RESULTS_MAX, Scores, Shown, first_rank, scores};
use super::progress::Progress;
use vctx_cli::exit::Failure;
use vctx_client::Client;
use vctx_core::memory::{Encoding, TokenCounter as _};
use vctx_core::policy::passages;
use vctx_core::text::Tiktoken;

/// Parts of a benchmark that run at the same time, each with a connection and an agent of its own.
const AT_ONCE: usize = 4;
/// Results asked for at once: the most a page takes.
const PAGE_RESULTS: u64 = 20;
/// Pages walked for one question; a list ends before.
const PAGES_MAX: usize = 256;
/// Tokens that no result goes below: with less left in the largest budget, nothing more can fit.
const RESULT_TOKENS_MIN: u64 = 4;
/// Shorter messages are not parted; what refuses them is no matter of size.
const PART_BYTES_MIN: usize = 64;
/// Messages written in front when all sequence numbers are to be others.
const SHIFT: usize = 13;

/// How talks are played.
#[derive(Debug, Clone)]
pub(super) struct Setting {
    /// Tokens of each agent's window.
    pub(super) window: u64,
    /// `mode` of the searches, if it is to be sent.
    pub(super) mode: Option<String>,
    /// Whether other messages stand in front, so that all numbers differ.
    pub(super) is_shifted: bool,
}

/// A question with its measures.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) talk: String,
    pub(super) group: String,
    pub(super) scores: Scores,
    /// Whether the later of two statements stands before the first; `None` where there are none.
    pub(super) newer_first: Option<bool>,
    /// Code of the server's refusal, which counts as nothing found.
    pub(super) refused: Option<String>,
}

/// What is needed to read a result.
struct Known<'a> {
    talk: &'a Talk,
    /// Place of each message in the talk by its sequence number.
    places: HashMap<u64, usize>,
    counter: Tiktoken,
}

/// What a benchmark of recall gave.
#[derive(Debug, Default)]
pub(super) struct Played {
    /// In the order of the talks.
    pub(super) asked: Vec<Asked>,
    /// What there is to say of the vectors that the server made meanwhile.
    pub(super) vectors: Option<String>,
}

/// A conversation that an agent holds.
struct Held {
    talk: Talk,
    caller: Caller,
    places: HashMap<u64, usize>,
}

/// Plays all talks, then asks their questions.
pub(super) async fn play(
    host: &Host,
    name: &str,
    talks: Vec<Talk>,
    setting: &Setting,
) -> Result<Played, Failure> {
    let before = background::made(host).await;
    let held = hold(host, name, talks, setting).await?;
    let texts = held.iter().flat_map(|one| &one.talk.messages).map(|said| said.text.as_str());
    let expected: usize = texts.map(|text| passages(text).len()).sum();
    let vectors = background::wait(host, before, expected as u64).await;
    let steps = held.iter().map(|one| one.talk.questions.len()).sum();
    let progress = Arc::new(Progress::new(&format!("{name}, questions"), steps));
    let (mode, closing) = (setting.mode.clone(), Arc::clone(&progress));
    let work = move |held: Held| {
        let (progress, mode) = (Arc::clone(&progress), mode.clone());
        async move { questions(held, mode.as_deref(), &progress).await }
    };
    let asked = side_by_side(held, work).await?.into_iter().flatten().collect();
    closing.close();
    Ok(Played { asked, vectors })
}

/// Plays all talks: afterwards each is in the recall storage of an agent of its own.
async fn hold(
    host: &Host,
    name: &str,
    talks: Vec<Talk>,
    setting: &Setting,
) -> Result<Vec<Held>, Failure> {
    let steps = talks.iter().map(|talk| talk.messages.len()).sum();
    let progress = Arc::new(Progress::new(&format!("{name}, messages"), steps));
    let named = talks.into_iter().map(|talk| {
        let agent = host.agent(&format!("{name}-{}", talk.name));
        (talk, host.client(), agent)
    });
    let setting = setting.clone();
    let work = move |(talk, client, agent): (Talk, Client, String)| {
        let (progress, setting) = (Arc::clone(&progress), setting.clone());
        async move {
            let caller = Caller::create(client, agent, setting.window).await?;
            let places = fill(&caller, &talk, &setting, &progress).await?;
            caller.evict_all().await?;
            Ok(Held { talk, caller, places })
        }
    };
    side_by_side(named.collect(), work).await
}

/// Does something with each, some at the same time; the answers are in the order of what was given.
pub(super) async fn side_by_side<T, R, F>(
    all: Vec<T>,
    work: impl Fn(T) -> F,
) -> Result<Vec<R>, Failure>
where
    T: Send + 'static,
    R: Send + 'static,
    F: Future<Output = Result<R, Failure>> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let mut running = JoinSet::new();
    for (at, one) in all.into_iter().enumerate() {
        let (places, doing) = (Arc::clone(&places), work(one));
        running.spawn(async move {
            let _place = places.acquire().await.expect("the semaphore is never closed");
            Ok::<_, Failure>((at, doing.await?))
        });
    }
    let mut done = Vec::new();
    while let Some(ended) = running.join_next().await {
        let ended = ended.map_err(|error| Failure::internal(format!("a part ended: {error}")))?;
        done.push(ended?);
    }
    done.sort_by_key(|(at, _)| *at);
    Ok(done.into_iter().map(|(_, one)| one).collect())
}

async fn questions(
    held: Held,
    mode: Option<&str>,
    progress: &Progress,
) -> Result<Vec<Asked>, Failure> {
    let Held { talk, caller, places } = held;
    let known = Known { talk: &talk, places, counter: Tiktoken::new(Encoding::O200kBase) };
    let mut all = Vec::with_capacity(talk.questions.len());
    for question in &talk.questions {
        let (ranking, refused) = ask(&caller, question, &known, mode).await?;
        let newer_first = question.update.as_ref().map(|update| {
            let rank = |of| first_rank(of, &ranking).unwrap_or(usize::MAX);
            rank(&update.after) < rank(&update.before)
        });
        all.push(Asked {
            talk: talk.name.clone(),
            group: question.group.clone(),
            scores: scores(&question.evidence, &ranking),
            newer_first,
            refused,
        });
        progress.add(1);
    }
    Ok(all)
}

/// Appends every message; gives the place of each by its sequence number.
async fn fill(
    caller: &Caller,
    talk: &Talk,
    setting: &Setting,
    progress: &Progress,
) -> Result<HashMap<u64, usize>, Failure> {
    if setting.is_shifted {
        for at in 0..SHIFT {
            let filler = json!({"content": format!("({at})")});
            caller.append("system", &filler).await?;
        }
    }
    let mut places = HashMap::with_capacity(talk.messages.len());
    for (at, said) in talk.messages.iter().enumerate() {
        for seq in send(caller, said).await? {
            places.insert(seq, at);
        }
        progress.add(1);
    }
    Ok(places)
}

/// Appends one message, in parts where it is too large for the window; gives the sequence numbers.
async fn send(caller: &Caller, said: &Said) -> Result<Vec<u64>, Failure> {
    let mut seqs = Vec::new();
    // The part that comes next lies on top.
    let mut rest = vec![said.text.as_str()];
    while let Some(text) = rest.pop() {
        let mut message = Map::new();
        message.insert("content".into(), text.into());
        for (field, text) in [("name", &said.name), ("said_at", &said.said_at)] {
            if let Some(text) = text {
                message.insert(field.into(), text.as_str().into());
            }
        }
        match caller.append(&said.role, &Value::Object(message)).await {
            Ok((seq, _)) => seqs.push(seq),
            Err(failure)
                if failure.code == "TOKEN_BUDGET_EXCEEDED" && text.len() > PART_BYTES_MIN =>
            {
                let (one, two) = text.split_at(middle(text));
                rest.extend([two, one]);
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(seqs)
}

/// A place near the middle of a text, behind a blank where there is one.
fn middle(text: &str) -> usize {
    let half = text.floor_char_boundary(text.len() / 2);
    let behind = text[half..].find(' ').map(|at| half + at + 1);
    behind.filter(|at| *at < text.len()).unwrap_or(half)
}

/// Walks the list of one question as far as any measure can see; a refusal is an empty list with its code.
async fn ask(
    caller: &Caller,
    question: &Question,
    known: &Known<'_>,
    mode: Option<&str>,
) -> Result<(Vec<Shown>, Option<String>), Failure> {
    let mut arguments = json!({"query": question.text, "limit": PAGE_RESULTS, "rehydrate": false});
    if let Some(mode) = mode {
        arguments["mode"] = mode.into();
    }
    let mut ranking: Vec<Shown> = Vec::new();
    for _ in 0..PAGES_MAX {
        let answer = match caller.tool("search_recall", &arguments).await {
            Ok(answer) => answer,
            Err(problem) if problem.status().is_some_and(|status| status < 500) => {
                return Ok((ranking, Some(problem.code)));
            }
            Err(problem) => return Err(problem.into()),
        };
        let results = answer.pointer("/result/results").and_then(Value::as_array);
        let results = results.ok_or_else(|| Failure::internal("a search without results"))?;
        ranking.extend(results.iter().map(|result| known.shown(result)));
        let next = answer.pointer("/result/next_page_token").and_then(Value::as_str);
        match next {
            Some(token) if !is_seen(&ranking, question) => arguments["page_token"] = token.into(),
            _ => return Ok((ranking, None)),
        }
    }
    Err(Failure::data(format!("the list of a question has more than {PAGES_MAX} pages")))
}

/// Whether nothing further down can change a measure.
fn is_seen(ranking: &[Shown], question: &Question) -> bool {
    let largest = BUDGETS[BUDGETS.len() - 1];
    let is_full = |cost: fn(&Shown) -> u64| {
        let mut left = largest;
        for shown in ranking {
            left -= if cost(shown) <= left { cost(shown) } else { 0 };
        }
        left < RESULT_TOKENS_MIN
    };
    let ranked = |of| first_rank(of, ranking).is_some();
    let is_ordered = question
        .update
        .as_ref()
        .is_none_or(|update| ranked(&update.before) || ranked(&update.after));
    ranking.len() >= RESULTS_MAX
        && ranked(&question.evidence)
        && is_ordered
        && is_full(|shown| shown.bare)
        && is_full(|shown| shown.rendered)
}

impl Known<'_> {
    /// A result: which message it is, and what it costs, its speaker included. What belongs to no message of the talk is no evidence
    /// and costs all the same.
    fn shown(&self, result: &Value) -> Shown {
        let seq = result.get("seq").and_then(Value::as_u64);
        let item = seq.and_then(|seq| self.places.get(&seq).copied());
        let speaker = item.and_then(|item| self.talk.messages[item].name.as_deref());
        let text = text_of(result);
        let bare = match speaker {
            Some(name) => self.counter.count(&format!("{name}: {text}")),
            None => self.counter.count(&text),
        };
        let rendered = self.counter.count(&result.to_string()) + 1;
        Shown { item: item.unwrap_or(usize::MAX), bare, rendered }
    }
}

/// The text that a result shows.
fn text_of(result: &Value) -> String {
    result.get("content").and_then(Value::as_str).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_counted_bare_and_as_it_was_answered() {
        let counter = Tiktoken::new(Encoding::O200kBase);
        let said = Said { name: Some("Ida".into()), ..Said::default() };
        let talk = Talk { messages: vec![said], ..Talk::default() };
        let known = Known { talk: &talk, places: HashMap::from([(5, 0)]), counter };
        let result = json!({"seq": 5, "content": "hello world", "role": "user"});
        let found = known.shown(&result);
        assert_eq!((found.item, found.bare), (0, counter.count("Ida: hello world")));
        assert_eq!(found.rendered, counter.count(&result.to_string()) + 1);
        let other = known.shown(&json!({"seq": 6, "content": "hello world"}));
        assert_eq!((other.item, other.bare), (usize::MAX, 2));
    }

    #[test]
    fn a_text_is_parted_between_words() {
        for (text, wanted) in [("one two three", 8), ("ääää", 4), ("ab ", 1)] {
            assert_eq!(middle(text), wanted, "{text}");
        }
    }

    #[test]
    fn a_list_is_walked_until_no_measure_can_change() {
        let question = Question { evidence: [3].into(), ..Question::default() };
        let row = |item| Shown { item, bare: 2048, rendered: 4096 };
        let mut ranking = vec![row(1); 25];
        assert!(!is_seen(&ranking, &question), "the evidence is not there yet");
        ranking.push(row(3));
        assert!(is_seen(&ranking, &question));
        assert!(!is_seen(&ranking[10..], &question), "fewer than twenty");
    }
}
