//! Command that builds a context for a question: what the memory and given documents say about it,
//! in a bounded number of tokens. It changes nothing.

use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::spec::{Access, Command, Spec};
use crate::context::{
    Candidate, Fate, GRADE_MIN, Grade, MessageView, Origin, Pack, PackItem, PackLimits, Pool,
    QuestionIntent, Steps, Task, graded, pack, plan, units,
};
use crate::error::{Error, Result};
use crate::limits::{
    CONTEXT_DOCUMENTS_MAX, CONTEXT_PERCENT, CONTEXT_QUESTION_BYTES_MAX, CONTEXT_RESERVE_PERCENT,
    DOC_ID_BYTES_MAX, WINDOW_TOKENS_MAX,
};
use crate::memory::core::Core;
use crate::memory::local_time::zone_of;
use crate::memory::message::{Message, Role};
use crate::memory::page::plain;
use crate::memory::tokens::message_cost;
use crate::policy::{Ctx, Question, Step, Stop, time_of_message};
use crate::search::LookFound;
use crate::trust::TaintReport;
use crate::window::{assemble, server_message, tokens};

/// Number of candidates that were left out that an answer with `explain` names.
const LEFT_OUT_MAX: usize = 40;
/// Steps into which a grade is rounded in an answer.
const GRADE_UNITS: f64 = 1_000.0;

/// Body of `POST /v1/agents/{agent}/context`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BuildContext {
    /// What the context is for. By default, it is for the newest message of the user.
    #[serde(default)]
    pub question: Option<String>,
    /// Texts to choose from in addition to the memory.
    #[serde(default)]
    pub documents: Vec<GivenText>,
    /// Maximum number of tokens of the context. By default, the context takes at most 45 % of the
    /// window; it always leaves a fifth of the window for the answer.
    #[serde(default)]
    #[schemars(range(min = 1, max = WINDOW_TOKENS_MAX))]
    pub tokens_max: Option<u64>,
    /// Whether the answer also says what each step did, and which texts were left out and why.
    #[serde(default)]
    pub explain: bool,
}

/// A text to choose from.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GivenText {
    /// Name of the text in the context; by default its number.
    #[serde(default)]
    pub id: Option<String>,
    /// The text. Lines that begin with a speaker's name and a colon are turns of a conversation.
    pub text: String,
}

impl BuildContext {
    /// Checks the rules for arguments that their types do not express.
    pub fn checked(self) -> Result<Self> {
        if let Some(question) = &self.question {
            if question.trim().is_empty() {
                return Err(Error::argument(
                    "question",
                    "is empty: leave it out, or ask something",
                ));
            }
            if question.len() > CONTEXT_QUESTION_BYTES_MAX {
                let text = format!(
                    "longer than {CONTEXT_QUESTION_BYTES_MAX} bytes: give long texts as documents"
                );
                return Err(Error::argument("question", text));
            }
        }
        if self.documents.len() > CONTEXT_DOCUMENTS_MAX {
            let text =
                format!("more than {CONTEXT_DOCUMENTS_MAX}: put long texts into the archive");
            return Err(Error::argument("documents", text));
        }
        for (at, given) in self.documents.iter().enumerate() {
            let field = |name: &str| format!("documents[{at}].{name}");
            if given.text.trim().is_empty() {
                return Err(Error::argument(&field("text"), "is empty: leave the document out"));
            }
            let is_name = |id: &String| {
                !id.is_empty() && id.len() <= DOC_ID_BYTES_MAX && !id.chars().any(char::is_control)
            };
            if given.id.as_ref().is_some_and(|id| !is_name(id)) {
                let text = format!("use 1 to {DOC_ID_BYTES_MAX} bytes without control characters");
                return Err(Error::argument(&field("id"), text));
            }
        }
        if self.tokens_max.is_some_and(|most| !(1..=WINDOW_TOKENS_MAX).contains(&most)) {
            return Err(Error::argument("tokens_max", format!("use 1 to {WINDOW_TOKENS_MAX}")));
        }
        Ok(self)
    }

