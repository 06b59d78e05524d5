//! The recall benchmark: appends a conversation, evicts all messages, and reads the result list of
//! each question page by page.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::background;
use super::caller::Caller;
use super::corpus::{Question, Talk, TalkMessage};
use super::host::Host;
use super::measures::{BUDGETS, RESULTS_MAX, RankedResult, Scores, first_rank, scores};
use super::progress::Progress;
use vctx_cli::exit::Failure;
use vctx_client::Client;
use vctx_core::memory::{Encoding, TokenCounter as _};
use vctx_core::search::passages;
use vctx_core::text::Tiktoken;
use vctx_core::tools::{day_of, lines_of};

/// Number of conversations processed in parallel; each conversation has a separate connection and
/// agent.
const AT_ONCE: usize = 4;
/// Number of results that one request asks for, which is the maximum for a page.
const PAGE_RESULTS: u64 = 20;
/// Maximum number of result pages for one question. No result list is expected to have this number
/// of pages.
const PAGES_MAX: usize = 256;
/// Minimum number of tokens of a result. If fewer tokens remain of the largest token budget, no
/// further result fits.
const RESULT_TOKENS_MIN: u64 = 4;
/// Minimum length of a message that is split after a refusal, in bytes. If the server refuses a
/// shorter message, the message's size is not the reason.
const PART_BYTES_MIN: usize = 64;
/// Number of unrelated messages that the benchmark stores before the conversation, to shift the
/// sequence numbers of the conversation's messages (`is_shifted`).
const SHIFT: usize = 13;

/// Settings of the recall benchmark: how conversations are stored and searched.
#[derive(Debug, Clone)]
pub(super) struct Setting {
    /// Tokens of each agent's window.
    pub(super) window: u64,
    /// Argument `mode` of the searches; `None` means the default mode of the search tool.
    pub(super) mode: Option<String>,
    /// Whether unrelated messages are stored before the conversation, which shifts the sequence
    /// numbers of all messages of the conversation.
    pub(super) is_shifted: bool,
}

/// A question, and the scores that its search results achieved.
#[derive(Debug, Clone)]
pub(super) struct QuestionScores {
    pub(super) talk: String,
    pub(super) group: String,
    pub(super) scores: Scores,
    /// Whether the result list shows the newer of two statements before the older one; `None` if
    /// the question is not about an update.
    pub(super) newer_first: Option<bool>,
    /// Error code if the server refused the search. A refused search counts as an empty result.
    pub(super) refused: Option<String>,
}

/// Converts search results of one conversation into ranked results.
struct ResultReader<'a> {
    talk: &'a Talk,
    /// Index of each message in the conversation, by the message's sequence number.
    places: HashMap<u64, usize>,
    counter: Tiktoken,
}

/// The result of a recall benchmark.
#[derive(Debug, Default)]
pub(super) struct Played {
    /// Questions in the order of the conversations.
    pub(super) questions: Vec<QuestionScores>,
    /// A sentence for the report about the vectors that the server computed in the background.
    pub(super) vectors: Option<String>,
}

/// A conversation in an agent's memory.
pub(super) struct StoredTalk {
    pub(super) talk: Talk,
    pub(super) caller: Caller,
    /// Index of each message in the conversation, by the message's sequence number.
    pub(super) places: HashMap<u64, usize>,
}

/// Stores all conversations, then asks all questions.
pub(super) async fn play(
    host: &Host,
    name: &str,
    talks: Vec<Talk>,
    setting: &Setting,
) -> Result<Played, Failure> {
    let before = background::vectors_made(host).await;
    let stored = hold(host, name, talks, setting).await?;
    let texts =
        stored.iter().flat_map(|one| &one.talk.messages).map(|message| message.text.as_str());
    let expected: usize = texts.map(|text| passages(text).len()).sum();
    let vectors = background::wait(host, before, expected as u64).await;
    let steps = stored.iter().map(|one| one.talk.questions.len()).sum();
    let progress = Arc::new(Progress::new(&format!("{name}, questions"), steps));
    let (mode, closing) = (setting.mode.clone(), Arc::clone(&progress));
    let work = move |stored: StoredTalk| {
        let (progress, mode) = (Arc::clone(&progress), mode.clone());
        async move { questions(stored, mode.as_deref(), &progress).await }
    };
    let questions = side_by_side(stored, work).await?.into_iter().flatten().collect();
    closing.close();
    Ok(Played { questions, vectors })
}

/// Stores each conversation in the recall storage of a separate agent.
pub(super) async fn hold(
    host: &Host,
    name: &str,
    talks: Vec<Talk>,
    setting: &Setting,
) -> Result<Vec<StoredTalk>, Failure> {
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
            Ok(StoredTalk { talk, caller, places })
        }
    };
    side_by_side(named.collect(), work).await
}

/// Runs a task for each item, several tasks in parallel. Returns the results in the order of the
/// items.
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

/// Returns the results of a plain search for a question.
pub(super) async fn plain(
    stored: &StoredTalk,
    question: &Question,
) -> Result<Vec<RankedResult>, Failure> {
    let counter = Tiktoken::new(Encoding::O200kBase);
    let reader = ResultReader { talk: &stored.talk, places: stored.places.clone(), counter };
    Ok(ask(&stored.caller, question, &reader, None).await?.0)
}

