//! Computes how many of a conversation's facts a summary contains. The comparison uses the stems of
//! answers and questions.

use std::collections::HashSet;

use super::corpus::{Question, Talk};
use super::locomo::ADVERSARIAL;
use super::stems::Stems;

/// A fact: a question and the question's answer, as stems.
pub(super) struct Fact<'a> {
    pub(super) question: &'a Question,
    /// Stems of the answer that the question's evidence contains; at least one.
    answer: HashSet<String>,
    asked: HashSet<String>,
}

/// Collects the questions whose evidence contains the answer. Names of speakers are ignored,
/// because speaker names begin the lines of every summary.
pub(super) fn facts<'a>(talk: &'a Talk, stems: &Stems) -> Vec<Fact<'a>> {
    let names: HashSet<String> = talk
        .messages
        .iter()
        .filter_map(|message| message.name.as_deref())
        .flat_map(|name| stems.of(name))
        .collect();
    let asked = talk.questions.iter().filter(|question| question.group != ADVERSARIAL);
    let fact = |question: &'a Question| {
        let texts = question.evidence.iter().map(|at| stems.of(&talk.messages[*at].text));
        let evidence: HashSet<String> = texts.flatten().collect();
        let without = |text: &str| {
            let all = stems.of(text);
            all.difference(&names).cloned().collect::<HashSet<String>>()
        };
        let answer: HashSet<String> =
            without(&question.answer).intersection(&evidence).cloned().collect();
        (!answer.is_empty()).then(|| Fact { question, answer, asked: without(&question.text) })
    };
    asked.filter_map(fact).collect()
}

/// Returns, for each line of a summary, the set of its stems.
pub(super) fn lines(summary: &str, stems: &Stems) -> Vec<HashSet<String>> {
    summary.lines().map(|line| stems.of(line)).collect()
}

/// Coverage of one fact by a summary.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Read {
    /// Share of the fact's answer stems that the summary contains.
    pub(super) ans: f64,
    /// 1 if a single line of the summary has both a stem of the answer and a stem of the question,
    /// otherwise 0.
    pub(super) link: f64,
}

impl Fact<'_> {
    /// Measures how much of a fact the lines of a summary contain.
    pub(super) fn read(&self, lines: &[HashSet<String>]) -> Read {
        let held = self.answer.iter().filter(|stem| lines.iter().any(|line| line.contains(*stem)));
        let ans = held.count() as f64 / self.answer.len() as f64;
        let links = |line: &HashSet<String>| {
            !line.is_disjoint(&self.answer) && !line.is_disjoint(&self.asked)
        };
        Read { ans, link: if lines.iter().any(links) { 1.0 } else { 0.0 } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::corpus::TalkMessage;

    fn talk() -> Talk {
        let message = |text: &str| TalkMessage {
            text: text.into(),
            name: Some("Ida".into()),
            ..TalkMessage::default()
        };
        let asked = |text: &str, answer: &str, group: &str| Question {
            text: text.into(),
            answer: answer.into(),
            group: group.into(),
            evidence: [0].into(),
            update: None,
        };
        Talk {
            messages: vec![message("I flew a red kite at the harbour")],
            questions: vec![
                asked("What colour was the kite of Ida?", "a red one of Ida, in 2024", "4"),
                asked("When?", "in 2024", "2"),
                asked("Who?", "red", "5"),
            ],
            ..Talk::default()
        }
    }

    #[test]
    fn only_what_the_evidence_says_is_a_fact() {
        let (talk, stems) = (talk(), Stems::new());
        let facts = facts(&talk, &stems);
        assert_eq!(facts.len(), 1);
        assert_eq!(facts[0].answer, HashSet::from(["red".to_owned()]));
    }

    #[test]
    fn an_answer_counts_anywhere_and_a_link_within_a_line() {
        let (talk, stems) = (talk(), Stems::new());
        let fact = &facts(&talk, &stems)[0];
        for (summary, ans, link) in [
            ("Ida: flew red kites", 1.0, 1.0),
            ("Ida: red wine\nIda: a kite", 1.0, 0.0),
            ("Ida: kite", 0.0, 0.0),
            ("", 0.0, 0.0),
        ] {
            assert_eq!(fact.read(&lines(summary, &stems)), Read { ans, link }, "{summary}");
        }
    }
}
