//! The formula: what counts for an entry, one weight for each part; a score is the sum of value times weight.
//!
//! The weights were trained in November 2026 on the development halves of LoCoMo (760 questions over five conversations) and BEAM-100K
//! (179 questions over ten), together: softmax over the candidates of a question for each piece of evidence, L2 penalty 3e-3 on weights times the
//! part's deviation, a long message standing with its best passage, BEAM weighted threefold since it has fewer questions. Those with vectors were
//! trained in the same way on both sets with vectors of all-MiniLM-L6-v2; likeness is a share of the best, so that it means the same with another
//! model. Figures of conversations that the weights were not trained on: `docs/decisions/0019-ranking-of-recall.md`.

/// One part of a score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Share of the question's words, by rarity, that stand in the passage or in what was said beside a short entry.
    Coverage,
    /// BM25 of the whole entry, as a share of the best entry's.
    Whole,
    /// Neighbouring words of the question that are neighbours here, by rarity.
    Together,
    /// Match of what was said two places before.
    BeforePrevious,
    /// Match of what was said two places after.
    AfterNext,
    /// Match of a question that it follows.
    Answers,
    /// Share of the question's words, by rarity, that stand in the conversation of that day or hour.
    Session,
    /// It was said by the one whom the question names.
    Speaker,
    /// Match, if the user said it and the question is in the first person.
    User,
    /// It was said by somebody who is not the user and has no name.
    Assistant,
    /// The same, in a question in the first person.
    AssistantToFirst,
    /// The same, where the question asks what the assistant said.
    AssistantAsked,
    /// It asks instead of telling.
    Asks,
    /// It holds a time, and one is wanted.
    Time,
    /// It holds a number, and one is wanted.
    Number,
    /// Names that the question does not hold, where it asks who, where or which.
    Names,
    /// It was said on the day that the question names, or just after.
    SaidDay,
    /// It was said in the month that the question names.
    SaidMonth,
    /// It was said in the month after that.
    SaidAfter,
    /// It was said in the year that the question names without a month.
    SaidYear,
    /// Length of the passage.
    Length,
    /// Length of the whole entry.
    WholeLength,
    /// The same, if the user said it and has no name.
    UserLength,
    /// Likeness of the passage to the question, by their vectors.
    Similarity,
    /// That of what was said just after.
    NextSimilarity,
    /// That of a question that it follows.
    AnswersSimilarity,
    /// All words of the question stand in it in their order: 1, or [`VERBATIM_ALL`] if it is nothing else, or [`VERBATIM_SAME`] if it is the
    /// same to the letter.
    Verbatim,
    /// Quoted parts of the question that stand in it.
    Quoted,
}

/// What an entry counts for that is the question word by word: with its weight more than all that was trained can add up to, so that whatever
/// was said is found first by its own text.
pub(super) const VERBATIM_ALL: f64 = 12.0;

/// What it counts for if it is the same in every letter and mark: as much more again, so that it stands before what differs by a comma.
pub(super) const VERBATIM_SAME: f64 = 24.0;

/// How many there are.
pub(crate) const PARTS: usize = 28;

/// Name as it is answered, and the weight without and with vectors.
const WEIGHTS: [(Part, &str, f64, f64); PARTS] = [
    (Part::Coverage, "coverage", 2.87, 2.35),
    (Part::Whole, "whole", 1.93, 0.79),
    (Part::Together, "together", 2.62, 2.36),
    (Part::BeforePrevious, "before_previous", 0.35, 0.06),
    (Part::AfterNext, "after_next", 0.62, 0.36),
    (Part::Answers, "answers", 2.23, 1.19),
    (Part::Session, "session", 2.91, 2.18),
    (Part::Speaker, "speaker", 2.23, 2.15),
    (Part::User, "user", 3.98, 3.21),
    (Part::Assistant, "assistant", -2.25, -2.30),
    (Part::AssistantToFirst, "assistant_to_first", 0.46, 0.25),
    (Part::AssistantAsked, "assistant_asked", 1.41, 1.71),
    (Part::Asks, "asks", -0.51, -0.50),
    (Part::Time, "time", 1.95, 1.75),
    (Part::Number, "number", 0.71, 0.71),
    (Part::Names, "names", 2.16, 1.87),
    (Part::SaidDay, "said_day", 3.85, 4.07),
    (Part::SaidMonth, "said_month", 3.88, 3.48),
    (Part::SaidAfter, "said_after", 0.69, 0.85),
    (Part::SaidYear, "said_year", 4.05, 3.62),
    (Part::Length, "length", 0.71, 0.72),
    (Part::WholeLength, "whole_length", -3.05, -2.81),
    (Part::UserLength, "user_length", -2.34, -1.99),
    (Part::Similarity, "similarity", 0.0, 2.24),
    (Part::NextSimilarity, "next_similarity", 0.0, 0.51),
    (Part::AnswersSimilarity, "answers_similarity", 0.0, 0.85),
    // These two are promises, not trained: a text that is looked for word by word is found first, and quotes outrank all else.
    (Part::Verbatim, "verbatim", 5.0, 5.0),
    (Part::Quoted, "quoted", 100.0, 100.0),
];

/// Values of all parts for one passage.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Values([f64; PARTS]);

impl Values {
    pub(super) fn set(&mut self, part: Part, value: f64) {
        self.0[part as usize] = value;
    }

    /// The parts of the score: each value by its weight.
    pub(super) fn weighed(&self, weights: &Weights) -> [f64; PARTS] {
        let mut parts = self.0;
        for (value, weight) in parts.iter_mut().zip(weights) {
            *value *= weight;
        }
        parts
    }

    pub(super) fn score(&self, weights: &Weights) -> f64 {
        self.weighed(weights).iter().sum()
    }
}

/// One weight for each part.
pub(super) type Weights = [f64; PARTS];

/// By words alone.
pub(super) fn text() -> Weights {
    WEIGHTS.map(|(_, _, weight, _)| weight)
}

/// By words and vectors.
pub(super) fn hybrid() -> Weights {
    WEIGHTS.map(|(_, _, _, weight)| weight)
}

/// By vectors alone: the score is the cosine.
pub(super) fn vector() -> Weights {
    WEIGHTS.map(|(part, _, _, _)| if part == Part::Similarity { 1.0 } else { 0.0 })
}

/// Names of the parts, in the order in which they are kept.
pub fn part_names() -> [&'static str; PARTS] {
    WEIGHTS.map(|(_, name, _, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_stands_at_its_place() {
        for (at, (part, name, alone, both)) in WEIGHTS.into_iter().enumerate() {
            assert_eq!(part as usize, at, "{name}");
            let mut values = Values::default();
            values.set(part, 2.0);
            assert_eq!(values.score(&text()), 2.0 * alone, "{name}");
            assert_eq!(values.score(&hybrid()), 2.0 * both, "{name}");
        }
    }
}
