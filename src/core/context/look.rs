//! Plans the looks into the memory that a question needs, and collects what they find.

use std::collections::HashMap;
use std::ops::Range;

use super::candidate::Candidate;
use super::intent::SubQuestion;
use crate::limits::QUERY_BYTES_MAX;
use crate::memory::archive::FoundPassage;
use crate::memory::message::Message;
use crate::memory::pack::{Fate, Origin};
use crate::search::{
    LOOKS_MAX, Look, LookFound, PARTNERS_MAX, RecallHit, lasting_requests, standard,
};

/// Place in a look's results that counts half as much as the first one.
const HALF_PLACE: f64 = 10.0;
/// Weight of a look for a further question, or for a name of the question, beside the weight of a
/// look for the question itself.
const FURTHER_WEIGHT: f64 = 0.3;
/// Standard score of a search result that is not ahead, and the number of results of a search with
/// which a lead counts half. Chosen on the development halves of HotpotQA and the questions about
/// code: as many documents of an answer have a grade of 0.35 as without leads, and a quarter fewer
/// others.
const LEAD_USUAL: f64 = 1.0;
const LEAD_RESULTS: f64 = 4.0;
/// Length in bytes up to which a text is a candidate as a whole.
const WHOLE_BYTES_MAX: usize = 4_096;

/// Returns the looks for the parts of a question: each part in both stores, and the whole question
/// if it has several parts. `has_archive` says whether the agent has documents, and `rows` how many
/// results of a look become candidates.
pub fn plan(question: &str, parts: &[SubQuestion], has_archive: bool, rows: usize) -> Vec<Look> {
    let mut queries: Vec<&str> = parts.iter().map(|part| part.text.as_str()).collect();
    if queries.len() > 1 && !queries.contains(&question.trim()) {
        queries.push(question);
    }
    let mut looks = Vec::new();
    for query in queries {
        let query = query[..query.floor_char_boundary(QUERY_BYTES_MAX)].to_owned();
        if has_archive {
            looks.push(Look::Archive { query: query.clone(), rows });
        }
        looks.push(Look::Recall { query, rows });
    }
    looks.truncate(LOOKS_MAX);
    looks
}

/// Returns the looks for further questions.
pub fn plan_further(questions: &[SubQuestion], has_archive: bool, rows: usize) -> Vec<Look> {
    let looks = questions.iter().flat_map(|question| {
        let query = question.text[..question.text.floor_char_boundary(QUERY_BYTES_MAX)].to_owned();
        let archive = has_archive.then(|| Look::Archive { query: query.clone(), rows });
        archive.into_iter().chain([Look::Recall { query, rows }])
    });
    looks.take(LOOKS_MAX).collect()
}

/// Returns the looks for texts that are near a sentence in meaning.
pub fn plan_meaning(sentence: &str, has_archive: bool, rows: usize) -> Vec<Look> {
    let query = sentence[..sentence.floor_char_boundary(QUERY_BYTES_MAX)].to_owned();
    let archive = has_archive.then(|| Look::Meaning { query: query.clone(), rows, archive: true });
    archive.into_iter().chain([Look::Meaning { query, rows, archive: false }]).collect()
}

/// The candidates that the looks of a build found so far, each once.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    /// The candidates, in the order in which they were found.
    pub candidates: Vec<Candidate>,
    /// Number of the first looks, which are for the question and its parts.
    pub first_looks: usize,
    places: HashMap<String, usize>,
}

/// What the pool needs to know about a message.
pub struct MessageView<'a> {
    /// Returns why a context must not show a message, if it must not.
    pub barred: &'a dyn Fn(&Message) -> Option<Fate>,
    /// Returns the time and the speaker of a message.
    pub of: &'a dyn Fn(&Message) -> (String, String),
    /// First position that the context does not repeat, as the window shows the messages from there
    /// on.
    pub head_seq: u64,
    /// The message that the context is built for.
    pub question_seq: Option<u64>,
}

impl MessageView<'_> {
    /// Returns what is known about a message before it is graded.
    fn fate(&self, message: &Message) -> Option<Fate> {
        let is_queued = message.kind.queued() && message.seq >= self.head_seq;
        (self.barred)(message).or(is_queued.then_some(Fate::InWindow))
    }
}

