//! The formula of an entry's score, which is the weighted sum of the score's parts.
//!
//! The weights of the score's parts were trained in November 2026 on the development halves of
//! LoCoMo (760 questions, five conversations) and BEAM-100K (179 questions, ten conversations). For
//! each piece of evidence, the loss was a softmax over the question's candidates. An L2 penalty of
//! 3e-3 was applied to the product of each weight and its part's standard deviation. Long messages
//! were represented by their best passage, and questions of BEAM counted three times. The weights
//! for vectors were trained with all-MiniLM-L6-v2. The similarity of a passage is divided by the
//! best result's similarity, so that the weights also suit other embedding models. Results on
//! held-out conversations are in `docs/decisions/0019-ranking-of-recall.md`.

/// A part of an entry's score. In these descriptions, the question is the text of the search query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScorePart {
    /// Share of the question's words, weighted by rarity, that the passage contains. Words of the
    /// entry's neighbours also count, and so do words of the other passages of a short entry.
    Coverage,
    /// BM25 score of the whole entry, as a share of the best entry's BM25 score.
    Whole,
    /// Rarity of those pairs of neighbouring question words that are also neighbours in the
    /// passage, relative to the rarity of all question words.
    Together,
    /// Match of the question with the message two positions before the entry.
    BeforePrevious,
    /// Match of the question with the message two positions after the entry.
    AfterNext,
    /// Match of the question with the previous message, if that message asks something that the
    /// entry may answer.
    Answers,
    /// Share of the question's words, weighted by rarity, in the conversation around the entry.
    Session,
    /// Whether the question names the entry's speaker.
    Speaker,
    /// Match of the question with an entry of the user, for a question in the first person.
    User,
    /// Whether the entry's speaker is not the user and has no name.
    Assistant,
    /// Whether the entry's speaker is not the user and has no name, for a question in the first
    /// person.
    AssistantToFirst,
    /// Whether the entry's speaker is the assistant, and the question asks what the assistant said.
    AssistantAsked,
    /// Whether the passage is a question; a passage that also states something counts less.
    Asks,
    /// Whether the entry contains a time, and the question asks for a time.
    Time,
    /// Whether the entry contains a number, and the question asks for a number or only lists
    /// keywords.
    Number,
    /// Number of names in the passage that are not in the question, if the question asks who, where
    /// or which.
    Names,
    /// Whether the entry is from the day that the question names, or from shortly after that day.
    SaidDay,
    /// Whether the entry is from the month that the question names.
    SaidMonth,
    /// Whether the entry is from the month after the month that the question names.
    SaidAfter,
    /// Whether the entry is from the year that the question names without a month.
    SaidYear,
    /// Length of the passage.
    Length,
    /// Length of the whole entry.
    WholeLength,
    /// Length of the whole entry if its speaker is the user and has no name, otherwise 0.
    UserLength,
    /// Similarity between the vectors of the passage and of the question.
    Similarity,
    /// Similarity between the vectors of the next message and of the question.
    NextSimilarity,
    /// Similarity between the vectors of the question and of the previous message, if that message
    /// asks something.
    AnswersSimilarity,
    /// Whether the entry contains the question verbatim. The value is 1 if so, [`VERBATIM_ALL`] if
    /// the entry has no other words, and [`VERBATIM_SAME`] if entry and question are equal.
    Verbatim,
    /// Number of quoted phrases of the question that the entry contains.
    Quoted,
    /// Whether the passage speaks in the first person; only in a conversation without names. Counts
    /// more if the question is about the user.
    Own,
    /// Whether the passage names a person or thing that the question does not name, and does not
    /// speak in the first person; only in a conversation without names. Counts more if the question
    /// is about the user.
    Others,
    /// How near the passage and the question are in meaning, by the vectors of their words.
    Topic,
}

/// Value of [`ScorePart::Verbatim`] for an entry that consists of exactly the question's words.
/// This value multiplied by the part's weight exceeds the sum of all trained parts, so that a
/// search for an entry's own text finds the entry first.
pub(super) const VERBATIM_ALL: f64 = 12.0;

/// Value of [`ScorePart::Verbatim`] for an entry that equals the question in every character. Such
/// an entry precedes an entry that differs from the question only by a comma.
pub(super) const VERBATIM_SAME: f64 = 24.0;

/// Number of parts of the score.
pub(crate) const PARTS: usize = 31;

