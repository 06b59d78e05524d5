//! `build_context`: builds a context for a question: what the memory and given documents say about
//! it, in a bounded number of tokens. It changes nothing of the memory.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::context_gather::{Gathered, held, only};
use super::context_models::ContextModels;
use super::context_told::{content_of, ratio, sections, verdict_told};
use super::spec::{Access, Arguments, Card, Command, Spec};
use super::told;
use crate::context::{
    Breadth, BuildVerdict, Candidate, Grade, Keep, PackLimits, QuestionIntent, Steps, SubQuestion,
    Task, Units, WindowText, agree, answered, asks_for_order, by_place, is_english, judge_build,
    link, pack, route,
};
use crate::error::{Error, Result};
use crate::limits::{
    CONTEXT_DOCUMENTS_MAX, CONTEXT_QUESTION_BYTES_MAX, DOC_ID_BYTES_MAX, WINDOW_TOKENS_MAX,
};
use crate::memory::core::Core;
use crate::memory::engineer::Depth;
use crate::memory::message::{Message, Role};
use crate::memory::pack::{ContextPack, Fate, Origin, speaker};
use crate::memory::slots::Slots;
use crate::policy::{Ctx, Question, Step, Stop};
use crate::text::lexical;
use crate::window::{assemble, context_cost, context_tokens_max, shown_context, tokens};

/// What is missing if the window's other parts leave no token for a context.
const NO_ROOM: &str = "room";
/// Fields of the answer to a tool call without `explain`.
const TOLD_TO_MODELS: [&str; 6] =
    ["found", "text", "tokens_used", "tokens_max", "pack", "degraded"];

/// Arguments of `build_context`, and body of `POST /v1/agents/{agent}/context`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BuildContext {
    /// What the context is for. By default, it is for the newest message of the user.
    #[serde(default)]
    #[schemars(extend("x-model" = ""))]
    pub question: Option<String>,
    /// Texts to choose from in addition to the memory.
    #[serde(default)]
    pub documents: Vec<GivenText>,
    /// Maximum number of tokens of the context. By default, the context takes at most 45 % of the
    /// window; it always leaves a fifth of the window for the answer.
    #[serde(default)]
    #[schemars(range(min = 1, max = WINDOW_TOKENS_MAX))]
    pub tokens_max: Option<u64>,
    /// Shares of the window in percent, together 100. With them, the context also gets what the
    /// window's sections leave of their shares.
    #[serde(default)]
    pub slots: Option<Slots>,
    /// How far the memory is looked into.
    #[serde(default)]
    pub depth: Depth,
    /// Whether the answer also says what each step did, and which texts were left out and why.
    #[serde(default)]
    pub explain: bool,
    /// Whether the memory is looked into even if the window answers the question.
    #[serde(skip)]
    pub always: bool,
    /// Number of tokens of the window that are free for the context's message, if the caller knows.
    #[serde(skip)]
    pub room: Option<u64>,
    /// Whether the answer has the messages of a prompt with this context, too.
    #[serde(skip)]
    pub with_messages: bool,
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

impl Arguments for BuildContext {
    const CARD: Card = Card {
        title: "Look everything up",
        description: "Get all that memory and archive say about a question, chosen and in order.",
        example: r#"{"question": "When does Ada leave for Lisbon?"}"#,
        result: &[
            ("found", "boolean", "whether anything was found that is on the question"),
            ("text", "string", "what was found, for the model"),
            ("tokens_used", "integer", "tokens of the text"),
            ("tokens_max", "integer", "tokens that the text could have taken"),
            ("pack", "string?", "digest of the context pack, which keeps what was shown and why"),
        ],
        idempotent: true,
        on_request: true,
        told: told::context,
        ..Card::NEW
    };

