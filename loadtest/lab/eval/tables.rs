//! Makes the tables of a recall benchmark: all questions, each category, corrections and refusals.

use std::collections::BTreeSet;

use super::corpus::Talk;
use super::goals::Reached;
use super::locomo::ADVERSARIAL;
use super::measures::{NAMES, measure_index};
use super::recall::{Played, QuestionScores};
use super::report::{self, Report, Section, doubt, mean_of, measures_heads, measures_row};

/// Size of a corpus, and number of faults in its questions and evidence.
#[derive(Debug, Clone, Default)]
pub(super) struct About {
    talks: usize,
    messages: usize,
    questions: usize,
    without_evidence: usize,
    mended: usize,
    dropped: usize,
}

impl About {
    /// Counts the conversations, messages, questions and faults of a corpus.
    pub(super) fn of(talks: &[Talk]) -> About {
        let sum = |of: fn(&Talk) -> usize| talks.iter().map(of).sum();
        About {
            talks: talks.len(),
            messages: sum(|talk| talk.messages.len()),
            questions: sum(|talk| talk.questions.len()),
            without_evidence: sum(|talk| talk.without_evidence),
            mended: sum(|talk| talk.mended),
            dropped: sum(|talk| talk.dropped),
        }
    }

    fn sentence(&self) -> String {
        format!(
            "{} conversations, {} messages, {} questions asked; {} questions without evidence were left out; {} ids of evidence were mended, {} were dropped",
            self.talks,
            self.messages,
            self.questions,
            self.without_evidence,
            self.mended,
            self.dropped
        )
    }
}

/// Returns the tables of the benchmark, and the figures that have goals.
pub(super) fn recall(name: &str, about: &About, played: &Played) -> Report {
    let questions = &played.questions;
    let is_apart = |one: &&QuestionScores| name == "locomo" && one.group == ADVERSARIAL;
    let counted: Vec<&QuestionScores> = questions.iter().filter(|one| !is_apart(one)).collect();
    let mut rows = vec![measures_row("all", counted.len(), &mean_of(&counted))];
    let mut reached = reached_by(name, &counted);
    let groups: BTreeSet<&str> = questions.iter().map(|one| one.group.as_str()).collect();
    for group in groups {
        let own: Vec<&QuestionScores> = questions.iter().filter(|one| one.group == group).collect();
        let is_apart = own.first().is_some_and(is_apart);
        let label = if is_apart { format!("{group} (apart)") } else { group.to_owned() };
        rows.push(measures_row(&label, own.len(), &mean_of(&own)));
        reached.extend(reached_by(&format!("{name} {group}"), &own));
    }
    let mut notes = vec![about.sentence(), doubt(&counted, &["R@10", "T1024", "MRR"])];
    let updates: Vec<bool> = questions.iter().filter_map(|one| one.newer_first).collect();
    if !updates.is_empty() {
        let first = updates.iter().filter(|first| **first).count();
        let share = first as f64 / updates.len() as f64;
        notes.push(format!(
            "knowledge updates: the newer statement comes first in {first} of {} ({} %)",
            updates.len(),
            report::percent(share)
        ));
        reached.push((format!("{name} newer"), share * 100.0));
    }
    notes.extend(played.vectors.clone());
    let refused: BTreeSet<&str> =
        questions.iter().filter_map(|one| one.refused.as_deref()).collect();
    if !refused.is_empty() {
        let count = questions.iter().filter(|one| one.refused.is_some()).count();
        notes.push(format!("{count} questions were refused ({refused:?}) and count as unanswered"));
    }
    let all = mean_of(&counted);
    let bars = ["R@10", "MRR", "T512", "T1024", "T2048"];
    let section = Section {
        title: format!("{name}: recall"),
        heads: measures_heads("category"),
        rows,
        notes,
        bars: bars.map(|bar| (format!("{name} {bar}"), all[measure_index(bar)] * 100.0)).into(),
    };
    Report {
        sections: vec![section],
        reached,
        questions: report::questions(name, questions),
        ..Report::default()
    }
}

fn reached_by(prefix: &str, questions: &[&QuestionScores]) -> Vec<Reached> {
    let scores = mean_of(questions);
    let shares = NAMES.iter().zip(scores).filter(|(name, _)| **name != "tokens@10");
    shares.map(|(name, score)| (format!("{prefix} {name}"), score * 100.0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(group: &str, first: f64, newer_first: Option<bool>) -> QuestionScores {
        let mut scores = [0.0; NAMES.len()];
        scores[measure_index("R@10")] = first;
        QuestionScores { talk: "t".into(), group: group.into(), scores, newer_first, refused: None }
    }

    #[test]
    fn adversarial_questions_stand_apart_and_updates_are_counted() {
        let all = [
            question("1", 1.0, None),
            question("1", 0.5, Some(true)),
            question("5", 0.0, Some(false)),
        ];
        let played = Played { questions: all.into(), vectors: None };
        let report = recall("locomo", &About::default(), &played);
        let value = |id: &str| report.reached.iter().find(|(known, _)| known == id).unwrap().1;
        assert_eq!(value("locomo R@10"), 75.0);
        assert_eq!(value("locomo 5 R@10"), 0.0);
        assert_eq!(value("locomo newer"), 50.0);
        let rows = &report.sections[0].rows;
        assert_eq!((rows.len(), rows[0][1].as_str(), rows[2][0].as_str()), (3, "2", "5 (apart)"));
    }
}