/// For each part of the score: its name in answers, its weight without vectors, its weight with
/// vectors, and its weight with vectors in a conversation without names.
///
/// The last weights were trained on three made-up months of chats between a user and a model, with
/// all-MiniLM-L6-v2: 196 questions, each in windows of 8192 and 32768 tokens. The loss was a
/// softmax, and an L2 penalty of 0.03 pulled the weights to the other weights with vectors. Trained
/// so with a month left out, the right message of that month is first in 168 of 377 searches (163
/// before), and among the first three in 291 (258 before). A random search then changed the weights
/// for the order of whole result lists. Weights of speakers, days and long messages stay, because
/// other values find less in BEAM.
const WEIGHTS: [(ScorePart, &str, f64, f64, f64); PARTS] = [
    (ScorePart::Coverage, "coverage", 2.87, 2.35, 1.31),
    (ScorePart::Whole, "whole", 1.93, 0.79, 0.33),
    (ScorePart::Together, "together", 2.62, 2.36, 0.98),
    (ScorePart::BeforePrevious, "before_previous", 0.35, 0.06, 0.06),
    (ScorePart::AfterNext, "after_next", 0.62, 0.36, 1.33),
    (ScorePart::Answers, "answers", 2.23, 1.19, 0.88),
    (ScorePart::Session, "session", 2.91, 2.18, 1.17),
    (ScorePart::Speaker, "speaker", 2.23, 2.15, 2.15),
    (ScorePart::User, "user", 3.98, 3.21, 1.0),
    (ScorePart::Assistant, "assistant", -2.25, -2.30, -2.3),
    (ScorePart::AssistantToFirst, "assistant_to_first", 0.46, 0.25, 0.25),
    (ScorePart::AssistantAsked, "assistant_asked", 1.41, 1.71, 1.71),
    (ScorePart::Asks, "asks", -0.51, -0.50, -0.6),
    (ScorePart::Time, "time", 1.95, 1.75, 1.75),
    (ScorePart::Number, "number", 0.71, 0.71, 0.91),
    (ScorePart::Names, "names", 2.16, 1.87, 1.48),
    (ScorePart::SaidDay, "said_day", 3.85, 4.07, 4.07),
    (ScorePart::SaidMonth, "said_month", 3.88, 3.48, 3.48),
    (ScorePart::SaidAfter, "said_after", 0.69, 0.85, 0.85),
    (ScorePart::SaidYear, "said_year", 4.05, 3.62, 3.62),
    (ScorePart::Length, "length", 0.71, 0.72, 4.89),
    (ScorePart::WholeLength, "whole_length", -3.05, -2.81, -2.81),
    (ScorePart::UserLength, "user_length", -2.34, -1.99, -1.99),
    (ScorePart::Similarity, "similarity", 0.0, 2.24, 6.22),
    (ScorePart::NextSimilarity, "next_similarity", 0.0, 0.51, 0.72),
    (ScorePart::AnswersSimilarity, "answers_similarity", 0.0, 0.85, 0.85),
    // The weights of `verbatim` and `quoted` are fixed instead of trained, so that a search for an
    // entry's own text finds the entry first.
    (ScorePart::Verbatim, "verbatim", 5.0, 5.0, 5.0),
    (ScorePart::Quoted, "quoted", 100.0, 100.0, 100.0),
    // The weights of `own` and `others` were chosen on a chat of a month (`tests/fixtures/month`).
    (ScorePart::Own, "own", 1.6, 1.0, 2.48),
    (ScorePart::Others, "others", -0.7, -0.7, -0.7),
    // The weight of `topic` was chosen on the development halves, too.
    (ScorePart::Topic, "topic", 1.5, 1.0, 0.3),
];

/// The values of all parts of the score, before weighting, for one passage.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Values([f64; PARTS]);

impl Values {
    pub(super) fn set(&mut self, part: ScorePart, value: f64) {
        self.0[part as usize] = value;
    }

    /// Returns the value of each part of the score, multiplied by the part's weight.
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

/// A weight for each part of the score.
pub(super) type Weights = [f64; PARTS];

/// Returns the weights for a search by words only.
pub(super) fn text() -> Weights {
    WEIGHTS.map(|(_, _, weight, _, _)| weight)
}

/// Returns the weights for a search by words and vectors; `named` says whether a speaker of the
/// conversation has a name.
pub(super) fn hybrid(named: bool) -> Weights {
    WEIGHTS.map(|(_, _, _, weight, unnamed)| if named { weight } else { unnamed })
}

/// Returns the weights for a search by vectors only, whose score is the similarity alone.
pub(super) fn vector() -> Weights {
    WEIGHTS.map(|(part, _, _, _, _)| if part == ScorePart::Similarity { 1.0 } else { 0.0 })
}

/// Sum of a score's parts at which the relevance is one half, and the change of the sum that makes
/// the odds of the relevance e times as large. Fitted to the evidence among the first ten results
/// of the development halves of LoCoMo and BEAM-100K.
const RELEVANCE_MIDDLE: f64 = 12.0;
const RELEVANCE_UNIT: f64 = 2.35;

/// Returns the relevance of a result, from 0 to 1, for the sum of the parts of its score: the
/// estimated probability that the result is evidence for the question. In a search by vectors only,
/// the relevance is the similarity.
pub fn relevance(sum: f64, by_meaning: bool) -> f64 {
    match by_meaning {
        true => sum.clamp(0.0, 1.0),
        false => 1.0 / (1.0 + ((RELEVANCE_MIDDLE - sum) / RELEVANCE_UNIT).exp()),
    }
}

/// Returns the names of the score's parts, in the stored order.
pub fn part_names() -> [&'static str; PARTS] {
    WEIGHTS.map(|(_, name, _, _, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_stands_at_its_place() {
        for (at, (part, name, alone, both, unnamed)) in WEIGHTS.into_iter().enumerate() {
            assert_eq!(part as usize, at, "{name}");
            let mut values = Values::default();
            values.set(part, 2.0);
            assert_eq!(values.score(&text()), 2.0 * alone, "{name}");
            assert_eq!(values.score(&hybrid(true)), 2.0 * both, "{name}");
            assert_eq!(values.score(&hybrid(false)), 2.0 * unnamed, "{name}");
        }
    }
}