    fn checked(self) -> Result<Self> {
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
        if let Some(slots) = self.slots {
            slots.checked()?;
        }
        if self.tokens_max.is_some_and(|most| !(1..=WINDOW_TOKENS_MAX).contains(&most)) {
            return Err(Error::argument("tokens_max", format!("use 1 to {WINDOW_TOKENS_MAX}")));
        }
        Ok(self)
    }
}

impl BuildContext {
    /// Returns the question, and the position of the message that asks it.
    fn question<'a>(&'a self, queue: &'a [Message]) -> Result<(&'a str, Option<u64>)> {
        if let Some(question) = &self.question {
            return Ok((question, None));
        }
        let newest = newest_question(queue).ok_or_else(|| {
            Error::argument("question", "is missing, and the queue has no message of the user")
        })?;
        let text = newest.content.as_str();
        Ok((&text[..text.floor_char_boundary(CONTEXT_QUESTION_BYTES_MAX)], Some(newest.seq)))
    }

    /// Returns the maximum number of tokens of the context's text.
    pub(super) fn ceiling(&self, ctx: &Ctx<'_>) -> u64 {
        let (core, counter) = (ctx.core, ctx.around.counter);
        let (window, now) = (core.token_budget.max, tokens(core));
        let frame = context_cost(counter, core.form, "");
        let slots = self.slots.unwrap_or(ctx.around.context.slots);
        let free = window.saturating_sub(now.occupancy + window * slots.reserve / 100);
        let room = self.room.unwrap_or(free).saturating_sub(frame);
        let most = match (self.slots, self.tokens_max) {
            (None, own) => own.unwrap_or(window * slots.documents / 100),
            (Some(slots), own) => {
                let slot = context_tokens_max(slots, window, &now).saturating_sub(frame);
                own.map_or(slot, |own| own.min(slot))
            }
        };
        room.min(most)
    }
}

/// Returns the newest message of the user in a queue.
pub fn newest_question(queue: &[Message]) -> Option<&Message> {
    queue.iter().rev().find(|message| {
        message.role == Role::User && message.kind.logged() && message.expired_at.is_none()
    })
}

/// A context that was built for a question.
#[derive(Clone, Debug)]
pub struct BuiltContext {
    /// The text for the model; empty if there is nothing to show.
    pub text: String,
    /// Whether a prompt needs the text: it shows an answer or a lasting request of the user.
    pub is_needed: bool,
    /// The context pack; `None` without a text.
    pub pack: Option<ContextPack>,
    /// Position of the message with the question; `None` for a given question.
    pub question_seq: Option<u64>,
    /// The step without a usable answer of its model, or the component that failed, if any.
    pub degraded: Option<&'static str>,
    /// The fields of the answer about the context.
    told: Map<String, Value>,
}

impl Command for BuildContext {
    const SPEC: Spec = Spec::tool("build_context", Access::Read);

    fn step(&self, ctx: &Ctx<'_>) -> Result<Step, Stop> {
        let mut built = self.build(ctx)?;
        let mut result = std::mem::take(&mut built.told);
        if let Some(pack) = &built.pack {
            result.insert("pack".into(), pack.digest.as_str().into());
        }
        if self.with_messages {
            result.extend(messages_with(ctx, &built)?);
        } else if !self.explain {
            // A model pays for every field.
            result.retain(|name, _| TOLD_TO_MODELS.contains(&name.as_str()));
        }
        if ctx.around.capture.is_some() {
            // The queue keeps the text, so no pack is needed.
            result.remove("pack");
            return Ok(Step::Read(result));
        }
        Ok(match built.pack {
            Some(pack) => Step::Keep(result, Box::new(pack)),
            None => Step::Read(result),
        })
    }
}

