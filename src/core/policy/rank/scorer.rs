//! The scorer: candidates and a question in, the list in its order out, each entry with its best passage and the parts of its score.
//!
//! Without names, times or neighbours the parts that need them are zero for everybody, and the order is that of the words.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::asked::{Asked, content_words};
use super::formula::{self, PARTS, Part, VERBATIM_ALL, VERBATIM_SAME, Values, Weights};
use super::newer::newer_first;
use super::passage_match::{coverage, passage, together, whole};
use super::spoken::{Read, Spoken, speakers};
use super::words::Lexicon;
use crate::limits::RECALL_NEAR_MAX;
use crate::memory::recall_vector::NearPassage;
use crate::policy::recall::RecallMode;

/// Largest distance of two entries that were said one after the other: a notice or a copy may have taken the place between them.
const BESIDE_SEQS_MAX: u64 = 2;
/// Quiet time after which another conversation begins, in milliseconds, where nobody says on which day it was.
const SESSION_GAP_MS: u64 = 4 * 3_600_000;
/// Length up to which an entry counts whole for its neighbours, in tokens; of a longer one its share.
const NEIGHBOUR_TOKENS: f64 = 96.0;
/// Places beside an entry whose words count with its own.
const BESIDE: [isize; 3] = [-2, -1, 1];
/// Length below which an entry is as good as any other short one, in tokens.
const SHORT_TOKENS: f64 = 32.0;
/// Names from which more of them say no more.
const NAMES_ENOUGH: usize = 3;
/// Rarity of a word that no entry of the view holds: that of one among some thousands.
const RARITY_UNKNOWN: f64 = 8.0;

/// What is ordered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Material {
    /// The question.
    pub query: String,
    /// Its quoted parts.
    pub quoted: Vec<String>,
    /// How rare each of its [`content_words`] is; none for a word that the view does not know yet.
    pub rarity: Vec<Option<f64>>,
    /// The candidates and what was said beside them.
    pub rows: Vec<Spoken>,
    /// Places of those that may be listed for themselves. Others are listed only where they stand directly beside one.
    pub hits: HashSet<u64>,
    /// Passages near to the question, the nearest first; none where there are no vectors.
    pub near: Vec<NearPassage>,
}

/// An entry in its order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ranked {
    /// Key.
    pub id: String,
    /// Place of the message.
    pub seq: u64,
    /// The sum of its parts.
    pub score: f64,
    /// Its parts, by [`super::part_names`].
    pub parts: [f64; PARTS],
    /// Its best passage, in bytes; all of it if it is short.
    pub passage: Range<usize>,
}

/// The entries, best first; among equals the newest. Of two that say the same in a question about how things stand, the newer comes
/// first.
pub(crate) fn ranked(material: &mut Material, mode: RecallMode) -> Vec<Ranked> {
    material.rows.sort_by_key(|row| row.seq);
    material.rows.dedup_by_key(|row| row.seq);
    let mut lexicon = Lexicon::new();
    let asked = question(material, &mut lexicon);
    let reads: Vec<Read<'_>> =
        material.rows.iter().map(|row| Read::of(row, &asked, &mut lexicon)).collect();
    let meaning = Meaning::of(&material.near, mode);
    let scene = Scene::of(&asked, &reads, &meaning);
    let mut list: Vec<(usize, usize, Ranked)> = Vec::new();
    for (at, read) in reads.iter().enumerate() {
        let is_hit = material.hits.contains(&read.row.seq);
        if is_hit || (!meaning.alone && scene.beside_hit(at, &material.hits)) {
            let (part, entry) = scene.best(at);
            list.push((at, part, entry));
        }
    }
    if let RecallMode::Vector { similarity_min: Some(similarity_min) } = mode {
        list.retain(|(_, _, entry)| entry.score * 1000.0 >= f64::from(similarity_min));
    }
    list.sort_by(|a, b| b.2.score.total_cmp(&a.2.score).then(b.2.seq.cmp(&a.2.seq)));
    if asked.about_now && !meaning.alone {
        let order: Vec<(usize, usize)> = list.iter().map(|(at, part, _)| (*at, *part)).collect();
        for (from, to) in newer_first(&asked, &reads, &order) {
            let moved = list.remove(from);
            list.insert(to, moved);
        }
    }
    list.into_iter().map(|(_, _, entry)| entry).collect()
}

