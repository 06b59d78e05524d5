//! Looks into the memory for a context, round by round.

use std::collections::HashSet;

use serde_json::json;

use super::build_context::BuildContext;
use super::context_models::ContextModels;
use super::context_told::{barred, zone};
use crate::context::{
    Breadth, Candidate, Grade, MessageView, Pool, Steps, SubQuestion, answered_better, apart,
    bridges, graded_all, is_held, is_identifier, keep_statements, plan, plan_further, plan_meaning,
};
use crate::memory::core::Core;
use crate::memory::engineer::Depth;
use crate::memory::message::Message;
use crate::memory::pack::speaker;
use crate::policy::{Ctx, Question, Stop, time_of_message};
use crate::search::{LOOK_ROWS, LOOK_ROWS_MAX, LOOKS_MAX, Look, LookFound};
use crate::text::lexical;

/// Maximum number of rounds of looks; a call may ask 16 questions.
const ROUNDS_MAX: usize = 9;
/// Number of rounds after which names are followed, by default and for a deep build.
const NAME_ROUNDS: usize = 1;
const NAME_ROUNDS_DEEP: usize = 3;
/// Maximum number of questions, further ones included.
const PARTS_MAX: usize = 16;
/// Share of the words of a part from which a text knows what it is about.
const KNOWN_COVERAGE: f64 = 0.5;
/// How much the logit of a grade for a further question, or for a name of the question, is lower:
/// such a question says less of what is asked. Chosen on the development halves of HotpotQA,
/// MuSiQue and the questions about code.
const FURTHER_LOGIT: f64 = 1.0;
/// Fewest tokens of a short message in a context.
const TOKENS_A_ROW: u64 = 20;

impl Depth {
    /// Returns the maximum number of rounds of looks. Identifiers are followed to the last one.
    fn rounds(self) -> usize {
        match self {
            Self::Once => 1,
            Self::Auto | Self::Deep => ROUNDS_MAX,
        }
    }

    /// Whether names are followed after a round.
    fn follows_names(self, round: usize) -> bool {
        match self {
            Self::Once => false,
            Self::Auto => round < NAME_ROUNDS,
            Self::Deep => round < NAME_ROUNDS_DEEP,
        }
    }
}

impl Gathered {
    /// Returns the part of the question that a candidate answers best.
    pub(super) fn best_part(&self, at: usize) -> Option<usize> {
        let parts = 0..self.grades.len();
        parts.max_by(|a, b| self.grades[*a][at].grade.total_cmp(&self.grades[*b][at].grade))
    }

    /// Returns the best grade of a candidate.
    pub(super) fn best_grade(&self, at: usize) -> f64 {
        self.best_part(at).map_or(0.0, |part| self.grades[part][at].grade)
    }

    /// Whether a text has at least half of what a part of the question names.
    pub(super) fn knows(&self) -> bool {
        self.grades.iter().flatten().any(|grade| grade.coverage >= KNOWN_COVERAGE)
    }

    /// Returns the texts of candidates.
    pub(super) fn texts<'a>(&'a self, at: &'a [usize]) -> impl Iterator<Item = &'a str> {
        at.iter().map(|at| self.candidates[*at].text.as_str())
    }
}

/// Returns the numbers of the parts of a question on which the memory holds something, with the
/// further questions that continue them.
pub(super) fn held(gathered: &Gathered) -> Vec<usize> {
    let Gathered { parts, candidates, grades, .. } = gathered;
    let shown: Vec<usize> =
        (0..candidates.len()).filter(|at| candidates[*at].fate.is_none()).collect();
    let is_named = |part: &SubQuestion| {
        let mut ids = part.entities.iter().filter(|name| is_identifier(name));
        ids.any(|name| shown.iter().any(|at| candidates[*at].text.contains(name)))
    };
    let is_held = |part: &SubQuestion, grades: &[Grade]| {
        is_held(part, shown.iter().map(|at| grades[*at])) || is_named(part)
    };
    let all = parts.iter().zip(grades);
    let held: HashSet<usize> = all
        .filter(|((_, part), grades)| is_held(part, grades))
        .map(|((number, _), _)| *number)
        .collect();
    (0..parts.len()).filter(|at| held.contains(&parts[*at].0)).collect()
}