async fn questions(
    stored: StoredTalk,
    mode: Option<&str>,
    progress: &Progress,
) -> Result<Vec<QuestionScores>, Failure> {
    let StoredTalk { talk, caller, places } = stored;
    let reader = ResultReader { talk: &talk, places, counter: Tiktoken::new(Encoding::O200kBase) };
    let mut all = Vec::with_capacity(talk.questions.len());
    for question in &talk.questions {
        let (ranking, refused) = ask(&caller, question, &reader, mode).await?;
        let newer_first = question.update.as_ref().map(|update| {
            let rank = |of| first_rank(of, &ranking).unwrap_or(usize::MAX);
            rank(&update.after) < rank(&update.before)
        });
        all.push(QuestionScores {
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

/// Appends every message of a conversation; returns the index of each message by sequence number.
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
    for (at, message) in talk.messages.iter().enumerate() {
        for seq in send(caller, message).await? {
            places.insert(seq, at);
        }
        progress.add(1);
    }
    Ok(places)
}

/// Appends a message, in parts if the message is too large for the window; returns the sequence
/// numbers of the parts.
async fn send(caller: &Caller, message: &TalkMessage) -> Result<Vec<u64>, Failure> {
    let mut seqs = Vec::new();
    // The next part of the message is on top of the stack.
    let mut rest = vec![message.text.as_str()];
    while let Some(text) = rest.pop() {
        let mut body = Map::new();
        body.insert("content".into(), text.into());
        for (field, text) in [("name", &message.name), ("said_at", &message.said_at)] {
            if let Some(text) = text {
                body.insert(field.into(), text.as_str().into());
            }
        }
        match caller.append(&message.role, &Value::Object(body)).await {
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

/// Returns the byte offset at which a text is split: after the first blank in the second half, or
/// in the middle if there is no such blank.
fn middle(text: &str) -> usize {
    let half = text.floor_char_boundary(text.len() / 2);
    let behind = text[half..].find(' ').map(|at| half + at + 1);
    behind.filter(|at| *at < text.len()).unwrap_or(half)
}

/// Reads the pages of a question's result list until further results can no longer change any
/// measure. If the server refuses a request, returns the results of the earlier pages and the error
/// code.
async fn ask(
    caller: &Caller,
    question: &Question,
    reader: &ResultReader<'_>,
    mode: Option<&str>,
) -> Result<(Vec<RankedResult>, Option<String>), Failure> {
    let mut arguments = json!({"query": question.text, "limit": PAGE_RESULTS, "rehydrate": false});
    if let Some(mode) = mode {
        arguments["mode"] = mode.into();
    }
    let mut ranking: Vec<RankedResult> = Vec::new();
    let mut days = HashSet::new();
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
        ranking.extend(results.iter().map(|result| reader.read(result, &mut days)));
        let next = answer.pointer("/result/next_page_token").and_then(Value::as_str);
        match next {
            Some(token) if !is_seen(&ranking, question) => arguments["page_token"] = token.into(),
            _ => return Ok((ranking, None)),
        }
    }
    Err(Failure::data(format!("the result list of a question has more than {PAGES_MAX} pages")))
}

/// Whether further results can no longer change any measure.
fn is_seen(ranking: &[RankedResult], question: &Question) -> bool {
    let largest = BUDGETS[BUDGETS.len() - 1];
    let is_full = |cost: fn(&RankedResult) -> u64| {
        let mut left = largest;
        for result in ranking {
            left -= if cost(result) <= left { cost(result) } else { 0 };
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
        && is_full(|result| result.bare)
        && is_full(|result| result.rendered)
}

impl ResultReader<'_> {
    /// Returns the index of a result's message in the conversation, and the token cost of the
    /// result. The cost includes the speaker's name, and the line with the day for the first result
    /// of a day. A result that is not a message of the conversation is never evidence, but its
    /// tokens count.
    fn read(&self, result: &Value, days: &mut HashSet<String>) -> RankedResult {
        let seq = result.get("seq").and_then(Value::as_u64);
        let item = seq.and_then(|seq| self.places.get(&seq).copied());
        let speaker = item.and_then(|item| self.talk.messages[item].name.as_deref());
        let text = text_of(result);
        let bare = match speaker {
            Some(name) => self.counter.count(&format!("{name}: {text}")),
            None => self.counter.count(&text),
        };
        let day = day_of(result);
        let heading = if days.insert(day.to_owned()) { format!("{day}\n") } else { String::new() };
        let rendered = self.counter.count(&format!("{heading}{}\n", lines_of(result)));
        RankedResult { item: item.unwrap_or(usize::MAX), bare, rendered }
    }
}

/// Returns the text of a search result.
fn text_of(result: &Value) -> String {
    result.get("content").and_then(Value::as_str).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_counted_bare_and_as_it_was_answered() {
        let counter = Tiktoken::new(Encoding::O200kBase);
        let message = TalkMessage { name: Some("Ida".into()), ..TalkMessage::default() };
        let talk = Talk { messages: vec![message], ..Talk::default() };
        let reader = ResultReader { talk: &talk, places: HashMap::from([(5, 0)]), counter };
        let time = "2023-05-08 Mon 10:14";
        let result = json!({"seq": 5, "content": "hello world", "role": "user", "time": time});
        let mut days = HashSet::new();
        let found = reader.read(&result, &mut days);
        assert_eq!((found.item, found.bare), (0, counter.count("Ida: hello world")));
        let lines = "#5 user: hello world\n";
        assert_eq!(found.rendered, counter.count(&format!("2023-05-08 Mon\n{lines}")));
        assert_eq!(reader.read(&result, &mut days).rendered, counter.count(lines));
        let other = json!({"seq": 6, "role": "user", "content": "hello world"});
        let other = reader.read(&other, &mut days);
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
        let row = |item| RankedResult { item, bare: 2048, rendered: 4096 };
        let mut ranking = vec![row(1); 25];
        assert!(!is_seen(&ranking, &question), "the ranking does not contain the evidence yet");
        ranking.push(row(3));
        assert!(is_seen(&ranking, &question));
        assert!(!is_seen(&ranking[10..], &question), "fewer than twenty");
    }
}