impl BuildContext {
    /// Builds the context. Fails for a memory without a question.
    pub fn build(&self, ctx: &Ctx<'_>) -> Result<BuiltContext, Stop> {
        let queue = ctx.queue()?;
        let (question, question_seq) = self.question(queue)?;
        let mut steps = Steps::default();
        let mut models = ContextModels::new(ctx);
        let mut intent = QuestionIntent::read(question);
        steps.note("intent", json!({"task": intent.task, "parts": intent.sub_questions.len()}));
        if !is_english(question) {
            steps.note("language", json!({"english": false}));
        }
        let mut parts = self.parts((ctx.core, queue), (question, question_seq), &intent);
        let mut plan = None;
        if !parts.is_empty() {
            plan = models.plan(&mut steps, question)?;
            if let Some(plan) = plan.as_ref().filter(|plan| !plan.questions.is_empty()) {
                intent = intent.with_parts(&plan.questions);
                parts = self.open_parts((ctx.core, queue), question_seq, &intent);
            }
        }
        steps.note("check", json!({"open": parts.len()}));
        let breadth = Breadth::read(question, intent.task);
        let asked = (question, question_seq, breadth);
        let mut gathered = self.gather(ctx, asked, parts, (&mut models, &mut steps))?;
        let own = only(&gathered.parts);
        let verdict = judge_build(question, &own, &gathered.candidates, &gathered.grades);
        let units = compared(ctx, &mut gathered, self.fills(), &mut steps)?;
        models.rerank(&mut steps, question, &mut gathered)?;
        let graded = models.grade(&mut steps, question, &mut gathered)?;
        let verdict = graded.map(BuildVerdict::of_model).or(verdict);
        let is_open = !gathered.parts.is_empty();
        let all: Vec<usize> = (0..gathered.parts.len()).collect();
        let is_given = !self.documents.is_empty();
        let sure = if is_given { all.clone() } else { held(&gathered) };
        let is_held = !sure.is_empty();
        let kept = if self.fills() { all } else { sure };
        let unlinked = is_given.then(|| gathered.grades.clone());
        link(&gathered.candidates, &mut gathered.grades);
        let knows = is_held || !is_open || gathered.knows();
        let has_before = queue.iter().any(|message| {
            question_seq != Some(message.seq)
                && message.kind.logged()
                && message.role != Role::System
        });
        let (mut route, mut ask) = route(question, &intent, knows, has_before);
        if let Some(plan) = plan {
            (route, ask) = (plan.route, plan.ask);
        }
        let mut told_grades = unlinked.unwrap_or_else(|| gathered.grades.clone());
        // Beside messages, documents that agree would take the tokens of the memory.
        agree(question, &gathered.candidates, &mut told_grades);
        let Gathered { parts, mut candidates, grades, degraded } = gathered;
        let has_room = self.ceiling(ctx) > 0;
        let degraded = degraded.or(models.degraded).or((!has_room).then_some(NO_ROOM));
        let parts: Vec<(usize, SubQuestion)> = kept.iter().map(|at| parts[*at].clone()).collect();
        let grades: Vec<Vec<Grade>> = kept.iter().map(|at| grades[*at].clone()).collect();
        let least = if self.fills() { 0.0 } else { ctx.around.context.grade_min };
        settle(&mut candidates, &grades, least);
        let best = |at: usize| {
            let of = told_grades.iter().map(|grades| grades[at]);
            of.max_by(|a, b| a.grade.total_cmp(&b.grade)).unwrap_or_default()
        };
        let correct = (0..candidates.len()).filter(|at| best(*at).is_correct()).count();
        steps.note("grade", json!({"correct": correct}));
        let asks = matches!(intent.task, Task::Question | Task::Instruction);
        // A prompt without a context says nothing of the memory.
        let tells_nothing = asks && is_open && self.room.is_none();
        let (tokens_max, fills) = (self.ceiling(ctx), self.fills());
        let is_chronological = asks_for_order(question) || intent.task == Task::Summarise;
        let limits = PackLimits { tokens_max, tells_nothing, fills, is_held, is_chronological };
        let may_show = |at: usize| candidates[at].fate.is_none();
        let asked = only(&parts);
        let mut units = units.valued(&kept, &grades, &may_show);
        // A text with a lasting request is kept for the request, whatever else it says.
        let is_poor = |at: usize| !grades.iter().any(|grades| grades[at].grade >= least);
        let is_lasting = |at: usize| !candidates[at].lasting.is_empty();
        units.retain(|unit| {
            unit.is_lasting || !is_lasting(unit.candidate) || !is_poor(unit.candidate)
        });
        if self.fills() {
            by_place(&mut units, &candidates, tokens_max, breadth);
        }
        steps.note("condense", json!({"units": units.len()}));
        let mut packed = pack(&asked, &candidates, &units, limits, ctx.around.counter);
        packed.number_parts(|at| parts.get(at).map_or(at, |part| part.0));
        steps.note("pack", json!({"tokens": packed.tokens, "tokens_max": limits.tokens_max}));
        let content = content_of(&candidates, &packed, question_seq, &best);
        let mut told = Map::new();
        let found = is_held && !content.items.is_empty();
        let is_needed = found || packed.memory.iter().any(|item| item.is_lasting);
        told.insert("found".into(), found.into());
        told.insert("text".into(), packed.text.as_str().into());
        told.insert("tokens_used".into(), packed.tokens.into());
        told.insert("tokens_max".into(), limits.tokens_max.into());
        told.extend(verdict.map(|verdict| ("verdict".to_owned(), verdict_told(verdict))));
        told.insert("route".into(), json!(route));
        told.extend(ask.map(|ask| ("ask".to_owned(), ask.into())));
        told.insert("intent".into(), json!(intent));
        let parts: Option<&dyn Fn(usize) -> Grade> = if self.explain { Some(&best) } else { None };
        told.insert("sections".into(), sections(&packed, &content.items, parts));
        told.extend(ratio(&candidates, &packed, ctx.around.counter));
        told.extend(degraded.map(|why| ("degraded".to_owned(), why.into())));
        if self.explain {
            told.insert("steps".into(), steps.told());
            told.insert("left_out".into(), json!(content.left_out));
        }
        let pack = (!packed.text.is_empty()).then(|| ContextPack::of(&ctx.core.agent_id, &content));
        Ok(BuiltContext { text: packed.text, is_needed, pack, question_seq, degraded, told })
    }