impl Pool {
    /// Adds what a look found.
    pub fn add(&mut self, look: usize, found: &LookFound, shown: &MessageView<'_>) {
        match found {
            LookFound::Recall(hits, messages) => {
                let leads = leads(hits.iter().map(|hit| hit.parts.map(|_| hit.score)));
                for (rank, hit) in hits.iter().enumerate() {
                    let message = messages.iter().find(|message| message.key == hit.id);
                    let Some(message) = message else { continue };
                    if shown.question_seq != Some(message.seq) {
                        let lead = leads.get(rank).copied();
                        self.add_message((look, rank), (hit, message), lead, shown);
                    }
                }
            }
            LookFound::Archive(passages) => {
                let leads = leads(passages.iter().map(|passage| passage.score));
                for (rank, passage) in passages.iter().enumerate() {
                    self.add_passage((look, rank), passage, leads.get(rank).copied());
                }
            }
            LookFound::Partners(messages) => {
                for (of, message) in messages {
                    self.add_partner(of, message, shown);
                }
            }
            LookFound::Lasting(messages) => {
                for message in messages.iter().filter(|one| shown.question_seq != Some(one.seq)) {
                    self.add_lasting(message, shown);
                }
            }
            LookFound::Failed(_) => {}
        }
    }

    /// Adds a text that the caller gave.
    pub fn add_document(&mut self, id: &str, text: &str) {
        self.candidates.push(Candidate::given(id, text));
    }

    fn add_message(
        &mut self,
        rank: (usize, usize),
        (hit, message): (&RecallHit, &Message),
        lead: Option<f64>,
        shown: &MessageView<'_>,
    ) {
        let place = focused(&message.content, hit.passage.as_ref());
        let at = self.place_message(message, place, shown);
        self.note(at, rank, lead);
    }

    /// Adds the partner of the message with the given key, which is found as far in front.
    fn add_partner(&mut self, of: &str, message: &Message, shown: &MessageView<'_>) {
        let is_of = |one: &&Candidate| matches!(&one.origin, Origin::Recall { id, .. } if id == of);
        let of = self.candidates.iter().filter(is_of).map(|one| one.found);
        let found = of.fold(0.0, f64::max);
        let at = self.place_message(message, focused(&message.content, None), shown);
        let candidate = &mut self.candidates[at];
        candidate.found = candidate.found.max(found);
    }

    /// Returns the keys of the messages that were found furthest in front and whose partners a
    /// context may need.
    pub fn first_messages(&self) -> Vec<String> {
        let mut order: Vec<&Candidate> =
            self.candidates.iter().filter(|one| one.is_said()).collect();
        order.sort_by(|a, b| b.found.total_cmp(&a.found));
        let id = |one: &&Candidate| match &one.origin {
            Origin::Recall { id, .. } => Some(id.clone()),
            Origin::Archive { .. } | Origin::Document { .. } => None,
        };
        order.iter().filter_map(id).take(PARTNERS_MAX).collect()
    }

    /// Adds the lasting requests of a message that a context may show.
    fn add_lasting(&mut self, message: &Message, shown: &MessageView<'_>) {
        if shown.fate(message).is_some() {
            return;
        }
        for request in lasting_requests(&message.content) {
            let place = focused(&message.content, Some(&request));
            let at = self.place_message(message, place.clone(), shown);
            let own = request.start - place.start..request.end.min(place.end) - place.start;
            self.candidates[at].lasting.push(own);
        }
    }

    /// Returns the candidate of a part of a message.
    fn place_message(
        &mut self,
        message: &Message,
        place: Range<usize>,
        shown: &MessageView<'_>,
    ) -> usize {
        let key = format!("m {} {}", message.key, place.start);
        self.place(key, || {
            let (time, speaker) = (shown.of)(message);
            Candidate {
                origin: Origin::Recall { id: message.key.clone(), seq: message.seq },
                start: place.start,
                digest: message.digest.clone(),
                time: Some(time),
                speaker: Some(speaker),
                fate: shown.fate(message),
                ..Candidate::given("", &message.content[place])
            }
        })
    }

    fn add_passage(&mut self, rank: (usize, usize), passage: &FoundPassage, lead: Option<f64>) {
        let fate = match (passage.quarantined, passage.tainted.is_empty()) {
            (true, _) => Some(Fate::Quarantined),
            (false, false) => Some(Fate::Tainted),
            (false, true) => None,
        };
        let at = self.place(format!("p {}", passage.key), || Candidate {
            origin: Origin::Archive {
                doc_id: passage.doc_id.clone(),
                chunk_id: passage.chunk_id.clone(),
                revision: passage.revision.clone(),
            },
            time: passage.dated.unwrap_or(false).then(|| passage.freshness_ts.clone()),
            fate,
            ..Candidate::given("", &passage.text)
        });
        self.note(at, rank, lead);
    }