    /// Returns the question, and the position of the message that asks it.
    fn question<'a>(&'a self, queue: &'a [Message]) -> Result<(&'a str, Option<u64>)> {
        if let Some(question) = &self.question {
            return Ok((question, None));
        }
        let asks = |message: &&Message| {
            message.role == Role::User && message.kind.logged() && message.expired_at.is_none()
        };
        let newest = queue.iter().rev().find(asks).ok_or_else(|| {
            Error::argument("question", "is missing, and the queue has no message of the user")
        })?;
        let text = newest.content.as_str();
        Ok((&text[..text.floor_char_boundary(CONTEXT_QUESTION_BYTES_MAX)], Some(newest.seq)))
    }

    /// Returns the maximum number of tokens of the context's text.
    fn ceiling(&self, ctx: &Ctx<'_>) -> u64 {
        let (core, counter) = (ctx.core, ctx.around.counter);
        let window = core.token_budget.max;
        let frame = message_cost(counter, &server_message(core.form, ""));
        let reserve = window * CONTEXT_RESERVE_PERCENT / 100;
        let room = window.saturating_sub(tokens(core).occupancy + reserve + frame);
        room.min(self.tokens_max.unwrap_or(window * CONTEXT_PERCENT / 100))
    }
}

impl Command for BuildContext {
    const SPEC: Spec = Spec::command("build_context", Access::Read);

    fn step(&self, ctx: &Ctx<'_>) -> Result<Step, Stop> {
        let queue = ctx.queue()?;
        let (question, question_seq) = self.question(queue)?;
        let mut steps = Steps::default();
        let intent = QuestionIntent::read(question);
        steps.note("intent", json!({"task": intent.task, "parts": intent.sub_questions.len()}));
        let looks = plan(question, &intent, ctx.core.archived.chunks > 0);
        steps.note("plan", json!({"looks": looks.len()}));
        let found: &[LookFound] = match looks.is_empty() {
            true => &[],
            false => ctx.answers.looks(|| Question::Looks { looks })?,
        };
        let mut candidates = self.candidates(ctx, found, question_seq);
        steps.note("gather", json!({"candidates": candidates.len()}));
        let parts = &intent.sub_questions;
        let grades: Vec<Vec<Grade>> = parts.iter().map(|part| graded(part, &candidates)).collect();
        settle(&mut candidates, &grades);
        let best = |at: usize| {
            let of = grades.iter().map(|grades| grades[at]);
            of.max_by(|a, b| a.grade.total_cmp(&b.grade)).unwrap_or_default()
        };
        let correct = (0..candidates.len()).filter(|at| best(*at).is_correct()).count();
        steps.note("grade", json!({"correct": correct}));
        let tells_nothing = matches!(intent.task, Task::Question | Task::Instruction);
        let limits = PackLimits { tokens_max: self.ceiling(ctx), tells_nothing };
        let may_show = |at: usize| candidates[at].fate.is_none();
        let units = units(parts, &candidates, &grades, &may_show);
        steps.note("condense", json!({"units": units.len()}));
        let packed = pack(parts, &candidates, &units, limits, ctx.around.counter);
        steps.note("pack", json!({"tokens": packed.tokens, "tokens_max": limits.tokens_max}));
        let mut result = self.answer(ctx, queue, &packed, limits);
        result.insert("intent".into(), json!(intent));
        let item = |item: &PackItem| {
            let mut told = json!(item);
            told["grade"] = grade(best(item.candidate).grade);
            told
        };
        let of = |name: &str, items: &[PackItem]| {
            let tokens: u64 = items.iter().map(|item| item.tokens).sum();
            let items: Vec<Value> = items.iter().map(item).collect();
            json!({"name": name, "tokens": tokens, "items": items})
        };
        let sections = [("memory", &packed.memory), ("documents", &packed.documents)];
        let sections = sections.iter().filter(|(_, items)| !items.is_empty());
        result.insert("sections".into(), sections.map(|(name, items)| of(name, items)).collect());
        let kept: u64 = packed.memory.iter().chain(&packed.documents).map(|i| i.tokens).sum();
        let shown = packed.memory.iter().chain(&packed.documents).map(|item| item.candidate);
        let whole: u64 =
            shown.map(|at| ctx.around.counter.count(&candidates[at].text)).sum::<u64>();
        if whole > 0 {
            let ratio = (kept as f64 / whole as f64 * GRADE_UNITS).round() / GRADE_UNITS;
            result.insert("compression_ratio".into(), plain(ratio));
        }
        let failed = found.iter().find_map(|one| match one {
            LookFound::Failed(why) => Some(*why),
            LookFound::Recall(..) | LookFound::Archive(_) => None,
        });
        result.extend(failed.map(|why| ("degraded".to_owned(), why.into())));
        if self.explain {
            result.insert("steps".into(), steps.told());
            result.insert("left_out".into(), left_out(&candidates, &packed, &best));
        }
        Ok(Step::Read(result))
    }
}