/// Returns the numbers and texts of the parts of a question on which nothing correct was found.
fn poor<'p>(
    parts: &'p [(usize, SubQuestion)],
    candidates: &[Candidate],
    grades: &[Vec<Grade>],
) -> Vec<(usize, &'p str)> {
    let is_correct = |grades: &Vec<Grade>| {
        let mut shown = candidates.iter().zip(grades).filter(|(one, _)| one.fate.is_none());
        shown.any(|(_, grade)| grade.is_correct())
    };
    let answered: HashSet<usize> = parts
        .iter()
        .zip(grades)
        .filter(|(_, grades)| is_correct(grades))
        .map(|((number, _), _)| *number)
        .collect();
    let mut seen = HashSet::new();
    let open = parts.iter().filter(|(number, _)| !answered.contains(number));
    let first = open.filter(|(number, _)| seen.insert(*number));
    first.map(|(number, part)| (*number, part.text.as_str())).collect()
}

/// Lowers the grades for the questions after the first `own` ones, which are parts of the question.
fn lower(mut grades: Vec<Vec<Grade>>, own: usize) -> Vec<Vec<Grade>> {
    for grade in grades.iter_mut().skip(own).flatten() {
        *grade = grade.raised(-FURTHER_LOGIT);
    }
    grades
}

/// What a build gathered.
pub(super) struct Gathered {
    /// The parts of the question that are open, each with its number in the question; further
    /// questions have the number of the part that they continue.
    pub(super) parts: Vec<(usize, SubQuestion)>,
    pub(super) candidates: Vec<Candidate>,
    /// The grades of all candidates for each of `parts`.
    pub(super) grades: Vec<Vec<Grade>>,
    /// The component that failed, if any.
    pub(super) degraded: Option<&'static str>,
}

pub(super) fn only(parts: &[(usize, SubQuestion)]) -> Vec<SubQuestion> {
    parts.iter().map(|(_, part)| part.clone()).collect()
}

impl BuildContext {
    /// Returns how many results of a look become candidates: a large context needs more of them.
    fn rows(&self, ctx: &Ctx<'_>) -> usize {
        if !self.fills() {
            return LOOK_ROWS;
        }
        let fitting = usize::try_from(self.ceiling(ctx) / TOKENS_A_ROW).unwrap_or(LOOK_ROWS_MAX);
        fitting.clamp(LOOK_ROWS, LOOK_ROWS_MAX)
    }

    /// Whether the memory can have lasting requests of the user that the window does not show.
    fn looks_for_lasting(&self, core: &Core) -> bool {
        !self.is_beside_window() || core.queue.head_seq > 1
    }