    /// Whether the context is for a prompt, which shows the window, too. The caller of a tool gets
    /// the text alone, and may not see the window.
    pub(super) fn is_beside_window(&self) -> bool {
        self.with_messages || self.room.is_some()
    }

    /// Whether texts that say less fill the rest of the tokens: a caller who names a number of
    /// tokens wants as much evidence in them as there is.
    pub(super) fn fills(&self) -> bool {
        self.tokens_max.is_some() && self.room.is_none()
    }

    /// Whether the memory is looked into whatever the window says.
    pub(super) fn looks_anyway(&self) -> bool {
        self.always || !self.documents.is_empty() || !self.is_beside_window()
    }

    /// Returns the parts of a message for which the memory is looked into, with their numbers.
    fn parts(
        &self,
        memory: (&Core, &[Message]),
        (question, question_seq): (&str, Option<u64>),
        intent: &QuestionIntent,
    ) -> Vec<(usize, SubQuestion)> {
        match intent.task {
            // A statement of the user asks for nothing; a given question may be a few words.
            Task::Statement if self.question.is_none() => Vec::new(),
            // A caller who names a question and a number of tokens gets texts on whatever it is.
            Task::Command | Task::SmallTalk if self.question.is_some() && self.fills() => {
                vec![(0, SubQuestion::of(question))]
            }
            _ => self.open_parts(memory, question_seq, intent),
        }
    }