    /// Returns the candidate with the given key, which is made if there is none.
    fn place(&mut self, key: String, make: impl FnOnce() -> Candidate) -> usize {
        let next = self.candidates.len();
        let at = *self.places.entry(key).or_insert(next);
        if at == next {
            self.candidates.push(make());
        }
        at
    }

    /// Notes that a look found a candidate.
    fn note(&mut self, at: usize, rank: (usize, usize), lead: Option<f64>) {
        let (look, place) = rank;
        let weight = if look < self.first_looks { 1.0 } else { FURTHER_WEIGHT };
        let candidate = &mut self.candidates[at];
        candidate.found += weight / (1.0 + place as f64 / HALF_PLACE);
        candidate.ranks.push(rank);
        candidate.lead = candidate.lead.into_iter().chain(lead).reduce(f64::max);
    }
}

/// Returns how far each result of a search is ahead of a usual one, by the scores of the results;
/// nothing for a search that gives no score.
fn leads(scores: impl Iterator<Item = Option<f64>>) -> Vec<f64> {
    let scores: Vec<f64> = scores.collect::<Option<_>>().unwrap_or_default();
    // Among a few results, none can be far ahead.
    let of = scores.len() as f64;
    let sure = of / (of + LEAD_RESULTS);
    standard(scores).into_iter().map(|score| sure * (score - LEAD_USUAL)).collect()
}

/// Returns the part of a text that is a candidate: the whole text, or the surroundings of the
/// passage that a look found.
fn focused(text: &str, passage: Option<&Range<usize>>) -> Range<usize> {
    if text.len() <= WHOLE_BYTES_MAX {
        return 0..text.len();
    }
    let middle = passage.map_or(0, |passage| usize::midpoint(passage.start, passage.end));
    let start = middle.saturating_sub(WHOLE_BYTES_MAX / 2).min(text.len() - WHOLE_BYTES_MAX);
    let start = text.floor_char_boundary(start);
    start..text.floor_char_boundary(start + WHOLE_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::QuestionIntent;

    #[test]
    fn each_part_is_looked_for_in_each_store() {
        let looks = |question: &str, archive| {
            plan(question, &QuestionIntent::read(question).sub_questions, archive, 9)
        };
        let recall = |query: &str| Look::Recall { query: query.into(), rows: 9 };
        let archive = |query: &str| Look::Archive { query: query.into(), rows: 9 };
        let one = "Where is the blue boat?";
        assert_eq!(looks(one, false), [recall(one)]);
        assert_eq!(looks(one, true), [archive(one), recall(one)]);
        assert_eq!(looks("Thanks!", true), []);
        let two = "Where is the blue boat? Who repaired the red sail?";
        let parts = ["Where is the blue boat?", "Who repaired the red sail?"];
        assert_eq!(looks(two, false), [recall(parts[0]), recall(parts[1]), recall(two)]);
        let many = "What is this boat? ".repeat(40);
        assert_eq!(looks(&many, true).len(), LOOKS_MAX);
    }

    #[test]
    fn a_result_is_ahead_by_the_scores_of_the_search() {
        let of = |scores: &[f64]| leads(scores.iter().copied().map(Some));
        let many = of(&[9.0, 3.0, 2.0, 2.0, 1.0, 1.0, 1.0, 1.0]);
        assert!(many[0] > 0.9 && many[1] < 0.0 && many[2] < many[1], "{many:?}");
        let alone = of(&[9.0]);
        assert!(alone[0].abs() < 0.3, "nothing to be ahead of: {alone:?}");
        assert!(of(&[9.0, 3.0])[0] < many[0]);
        assert!(leads([Some(1.0), None].into_iter()).is_empty(), "a search without scores");
    }

    #[test]
    fn of_a_long_text_the_surroundings_of_the_passage_are_taken() {
        let text = "ä".repeat(WHOLE_BYTES_MAX);
        for at in [0, WHOLE_BYTES_MAX, 2 * WHOLE_BYTES_MAX - 10] {
            let place = focused(&text, Some(&(at..at + 10)));
            assert!(place.len() <= WHOLE_BYTES_MAX && place.contains(&(at + 4)), "{at} {place:?}");
            assert!(text.get(place).is_some());
        }
        assert_eq!(focused("short", None), 0..5);
    }
}