    /// Looks into the memory, round by round: for the parts of the question, and then for names and
    /// identifiers that good texts mention.
    pub(super) fn gather(
        &self,
        ctx: &Ctx<'_>,
        (question, question_seq, breadth): (&str, Option<u64>, Breadth),
        mut parts: Vec<(usize, SubQuestion)>,
        (models, steps): (&mut ContextModels<'_>, &mut Steps),
    ) -> Result<Gathered, Stop> {
        let has_archive = ctx.core.archived.chunks > 0;
        let mut degraded = None;
        let mut pool = Pool::default();
        for (at, given) in self.documents.iter().enumerate() {
            let number = (at + 1).to_string();
            pool.add_document(given.id.as_deref().unwrap_or(&number), &given.text);
        }
        // Given documents are all there; there is nothing to look for in a further round.
        let depth = match (self.depth, ctx.around.context.depth) {
            (Depth::Auto, configured) => configured,
            (asked, _) => asked,
        };
        let depth = match depth {
            Depth::Auto if !self.documents.is_empty() => Depth::Once,
            depth => depth,
        };
        let looked_apart = if depth == Depth::Once { &[][..] } else { &parts[..] };
        let names: Vec<(usize, SubQuestion)> = looked_apart
            .iter()
            .flat_map(|(number, part)| apart(part).into_iter().map(|one| (*number, one)))
            .collect();
        let mut own = parts.len();
        let rows = self.rows(ctx);
        let mut looks = plan(question, &only(&parts), has_archive, rows);
        pool.first_looks = looks.len();
        looks.extend(plan_further(&only(&names), has_archive, rows));
        looks.truncate(LOOKS_MAX - 1);
        if !looks.is_empty() && self.looks_for_lasting(ctx.core) {
            looks.push(Look::Lasting);
        }
        parts.extend(names);
        let (mut asked, mut looked) = (HashSet::new(), 0);
        for round in 0..depth.rounds() {
            steps.note("plan", json!({"round": round, "looks": looks.len()}));
            if !looks.is_empty() {
                let found = ctx.answers.look_round(round, || Question::Looks { looks })?;
                self.add(ctx, &mut pool, (looked, found), question_seq);
                looked += found.len();
                degraded = degraded.or(found.iter().find_map(LookFound::failed));
            }
            keep_statements(&mut pool.candidates);
            steps.note("gather", json!({"candidates": pool.candidates.len()}));
            let mut grades = graded_all(&only(&parts), &pool.candidates);
            if round == 0 && !self.looks_anyway() {
                let answered = answered_better(&pool.candidates, &grades);
                let answered: HashSet<usize> = parts[..own]
                    .iter()
                    .zip(answered)
                    .filter(|(_, answered)| *answered)
                    .map(|((number, _), _)| *number)
                    .collect();
                own = parts[..own].iter().filter(|(number, _)| !answered.contains(number)).count();
                let all = parts.into_iter().zip(grades);
                (parts, grades) = all.filter(|((number, _), _)| !answered.contains(number)).unzip();
            }
            let open = only(&parts);
            let follows_names = depth.follows_names(round);
            let further = match parts.len() < PARTS_MAX {
                true => bridges(&open, &pool.candidates, &grades, follows_names, &mut asked),
                false => Vec::new(),
            };
            let mut further: Vec<(usize, SubQuestion)> =
                further.into_iter().map(|one| (parts[one.part].0, one.question)).collect();
            let mut beside = Vec::new();
            if round == 0 && depth != Depth::Once {
                let poor = poor(&parts, &pool.candidates, &grades);
                let questions: Vec<&str> = poor.iter().map(|(_, text)| *text).collect();
                if let Some(rewrite) = models.rewrite(steps, &questions)? {
                    let number = poor[0].0;
                    let queries = rewrite.queries.iter();
                    further.extend(queries.map(|query| (number, SubQuestion::of(query))));
                    // Hashed words have no meaning that a sentence of a model could be near.
                    let hypothesis =
                        rewrite.hypothesis.filter(|_| !lexical::makes(ctx.around.embedder));
                    beside = hypothesis
                        .map_or_else(Vec::new, |text| plan_meaning(&text, has_archive, rows));
                }
            }
            // An overview needs what was said and what was replied.
            if round == 0 && depth != Depth::Once && breadth == Breadth::Overview {
                let ids = pool.first_messages();
                beside.extend((!ids.is_empty()).then_some(Look::Partners { ids }));
            }
            if further.is_empty() && beside.is_empty() {
                let grades = lower(grades, own);
                return Ok(Gathered { parts, candidates: pool.candidates, grades, degraded });
            }
            steps.note("bridge", json!({"further": further.len()}));
            looks = beside;
            looks.extend(plan_further(&only(&further), has_archive, rows));
            looks.truncate(LOOKS_MAX);
            parts.extend(further);
        }
        let grades = lower(graded_all(&only(&parts), &pool.candidates), own);
        Ok(Gathered { parts, candidates: pool.candidates, grades, degraded })
    }

    /// Adds to the pool what looks found; the first of them has the given number.
    fn add(
        &self,
        ctx: &Ctx<'_>,
        pool: &mut Pool,
        (first, found): (usize, &[LookFound]),
        question_seq: Option<u64>,
    ) {
        let zone = zone(ctx.core);
        let barred = |message: &Message| barred(ctx, message);
        let of = |message: &Message| (time_of_message(message, &zone).day(), speaker(message));
        let head_seq = if self.is_beside_window() { ctx.core.queue.head_seq } else { u64::MAX };
        let shown = MessageView { barred: &barred, of: &of, head_seq, question_seq };
        for (at, found) in found.iter().enumerate() {
            pool.add(first + at, found, &shown);
        }
    }
}
