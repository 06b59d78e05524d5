//! Builds a context for a question: reads the question, plans looks into the memory, grades what
//! they find, condenses it, and packs it into a bounded number of tokens.
//!
//! ```text
//! question -> intent -> check -> plan -> gather -> grade -> compare -> condense -> pack
//!                                ^-- bridge <--+
//! ```
//!
//! Every step is a pure function except gather and compare, which the executor does.

mod agree;
mod bridge;
mod candidate;
mod check;
mod condense;
mod cut;
mod extract;
mod fill;
mod grade;
mod intent;
mod judge;
mod keep;
mod language;
mod lasting;
mod link;
mod look;
mod pack;
mod roles;
mod route;
mod sentence;
mod steps;
mod verdict;

pub use agree::agree;
pub use bridge::{Bridge, apart, bridges, is_identifier};
pub use candidate::Candidate;
pub use check::{WindowText, answered, answered_better, keep_statements};
pub use condense::{Unit, Units};
pub use extract::{Extract, extract};
pub use fill::by_place;
pub use grade::{Grade, graded, graded_all, is_held};
pub use intent::{
    AnswerKind, Breadth, QuestionIntent, SUB_QUESTIONS_MAX, SubQuestion, Task, asks_for_order,
};
pub use judge::{JudgedPrompt, JudgedText, Verdict};
pub use keep::Keep;
pub use language::is_english;
pub use link::link;
pub use look::{MessageView, Pool, plan, plan_further, plan_meaning};
pub use pack::{Pack, PackItem, PackLimits, pack};
pub use roles::{
    GRADED_MAX, JudgedCase, ModelPlan, RERANKED_MAX, Rewrite, grader, judge, planner, read_grades,
    read_plan, read_rewrite, read_scores, read_summary, read_verdict, reranker, rewriter,
    summariser,
};
pub use route::{Route, route};
pub use steps::Steps;
pub use verdict::{BuildGrade, BuildVerdict, judge_build};