impl BuildContext {
    /// Returns the candidates of the looks, then the given documents.
    fn candidates(
        &self,
        ctx: &Ctx<'_>,
        found: &[LookFound],
        question_seq: Option<u64>,
    ) -> Vec<Candidate> {
        let zone = zone(ctx.core);
        let barred = |message: &Message| {
            let TaintReport { rules, held } = ctx.around.taint.untrusted(ctx.core, message);
            let is_tainted = (!rules.is_empty()).then_some(Fate::Tainted);
            held.map(|_| Fate::Quarantined).or(is_tainted)
        };
        let of = |message: &Message| {
            let name = message.meta.get("name").and_then(Value::as_str);
            let speaker = name.unwrap_or(message.role.text()).to_owned();
            (time_of_message(message, &zone).to_string(), speaker)
        };
        let head_seq = ctx.core.queue.head_seq;
        let shown = MessageView { barred: &barred, of: &of, head_seq, question_seq };
        let mut pool = Pool::default();
        for (look, found) in found.iter().enumerate() {
            pool.add(look, found, &shown);
        }
        for (at, given) in self.documents.iter().enumerate() {
            let number = (at + 1).to_string();
            pool.add_document(given.id.as_deref().unwrap_or(&number), &given.text);
        }
        pool.candidates
    }

    /// Returns the fields of the answer about the context as a whole, and the prompt's messages.
    fn answer(
        &self,
        ctx: &Ctx<'_>,
        queue: &[Message],
        packed: &Pack,
        limits: PackLimits,
    ) -> Map<String, Value> {
        let window = assemble(ctx.core, queue);
        let mut messages = window.messages;
        if !packed.text.is_empty() {
            let message = server_message(ctx.core.form, &packed.text);
            // A given question is not in the window: the context ends the window.
            let is_asking = |message: &Value| message["role"] == Role::User.text();
            let asked = messages.iter().rposition(is_asking).filter(|_| self.question.is_none());
            messages.insert(asked.unwrap_or(messages.len()), message);
        }
        let mut result = Map::new();
        let shows = !packed.memory.is_empty() || !packed.documents.is_empty();
        result.insert("found".into(), shows.into());
        result.insert("text".into(), packed.text.as_str().into());
        result.insert("tokens_used".into(), packed.tokens.into());
        result.insert("tokens_max".into(), limits.tokens_max.into());
        result.insert("messages".into(), Value::Array(messages));
        result
    }
}

/// Decides which candidates cannot be shown: poor ones, and repetitions of a text.
fn settle(candidates: &mut [Candidate], grades: &[Vec<Grade>]) {
    let mut seen = std::collections::HashSet::new();
    for (at, candidate) in candidates.iter_mut().enumerate() {
        let given = matches!(candidate.origin, Origin::Document { .. });
        let best = grades.iter().map(|grades| grades[at].grade).fold(0.0, f64::max);
        if candidate.fate.is_some() {
            continue;
        }
        let words: Vec<&str> = candidate.text.split_whitespace().collect();
        if !seen.insert(words.join(" ")) {
            candidate.fate = Some(Fate::Repeated);
        } else if !given && best < GRADE_MIN {
            candidate.fate = Some(Fate::Poor);
        }
    }
}

/// Lists the candidates that the context does not show, best first, without their texts.
fn left_out(candidates: &[Candidate], packed: &Pack, best: &dyn Fn(usize) -> Grade) -> Value {
    let hidden = |at: &usize| packed.fates[*at] != Fate::Shown;
    let mut order: Vec<usize> = (0..candidates.len()).filter(hidden).collect();
    order.sort_by(|a, b| best(*b).grade.total_cmp(&best(*a).grade));
    let one = |at: usize| {
        json!({"origin": candidates[at].origin, "reason": packed.fates[at],
            "grade": grade(best(at).grade)})
    };
    order.into_iter().take(LEFT_OUT_MAX).map(one).collect()
}

fn grade(value: f64) -> Value {
    plain((value * GRADE_UNITS).round() / GRADE_UNITS)
}

fn zone(core: &Core) -> TimeZone {
    let clock = core.window_clock.as_ref();
    clock.and_then(|clock| zone_of(&clock.zone)).unwrap_or(TimeZone::UTC)
}
