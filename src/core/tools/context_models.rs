//! Asks the models that take over steps of a context build. Without a usable answer in time, the
//! local step stands.

use serde_json::json;

use super::context_gather::Gathered;
use crate::context::{
    GRADED_MAX, ModelPlan, RERANKED_MAX, Rewrite, Steps, grader, planner, read_grades, read_plan,
    read_rewrite, read_scores, reranker, rewriter,
};
use crate::memory::model_role::{ModelAsk, ModelRole};
use crate::policy::{Ctx, Stop};

/// Weight of a cross-encoder's score in the logit of a grade, and the score that leaves a grade as
/// it is: as the meaning has them.
const RERANKED: f64 = 4.0;
const RERANKED_HALF: f64 = 0.5;

/// The asks of a build to models, in their order.
pub(super) struct ContextModels<'a> {
    ctx: Ctx<'a>,
    asked: usize,
    /// The first step whose model gave no usable answer.
    pub(super) degraded: Option<&'static str>,
}

impl<'a> ContextModels<'a> {
    pub(super) fn new(ctx: &Ctx<'a>) -> Self {
        Self { ctx: *ctx, asked: 0, degraded: None }
    }

    fn has(&self, role: ModelRole) -> bool {
        self.ctx.around.roles.has(role)
    }

    /// Returns what a model answers to an ask; `None` if its answer is not usable.
    fn answer<T>(
        &mut self,
        steps: &mut Steps,
        ask: ModelAsk,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Stop> {
        let role = ask.role.text();
        let number = self.asked;
        self.asked += 1;
        let answer = self.ctx.answers.of_model(number, || ask)?.and_then(read);
        steps.note(role, json!({"answered": answer.is_some()}));
        if answer.is_none() {
            self.degraded = self.degraded.or(Some(role));
        }
        Ok(answer)
    }

    /// Lets the planner split a message into questions.
    pub(super) fn plan(
        &mut self,
        steps: &mut Steps,
        message: &str,
    ) -> Result<Option<ModelPlan>, Stop> {
        match self.has(ModelRole::Planner) {
            true => self.answer(steps, planner(message), read_plan),
            false => Ok(None),
        }
    }

    /// Lets the rewriter say questions in other words.
    pub(super) fn rewrite(
        &mut self,
        steps: &mut Steps,
        questions: &[&str],
    ) -> Result<Option<Rewrite>, Stop> {
        match self.has(ModelRole::Rewriter) && !questions.is_empty() {
            true => self.answer(steps, rewriter(questions.iter().copied()), read_rewrite),
            false => Ok(None),
        }
    }

    /// Lets a cross-encoder compare the best candidates with the question.
    pub(super) fn rerank(
        &mut self,
        steps: &mut Steps,
        question: &str,
        gathered: &mut Gathered,
    ) -> Result<(), Stop> {
        let best = self.best(ModelRole::Reranker, gathered, RERANKED_MAX);
        if best.is_empty() {
            return Ok(());
        }
        let ask = reranker(question, gathered.texts(&best));
        let scores = self.answer(steps, ask, |answer| read_scores(answer, best.len()))?;
        for (at, score) in best.into_iter().zip(scores.unwrap_or_default()) {
            let gain = RERANKED * (score - RERANKED_HALF);
            for grades in &mut gathered.grades {
                grades[at] = grades[at].raised(gain);
                grades[at].model = Some(score);
            }
        }
        Ok(())
    }

    /// Lets the grader grade the best candidates. Its grade counts for the part of the question
    /// that a candidate answers best; for the other parts, the candidate is no better than that.
    /// Returns the best grade, if the grader gave any.
    pub(super) fn grade(
        &mut self,
        steps: &mut Steps,
        question: &str,
        gathered: &mut Gathered,
    ) -> Result<Option<f64>, Stop> {
        let best = self.best(ModelRole::Grader, gathered, GRADED_MAX);
        if best.is_empty() {
            return Ok(None);
        }
        let ask = grader(question, gathered.texts(&best));
        let grades = self.answer(steps, ask, |answer| read_grades(answer, best.len()))?;
        let most = grades.as_ref().map(|all| all.iter().copied().fold(0.0, f64::max));
        for (at, grade) in best.into_iter().zip(grades.unwrap_or_default()) {
            let own = gathered.best_part(at);
            for (part, grades) in gathered.grades.iter_mut().enumerate() {
                let known = &mut grades[at];
                known.grade = if own == Some(part) { grade } else { known.grade.min(grade) };
                known.model = Some(grade);
            }
        }
        Ok(most)
    }

    /// Returns the best candidates that a context may show and a model may read, best first; none
    /// if no model has the role.
    fn best(&self, role: ModelRole, gathered: &Gathered, most: usize) -> Vec<usize> {
        if !self.has(role) {
            return Vec::new();
        }
        let may_read = |at: &usize| {
            let candidate = &gathered.candidates[*at];
            let withheld = self.ctx.around.taint.withheld(&candidate.text);
            candidate.fate.is_none() && withheld.is_none()
        };
        let mut order: Vec<usize> = (0..gathered.candidates.len()).filter(may_read).collect();
        order.sort_by(|a, b| gathered.best_grade(*b).total_cmp(&gathered.best_grade(*a)));
        order.truncate(most);
        order
    }
}