fn question(material: &Material, lexicon: &mut Lexicon) -> Asked {
    let words = content_words(&material.query);
    let known = |word: &str| {
        let at = words.iter().position(|known| known == word)?;
        material.rarity.get(at).copied().flatten()
    };
    let rarity = |word: &str| known(word).filter(|r| *r > 0.0).unwrap_or(RARITY_UNKNOWN);
    Asked::read(&material.query, &material.quoted, rarity, &speakers(&material.rows), lexicon)
}

/// What is known by vectors.
struct Meaning {
    /// Likeness of each passage by place and first byte.
    near: HashMap<(u64, usize), f64>,
    /// The nearest passage of each entry, in bytes, and its likeness.
    best: HashMap<u64, (Range<usize>, f64)>,
    weights: Weights,
    alone: bool,
}

impl Meaning {
    /// Likeness counts from that of the last passage that was near enough to be told (of the others it is not known), as a share of the
    /// best; alone, it is the cosine.
    fn of(near: &[NearPassage], mode: RecallMode) -> Self {
        let alone = matches!(mode, RecallMode::Vector { .. });
        let least = near.last().filter(|_| near.len() >= RECALL_NEAR_MAX && !alone);
        let floor = least.map_or(0.0, |passage| passage.similarity.max(0.0));
        let most = near.first().map_or(0.0, |passage| passage.similarity - floor);
        let unit = if alone { 1.0 } else { most.max(f64::MIN_POSITIVE) };
        let mut all = HashMap::with_capacity(near.len());
        let mut best: HashMap<u64, (Range<usize>, f64)> = HashMap::new();
        for passage in near {
            let value = (passage.similarity - floor).max(0.0) / unit;
            let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
            let (start, end) = (place(passage.start), place(passage.end));
            all.insert((passage.seq, start), value);
            let most = best.entry(passage.seq).or_insert((start..end, value));
            if value > most.1 {
                *most = (start..end, value);
            }
        }
        let weights = match (alone, near.is_empty()) {
            (true, _) => formula::vector(),
            (false, true) => formula::text(),
            (false, false) => formula::hybrid(),
        };
        Self { near: all, best, weights, alone }
    }
}

/// Everything that one entry's score needs of the others.
struct Scene<'a> {
    asked: &'a Asked,
    meaning: &'a Meaning,
    reads: &'a [Read<'a>],
    /// Match of each passage of each entry.
    matches: Vec<Vec<f64>>,
    /// The best of each entry.
    best: Vec<f64>,
    /// Match of each whole entry, as a share of the best.
    wholes: Vec<f64>,
    /// Whether an entry goes on with the one before it.
    follows: Vec<bool>,
    /// How much of the question the conversation of each entry holds.
    sessions: Vec<f64>,
}

