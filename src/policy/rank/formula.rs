//! The formula: what counts for an entry, one weight for each part; a score is the sum of value times weight.
//!
//! The weights were trained in November 2026 on the development halves of LoCoMo (760 questions over five conversations) and BEAM-100K
//! (179 questions over ten), together: softmax over the candidates of a question for each piece of evidence, L2 penalty 1e-4, a long
//! message standing with its best passage, BEAM weighted threefold since it has fewer questions. For vectors the sum of all that was scaled
//! (by 0.77) beside three weights of likeness, trained on LoCoMo with vectors of all-MiniLM-L6-v2. Figures, and which
//! of them are of conversations that the weights were not trained on: `docs/decisions/0019-ranking-of-recall.md`.

/// One part of a score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// BM25 of the passage, as a share of the best passage's.
    Match,
    /// Share of the question's words that stand in the passage, by rarity.
    Coverage,
    /// BM25 of the whole entry, as a share of the best entry's.
    Whole,
    /// Neighbouring words of the question that are neighbours here, by rarity.
    Together,
    /// Match of what was said just before.
    Previous,
    /// Match of what was said before that.
    BeforePrevious,
    /// Match of what was said just after.
    Next,
    /// Match of what was said after that.
    AfterNext,
    /// Match of a question that it follows.
    Answers,
    /// It was said by the one whom the question names.
    Speaker,
    /// Match, if the user said it and the question is in the first person.
    User,
    /// It was said by somebody who is not the user and has no name.
    Assistant,
    /// The same, in a question in the first person.
    AssistantToFirst,
    /// It asks instead of telling.
    Asks,
    /// The same, by the one whom the question names.
    SpeakerAsks,
    /// It holds a time, and one is wanted.
    Time,
    /// It holds a number, and one is wanted.
    Number,
    /// It holds a number.
    AnyNumber,
    /// How well the conversation of that day or hour matches.
    Session,
    /// Length of the passage.
    Length,
    /// Length of the whole entry.
    WholeLength,
    /// Likeness of the passage to the question, by their vectors.
    Similarity,
    /// That of what was said just before.
    PreviousSimilarity,
    /// That of what was said just after.
    NextSimilarity,
    /// All words of the question stand in it in their order: 1, or [`VERBATIM_ALL`] if it is nothing else.
    Verbatim,
    /// Quoted parts of the question that stand in it.
    Quoted,
}

/// What an entry counts for that is the question word by word: with its weight more than all that was trained can add up to, so that whatever
/// was said is found first by its own text.
pub(super) const VERBATIM_ALL: f64 = 10.0;

/// How many there are.
pub(crate) const PARTS: usize = 26;

/// Name as it is answered, and the weight without and with vectors.
const WEIGHTS: [(Part, &str, f64, f64); PARTS] = [
    (Part::Match, "match", 0.61, 0.47),
    (Part::Coverage, "coverage", 1.45, 1.12),
    (Part::Whole, "whole", 2.11, 1.62),
    (Part::Together, "together", 3.08, 2.37),
    (Part::Previous, "previous", 0.51, 0.39),
    (Part::BeforePrevious, "before_previous", 1.40, 1.08),
    (Part::Next, "next", 0.59, 0.45),
    (Part::AfterNext, "after_next", 0.70, 0.54),
    (Part::Answers, "answers", 2.57, 1.98),
    (Part::Speaker, "speaker", 2.57, 1.98),
    (Part::User, "user", 5.27, 4.06),
    (Part::Assistant, "assistant", -1.53, -1.18),
    (Part::AssistantToFirst, "assistant_to_first", 1.77, 1.36),
    (Part::Asks, "asks", -0.32, -0.25),
    (Part::SpeakerAsks, "speaker_asks", -0.41, -0.32),
    (Part::Time, "time", 2.14, 1.65),
    (Part::Number, "number", 0.72, 0.55),
    (Part::AnyNumber, "any_number", 0.24, 0.18),
    (Part::Session, "session", 2.22, 1.71),
    (Part::Length, "length", 2.87, 2.21),
    (Part::WholeLength, "whole_length", -5.09, -3.92),
    (Part::Similarity, "similarity", 0.0, 4.52),
    (Part::PreviousSimilarity, "previous_similarity", 0.0, 2.13),
    (Part::NextSimilarity, "next_similarity", 0.0, 1.14),
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