    /// Returns the parts of a question that no text of the window answers by itself, with their
    /// numbers.
    fn open_parts(
        &self,
        (core, queue): (&Core, &[Message]),
        question_seq: Option<u64>,
        intent: &QuestionIntent,
    ) -> Vec<(usize, SubQuestion)> {
        let all = intent.sub_questions.iter().cloned().enumerate();
        if self.looks_anyway() {
            return all.collect();
        }
        let said = queue.iter().filter(|message| Some(message.seq) != question_seq);
        let said = said.filter(|message| message.kind.logged() && message.expired_at.is_none());
        let speakers: Vec<(&str, String)> =
            said.map(|message| (message.content.as_str(), speaker(message))).collect();
        let mut window: Vec<WindowText<'_>> = speakers
            .iter()
            .map(|(text, speaker)| WindowText { text, speaker: Some(speaker) })
            .collect();
        let summary = core.queue_head_summary.content.as_str();
        let texts = core.working_blocks.iter().map(|block| block.content.as_str());
        let texts = texts.chain(summary.lines());
        window.extend(texts.map(|text| WindowText { text, speaker: None }));
        let answered = answered(&intent.sub_questions, &window);
        all.zip(answered).filter(|(_, answered)| !answered).map(|(part, _)| part).collect()
    }
}

/// Returns the fields of an answer about the prompt with a context: its messages, their manifest
/// and their digest.
fn messages_with(ctx: &Ctx<'_>, built: &BuiltContext) -> Result<Map<String, Value>, Stop> {
    let mut core = ctx.core.clone();
    if let Some(pack) = &built.pack {
        let (counter, form) = (ctx.around.counter, core.form);
        let shown = shown_context(counter, form, pack, built.question_seq, built.text.clone());
        core.context.get_or_insert_default().shown = Some(shown);
    }
    let window = assemble(&core, ctx.queue()?);
    Ok(Map::from_iter([
        ("messages".to_owned(), Value::Array(window.messages)),
        ("manifest".to_owned(), window.manifest),
        ("context_digest".to_owned(), window.context_digest.into()),
    ]))
}

/// Reads the units of the candidates. With an embedding model, compares the most valuable ones with
/// the parts of the question by meaning, and grades the candidates by it, too.
fn compared(
    ctx: &Ctx<'_>,
    gathered: &mut Gathered,
    fills: bool,
    steps: &mut Steps,
) -> Result<Units, Stop> {
    let Gathered { parts, candidates, grades, degraded } = gathered;
    let may_show = |at: usize| candidates[at].fate.is_none();
    let mut units = Units::read(&only(parts), candidates, &may_show, fills);
    let chosen = units.to_compare(grades);
    if chosen.is_empty() || lexical::makes(ctx.around.embedder) {
        return Ok(units);
    }
    let likeness = ctx.answers.likeness(|| Question::Compare {
        questions: parts.iter().map(|(_, part)| part.text.clone()).collect(),
        texts: chosen.iter().map(|at| units.text(candidates, *at).to_owned()).collect(),
    })?;
    *degraded = degraded.or(ctx.answers.degraded);
    steps.note("compare", json!({"units": if likeness.is_empty() { 0 } else { chosen.len() }}));
    units.compare(chosen, likeness, grades);
    Ok(units)
}

/// Decides which candidates cannot be shown, poor ones and repetitions of a text, and how long the
/// others are kept. `least` is the grade from which a text is shown.
fn settle(candidates: &mut [Candidate], grades: &[Vec<Grade>], least: f64) {
    let mut seen = HashSet::new();
    for (at, candidate) in candidates.iter_mut().enumerate() {
        let given = matches!(candidate.origin, Origin::Document { .. });
        let best = grades.iter().map(|grades| grades[at].grade).fold(0.0, f64::max);
        let is_correct = grades.iter().any(|grades| grades[at].is_correct());
        candidate.keep = Keep::of(&candidate.origin, is_correct);
        if candidate.fate.is_some() {
            continue;
        }
        let words: Vec<&str> = candidate.text.split_whitespace().collect();
        if !seen.insert(words.join(" ")) {
            candidate.fate = Some(Fate::Repeated);
        } else if !given && best < least && candidate.lasting.is_empty() {
            candidate.fate = Some(Fate::Poor);
        }
    }
}