impl<'a> Scene<'a> {
    fn of(asked: &'a Asked, reads: &'a [Read<'a>], meaning: &'a Meaning) -> Self {
        let matches: Vec<Vec<f64>> = reads
            .iter()
            .map(|read| read.parts.iter().map(|part| passage(asked, part)).collect())
            .collect();
        let best: Vec<f64> =
            matches.iter().map(|m| m.iter().copied().fold(0.0, f64::max)).collect();
        let words: usize = reads.iter().map(Read::length).sum();
        let mean_words = words as f64 / reads.len().max(1) as f64;
        let wholes = shares(reads.iter().map(|read| whole(asked, read, mean_words)).collect());
        let begins: Vec<bool> =
            (0..reads.len()).map(|at| at == 0 || new_session(&reads[at - 1], &reads[at])).collect();
        let follows = (0..reads.len())
            .map(|at| {
                !begins[at]
                    && reads[at].row.dialog
                    && reads[at - 1].row.dialog
                    && reads[at].row.seq - reads[at - 1].row.seq <= BESIDE_SEQS_MAX
            })
            .collect();
        Self {
            sessions: sessions(asked, reads, &begins),
            asked,
            meaning,
            reads,
            matches,
            best,
            wholes,
            follows,
        }
    }

    /// The entry so many steps before or behind, if the conversation leads there.
    fn neighbour(&self, at: usize, steps: isize) -> Option<usize> {
        let to = at.checked_add_signed(steps).filter(|to| *to < self.reads.len())?;
        let between = at.min(to) + 1..=at.max(to);
        self.follows[between].iter().all(|follows| *follows).then_some(to)
    }

    fn beside_hit(&self, at: usize, hits: &HashSet<u64>) -> bool {
        let hit = |steps| {
            self.neighbour(at, steps).is_some_and(|to| hits.contains(&self.reads[to].row.seq))
        };
        hit(-1) || hit(1)
    }

    /// Share of an entry that is near to its neighbours.
    fn nearness(&self, at: usize) -> f64 {
        (NEIGHBOUR_TOKENS / self.reads[at].tokens.max(1.0)).min(1.0)
    }

    /// What a neighbour's match is worth here.
    fn from(&self, at: usize, steps: isize) -> f64 {
        self.neighbour(at, steps).map_or(0.0, |to| self.best[to] * self.nearness(to))
    }

    /// How like a neighbour is to the question.
    fn likeness_from(&self, at: usize, steps: isize) -> f64 {
        let like = |to: usize| {
            let best = self.meaning.best.get(&self.reads[to].row.seq);
            best.map_or(0.0, |(_, like)| *like) * self.nearness(to)
        };
        self.neighbour(at, steps).map_or(0.0, like)
    }

    /// How far each word of the question is held by what was said beside an entry, and by the entry itself if it is short.
    fn held_beside(&self, at: usize) -> Vec<f64> {
        let own = Some(at).filter(|at| self.nearness(*at) >= 1.0);
        let beside: Vec<usize> =
            BESIDE.iter().filter_map(|steps| self.neighbour(at, *steps)).chain(own).collect();
        let held = |term: usize| {
            let holders = beside.iter().filter(|to| self.reads[**to].count(term) > 0);
            holders.map(|to| self.nearness(*to)).fold(0.0, f64::max)
        };
        (0..self.asked.terms.len()).map(held).collect()
    }

    /// Its best passage, and itself with the score of that.
    fn best(&self, at: usize) -> (usize, Ranked) {
        let read = &self.reads[at];
        let common = self.common(at);
        let beside = self.held_beside(at);
        let mut best: Option<(usize, Values, f64)> = None;
        for part in 0..read.parts.len() {
            let values = self.values(at, part, &common, &beside);
            let score = values.score(&self.meaning.weights);
            if best.as_ref().is_none_or(|(_, _, top)| score > *top) {
                best = Some((part, values, score));
            }
        }
        let (part, mut values, mut score) = best.expect("an entry has at least one passage");
        let row: &Spoken = read.row;
        let mut passage = read.parts[part].range.clone();
        // Of a very long text only the beginning is read here; what is near may stand anywhere in it.
        if let Some((place, like)) = self.meaning.best.get(&row.seq).filter(|_| self.meaning.alone)
        {
            values.set(Part::Similarity, *like);
            (passage, score) = (place.clone(), values.score(&self.meaning.weights));
        }
        let parts = values.weighed(&self.meaning.weights);
        (part, Ranked { id: row.id.clone(), seq: row.seq, score, parts, passage })
    }

    /// What counts for each passage of an entry alike.
    fn common(&self, at: usize) -> Values {
        let (asked, read) = (self.asked, &self.reads[at]);
        let one = |holds: bool| if holds { 1.0 } else { 0.0 };
        let unnamed = read.name.is_none() && read.row.role != "user";
        let speaker = read.name.as_ref().is_some_and(|name| asked.named.contains(name));
        let mut values = Values::default();
        values.set(Part::Whole, self.wholes[at]);
        values.set(Part::Speaker, one(speaker));
        values.set(Part::Assistant, one(unnamed));
        values.set(Part::AssistantToFirst, one(unnamed && asked.first_person));
        values.set(Part::AssistantAsked, one(unnamed && asked.about_reply));
        values.set(Part::Session, self.sessions[at]);
        if let (Some(moment), Some(day)) = (&asked.moment, read.said) {
            let said = moment.said(day);
            values.set(Part::SaidDay, said.day);
            values.set(Part::SaidMonth, said.month);
            values.set(Part::SaidAfter, said.after);
            values.set(Part::SaidYear, said.year);
        }
        let length = read.tokens.max(SHORT_TOKENS).ln_1p() / 8.0;
        values.set(Part::WholeLength, length);
        values.set(Part::UserLength, one(read.name.is_none() && read.row.role == "user") * length);
        let is_sentence = asked.verbatim.len() > 1;
        let verbatim = if read.row.content.trim() == asked.text {
            VERBATIM_SAME
        } else if read.is(&asked.verbatim) {
            VERBATIM_ALL
        } else {
            one(is_sentence && read.holds(&asked.verbatim))
        };
        values.set(Part::Verbatim, verbatim);
        let quoted = asked.quoted.iter().filter(|phrase| read.holds(phrase)).count();
        values.set(Part::Quoted, quoted as f64);
        values
    }

    fn values(&self, at: usize, part: usize, common: &Values, beside: &[f64]) -> Values {
        let (asked, read) = (self.asked, &self.reads[at]);
        let own = self.matches[at][part];
        let words = &read.parts[part];
        let one = |holds: bool| if holds { 1.0 } else { 0.0 };
        let held = |term: usize| if words.counts[term] > 0 { 1.0 } else { beside[term] };
        let mut values = *common;
        values.set(Part::Coverage, coverage(asked, held));
        values.set(Part::Together, together(asked, words));
        let like = self.meaning.near.get(&(read.row.seq, words.range.start));
        values.set(Part::Similarity, like.copied().unwrap_or(0.0));
        // What was said before a long entry belongs to its beginning, what was said behind it to its end.
        let short = self.nearness(at) >= 1.0;
        if short || part == 0 {
            values.set(Part::BeforePrevious, self.from(at, -2));
        }
        if short || part + 1 == read.parts.len() {
            values.set(Part::AfterNext, self.from(at, 2));
            values.set(Part::NextSimilarity, self.likeness_from(at, 1));
        }
        let question = self.neighbour(at, -1).filter(|to| self.reads[*to].asks);
        if part == 0 && question.is_some() {
            values.set(Part::Answers, self.from(at, -1));
            values.set(Part::AnswersSimilarity, self.likeness_from(at, -1));
        }
        values.set(Part::User, one(asked.first_person && read.row.role == "user") * own);
        values.set(Part::Asks, one(words.asks) * self.nearness(at));
        let time = words.words.iter().any(|word| word.marks.time);
        let number = words.words.iter().any(|word| word.marks.number);
        values.set(Part::Time, one(asked.wants_time && time));
        values.set(Part::Number, one(asked.wants_number && number));
        values.set(Part::Names, words.names.min(NAMES_ENOUGH) as f64 / NAMES_ENOUGH as f64);
        values.set(Part::Length, (words.words.len() as f64).ln_1p() / 4.0);
        values
    }
}

/// Each as a share of the largest; zeros if that is zero.
fn shares(mut values: Vec<f64>) -> Vec<f64> {
    let most = values.iter().copied().fold(0.0, f64::max);
    if most > 0.0 {
        values.iter_mut().for_each(|value| *value /= most);
    }
    values
}

fn new_session(before: &Read<'_>, now: &Read<'_>) -> bool {
    match (before.day, now.day) {
        (Some(before), Some(now)) => before != now,
        (Some(_), None) | (None, Some(_)) => false,
        (None, None) => now.row.created_ms.saturating_sub(before.row.created_ms) > SESSION_GAP_MS,
    }
}

/// For each entry how much of the question its conversation holds. Zero for all where there is but one.
fn sessions(asked: &Asked, reads: &[Read<'_>], begins: &[bool]) -> Vec<f64> {
    let starts: Vec<usize> = (0..begins.len()).filter(|at| begins[*at]).collect();
    if starts.len() < 2 {
        return vec![0.0; begins.len()];
    }
    let ends = starts.iter().skip(1).copied().chain([begins.len()]);
    let mut found = Vec::with_capacity(begins.len());
    for (start, end) in starts.iter().copied().zip(ends) {
        let inside = &reads[start..end];
        let held = |term: usize| {
            if inside.iter().any(|read| read.count(term) > 0) { 1.0 } else { 0.0 }
        };
        let all = coverage(asked, held);
        found.extend(inside.iter().map(|_| all));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::rank::part_names;

    fn said(seq: u64, role: &str, name: &str, content: &str) -> Spoken {
        Spoken {
            id: format!("m{seq}"),
            seq,
            role: role.into(),
            name: (!name.is_empty()).then(|| name.into()),
            content: content.into(),
            dialog: true,
            ..Spoken::default()
        }
    }

    /// All rows are hits unless told otherwise.
    fn material(query: &str, rows: Vec<Spoken>) -> Material {
        let hits = rows.iter().map(|row| row.seq).collect();
        Material { query: query.into(), rows, hits, ..Material::default() }
    }

    fn order(mut material: Material) -> Vec<u64> {
        ranked(&mut material, RecallMode::Auto).iter().map(|entry| entry.seq).collect()
    }

    fn part(entry: &Ranked, name: &str) -> f64 {
        let at = part_names().iter().position(|known| *known == name).unwrap();
        entry.parts[at]
    }

    fn talk() -> Vec<Spoken> {
        vec![
            said(1, "user", "Ida", "Otto, what did you paint last summer?"),
            said(2, "assistant", "Otto", "A harbour with three red cranes."),
            said(3, "user", "Ida", "Lovely. I paint a lake each summer."),
            said(4, "assistant", "Otto", "The weather was dreadful this morning."),
        ]
    }

    #[test]
    fn the_answer_by_the_one_who_is_named_stands_before_the_words_of_the_question() {
        assert_eq!(order(material("What did Otto paint in summer?", talk()))[0], 2);
        assert_eq!(order(material("What does Ida paint in summer?", talk()))[0], 3);
    }

    #[test]
    fn what_was_said_is_found_first_by_its_own_text() {
        let mut rows = talk();
        rows.push(said(5, "user", "Ida", "Thanks!"));
        rows.push(said(6, "user", "Ida", "Thanks a lot, Otto, 3 cranes at 9 am! Thanks, thanks."));
        for row in rows.clone() {
            assert_eq!(order(material(&row.content, rows.clone()))[0], row.seq, "{}", row.content);
        }
    }

    #[test]
    fn other_names_in_the_same_places_give_the_same_order_and_no_names_still_one() {
        let renamed = |text: &str| text.replace("Ida", "Zora").replace("Otto", "Piet");
        let rows: Vec<Spoken> = talk()
            .into_iter()
            .map(|row| Spoken {
                name: row.name.as_deref().map(renamed),
                content: renamed(&row.content),
                seq: row.seq + 40,
                ..row
            })
            .collect();
        for query in ["What did Otto paint in summer?", "When did Ida paint a lake?"] {
            let theirs = order(material(&renamed(query), rows.clone()));
            let ours = order(material(query, talk()));
            assert_eq!(theirs, ours.iter().map(|seq| seq + 40).collect::<Vec<_>>(), "{query}");
        }
        let bare = |row: Spoken| Spoken { name: None, dialog: false, ..row };
        let found = order(material("lake paint", talk().into_iter().map(bare).collect()));
        assert_eq!(found[0], 3);
    }

    #[test]
    fn what_was_said_beside_a_hit_is_listed_and_what_stands_alone_is_not() {
        let mut beside = material("painted cranes", talk());
        beside.hits = HashSet::from([2]);
        assert_eq!(order(beside.clone()).len(), 3);
        beside.rows.iter_mut().for_each(|row| row.dialog = false);
        assert_eq!(order(beside.clone()), [2]);
        beside.rows.iter_mut().for_each(|row| row.dialog = true);
        beside.rows[0].said_at = Some("8 May 2023".into());
        beside.rows[1].said_at = Some("9 May 2023".into());
        assert_eq!(order(beside), [2, 3], "another day is another conversation");
    }

    #[test]
    fn of_a_long_entry_the_best_passage_is_shown_and_scored() {
        let noise = "Nothing of that kind was ever said here. ".repeat(30);
        let long = format!("{noise}The harbour code is marigold. {noise}");
        let mut found = material("harbour code", vec![said(7, "assistant", "", &long)]);
        let entry = ranked(&mut found, RecallMode::Auto).remove(0);
        assert!(long[entry.passage.clone()].contains("marigold"));
        assert!(entry.passage.len() < 500);
        assert!((entry.parts.iter().sum::<f64>() - entry.score).abs() < 1e-9);
        assert!(part(&entry, "coverage") > 0.0 && part(&entry, "verbatim") > 0.0);
    }

    #[test]
    fn what_is_the_question_to_the_letter_stands_before_what_differs_by_a_comma() {
        let query = "Thanks, Ada! I'll keep you updated.";
        let others = ["Thanks Ada! I'll keep you updated.", "thanks, Ada! I'll keep you updated"];
        let same = said(1, "user", "", query);
        let rows = (2..9).map(|n| said(n, "user", "ada", others[n as usize % 2]));
        let mut found = material(query, std::iter::once(same).chain(rows).collect());
        let first = &ranked(&mut found, RecallMode::Auto)[0];
        assert_eq!((first.seq, part(first, "verbatim")), (1, 5.0 * VERBATIM_SAME));
    }

    #[test]
    fn equal_texts_have_equal_scores_and_the_newest_stands_first() {
        let text =
            "seven grey boats left the old stone harbour before the cold morning tide came in";
        let query = "grey boats old stone harbour cold morning tide came late again";
        let rows: Vec<Spoken> =
            (1..=60).map(|n| Spoken { dialog: false, ..said(n, "user", "", text) }).collect();
        let mut same = material(query, rows);
        same.rarity = (1..=10).map(|n| Some(7.0 * f64::from(n).sin().abs())).collect();
        let first = ranked(&mut same, RecallMode::Auto);
        assert!(first.iter().all(|entry| entry.parts == first[0].parts), "to the last bit");
        assert_eq!(
            first.iter().map(|entry| entry.seq).collect::<Vec<_>>(),
            (1..=60).rev().collect::<Vec<_>>()
        );
    }

    #[test]
    fn quotes_outrank_everything_and_rare_words_common_ones() {
        let rows = vec![
            said(1, "user", "", "blue boat blue boat, a boat so blue"),
            said(
                2,
                "user",
                "",
                "At dawn they saw that the boat was blue as ever, over there in the bay",
            ),
        ];
        let mut quoted = material("boat blue as ever", rows.clone());
        quoted.quoted = vec!["blue as ever".into()];
        assert_eq!(order(quoted), [2, 1]);
        let rows = vec![said(1, "user", "", "a boat, a boat"), said(2, "user", "", "a marigold")];
        let mut rare = material("boat marigold", rows);
        rare.rarity = vec![Some(0.5), Some(7.0)];
        assert_eq!(order(rare), [2, 1]);
    }

    #[test]
    fn the_newer_statement_stands_before_the_stale_one_when_the_question_is_about_now() {
        let rows = vec![
            said(1, "user", "", "My weekly word target for the essay is 1200 words per week."),
            said(
                9,
                "user",
                "",
                "My weekly word target for the essay is now 1350 words, a bit more than before.",
            ),
            said(20, "assistant", "", "Essays have words."),
        ];
        let now =
            order(material("What is my weekly word target for the essay per week?", rows.clone()));
        assert_eq!(now[..2], [9, 1]);
        let then = order(material("What was my weekly word target of 1200 words per week?", rows));
        assert_eq!(then[0], 1);
    }

    #[test]
    fn vectors_lift_what_no_word_matches_and_alone_they_are_the_order() {
        let rows = vec![
            said(1, "user", "", "The boat is blue."),
            said(5, "user", "", "She owns a sailing yacht."),
            said(9, "user", "", "A boat."),
        ];
        let near = |seq, similarity| NearPassage {
            id: format!("m{seq}"),
            seq,
            passage: 0,
            start: 0,
            end: 5,
            similarity,
        };
        let mut found = material("boat", rows);
        found.near = vec![near(5, 0.9), near(1, 0.3)];
        let hybrid = ranked(&mut found, RecallMode::Auto);
        let yacht = hybrid.iter().find(|entry| entry.seq == 5).unwrap();
        assert!(part(yacht, "similarity") > 0.0);
        found.hits = HashSet::from([1, 5]);
        let least = |least| RecallMode::Vector { similarity_min: Some(least) };
        let seqs = |found: &mut Material, mode| -> Vec<u64> {
            ranked(found, mode).iter().map(|entry| entry.seq).collect()
        };
        assert_eq!(seqs(&mut found, least(0)), [5, 1]);
        assert_eq!(seqs(&mut found, least(900)), [5]);
        assert_eq!(seqs(&mut found, least(901)), Vec::<u64>::new());
    }
}
