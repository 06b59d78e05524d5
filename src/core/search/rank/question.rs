//! Analyses a question: content words, named speakers, and whether the question asks for a time, a
//! number, a name or the present state.

use std::collections::HashSet;

use super::moment::Moment;
use super::word_vectors::Topic;
use super::words::{Lexicon, Stem, plain, word_ranges};
use crate::search::stop_words::StopWords;

/// Rarity assumed for a word that no entry of the ArangoSearch view contains: the rarity of a word
/// that only one of some thousand entries contains.
const RARITY_UNKNOWN: f64 = 8.0;
/// Maximum number of words of a query that are searched for; further words are ignored.
const RECALL_TERMS_MAX: usize = 64;

/// Pronouns that show that a question speaks in the first person.
const FIRST_WORDS: &str =
    "i me my mine myself we us our ours i'm i've i'd i'll we've we're we'll we'd";

/// Pronouns with which a question speaks of the user without a name.
const THIRD_WORDS: &str = "she her hers he his him they them their theirs";

/// `STATE_BEGINS` are possible first words of a question about the present state. The question must
/// also contain one of `STATE_VERBS` and none of `STATE_ENDS`, which show another intent.
const STATE_BEGINS: &str =
    "what when how which where who is are am do does have has what's who's where's when's";
const STATE_VERBS: &str = "is are am have has do does should can what's who's where's when's";
const STATE_ENDS: &str =
    "did was were had summary summarize list steps suggest recommend sequence throughout walk";

/// Maximum number of words of a query that only lists keywords.
const KEYWORDS_MAX: usize = 5;

/// Verbs that, directly after "you" or "you've", show that a question asks what the assistant said.
const TELLING: &str = "said told recommend recommended suggested mentioned gave advised explained wrote offered proposed";

/// First words that show that a question asks for a name.
const NAME_BEGINS: &str = "who where which";

/// The analysis of a question; all stems are from one [`Lexicon`].
pub(super) struct QuestionWords {
    /// Content words of the question without speakers' names; each word is listed once, with its
    /// rarity.
    pub(super) terms: Vec<(Stem, f64)>,
    /// For each word of `terms`, whether no entry of the ArangoSearch view contains the word.
    pub(super) unknown: Vec<bool>,
    /// Content words of the question without speakers' names, in order and with repetitions.
    pub(super) sequence: Vec<Stem>,
    /// Sum of the rarities of the question's content words.
    pub(super) total: f64,
    /// Speakers named in the question, in lower case; empty if the question names all speakers.
    pub(super) named: Vec<String>,
    /// Whether the question speaks in the first person.
    pub(super) first_person: bool,
    /// Whether the question is about the user: in the first person, or about a person whom it does
    /// not name.
    pub(super) about_user: bool,
    /// Whether the question asks for a time.
    pub(super) wants_time: bool,
    /// Whether the question asks for a number.
    pub(super) wants_number: bool,
    /// Whether the question asks for a name.
    pub(super) wants_name: bool,
    /// Whether the question asks what the assistant said.
    pub(super) about_reply: bool,
    /// The time that the question names.
    pub(super) moment: Option<Moment>,
    /// The question's words in lower case, without repetition.
    pub(super) words: HashSet<String>,
    /// Whether the query only lists keywords.
    pub(super) is_keywords: bool,
    /// Whether the question asks for the present state.
    pub(super) about_now: bool,
    /// The question's text without surrounding white space.
    pub(super) text: String,
    /// All words of the question in order.
    pub(super) verbatim: Vec<Stem>,
    /// The quoted parts of the question.
    pub(super) quoted: Vec<Vec<Stem>>,
    /// The subject of the question's content words.
    pub(super) topic: Topic,
    /// Share of the question's words, weighted by rarity, that `topic` knows.
    pub(super) topic_share: f64,
}

/// Returns the content words of a query in lower case, each once, in order. If a query has no
/// content word, all its words are returned.
pub(crate) fn content_words(query: &str) -> Vec<String> {
    let all = base_words(query);
    let telling: Vec<String> =
        all.iter().filter(|word| !StopWords::Recall.contains(word)).cloned().collect();
    let mut words = if telling.is_empty() { all } else { telling };
    let mut seen = HashSet::new();
    words.retain(|word| seen.insert(word.clone()));
    words.truncate(RECALL_TERMS_MAX);
    words
}

/// Returns the words of a text in lower case, without function words and single characters.
pub(crate) fn telling_words(text: &str) -> Vec<String> {
    let lists = [StopWords::Archive, StopWords::Recall, StopWords::Summary];
    let is_usual = |word: &str| lists.iter().any(|list| list.contains(word));
    let words = base_words(text).into_iter();
    words.filter(|word| word.chars().nth(1).is_some() && !is_usual(word)).collect()
}

/// Returns a text without the names of the given speakers; a text that consists of names only is
/// unchanged.
pub(crate) fn without_names<'n>(text: &str, names: impl Iterator<Item = &'n str>) -> String {
    let names: Vec<String> = names.map(str::to_lowercase).collect();
    let mut left = String::with_capacity(text.len());
    let mut at = 0;
    for range in word_ranges(text) {
        let word = plain(&text[range.clone()]);
        let word = word.strip_suffix("'s").unwrap_or(&word);
        let is_name = !StopWords::Recall.contains(word)
            && names.iter().any(|name| name == word || name.split(' ').any(|part| part == word));
        if is_name {
            left.push_str(&text[at..range.start]);
            at = range.end;
        }
    }
    left.push_str(&text[at..]);
    let left = left.split_whitespace().collect::<Vec<_>>().join(" ");
    if left.chars().any(char::is_alphanumeric) { left } else { text.to_owned() }
}

/// Returns the words of a text in lower case, without the possessive ending `'s`.
fn base_words(text: &str) -> Vec<String> {
    let words = word_ranges(text).into_iter().map(|range| plain(&text[range]));
    words.map(|word| word.strip_suffix("'s").map_or(word.clone(), str::to_owned)).collect()
}

/// Whether a question has a capitalised word after its first word.
fn names_somebody(query: &str) -> bool {
    let mut words = word_ranges(query).into_iter().map(|range| &query[range]).skip(1);
    words.any(|word| word.starts_with(char::is_uppercase) && !among(FIRST_WORDS, &plain(word)))
}

fn among(list: &str, word: &str) -> bool {
    list.split(' ').any(|known| known == word)
}

impl QuestionWords {
    /// Analyses a question. The function `rarity` returns the rarity of a content word, and
    /// `speakers` are the names of all speakers, in lower case.
    pub(super) fn read(
        query: &str,
        quoted: &[String],
        rarity: impl Fn(&str) -> Option<f64>,
        speakers: &[String],
        lexicon: &mut Lexicon,
    ) -> Self {
        let words: Vec<String> =
            word_ranges(query).into_iter().map(|range| plain(&query[range])).collect();
        let base = base_words(query);
        let calls =
            |word: &str, name: &str| name == word || name.split(' ').any(|part| part == word);
        let is_name = |word: &String| {
            !StopWords::Recall.contains(word) && speakers.iter().any(|name| calls(word, name))
        };
        let mut named: Vec<String> = Vec::new();
        for name in speakers {
            if base.iter().any(|word| !StopWords::Recall.contains(word) && calls(word, name)) {
                named.push(name.clone());
            }
        }
        if named.len() == speakers.len() {
            named.clear();
        }
        let unnamed: Vec<&String> = base.iter().filter(|word| !is_name(word)).collect();
        let telling: Vec<&String> =
            unnamed.iter().copied().filter(|word| !StopWords::Recall.contains(word)).collect();
        let content = match (telling.is_empty(), unnamed.is_empty()) {
            (false, _) => telling,
            (true, false) => unnamed,
            (true, true) => base.iter().collect(),
        };
        let mut terms: Vec<(Stem, f64)> = Vec::new();
        let mut unknown = Vec::new();
        let mut sequence = Vec::new();
        for word in content {
            let stem = lexicon.word(word).stem;
            sequence.push(stem);
            if terms.len() < RECALL_TERMS_MAX && terms.iter().all(|(known, _)| *known != stem) {
                let known = rarity(word);
                unknown.push(known.is_none());
                terms.push((stem, known.unwrap_or(RARITY_UNKNOWN)));
            }
        }
        let has = |word: &str| words.iter().any(|known| known == word);
        let pair = |first: &str, second: &[&str]| {
            words.windows(2).any(|two| two[0] == first && second.contains(&two[1].as_str()))
        };
        let units = ["days", "weeks", "months", "years", "hours"];
        let counts_time = words
            .windows(3)
            .any(|w| w[0] == "how" && w[1] == "many" && units.contains(&w[2].as_str()));
        let points = ["date", "day", "month", "year", "time"];
        let amounts = [
            "percentage",
            "number",
            "amount",
            "score",
            "price",
            "cost",
            "age",
            "size",
            "code",
            "combination",
            "budget",
            "rent",
            "dose",
            "fee",
            "address",
            "pressure",
            "weight",
            "height",
            "width",
        ];
        let values = |list: &[&str]| words.iter().any(|word| list.contains(&word.as_str()));
        let any = |list: &str| list.split(' ').any(has);
        let asks_early = words.iter().take(3).any(|word| among(STATE_BEGINS, word));
        let is_keywords = !query.contains('?')
            && words.len() <= KEYWORDS_MAX
            && !words.iter().any(|word| among(STATE_BEGINS, word));
        let is_sequence = ["in", "what", "which", "the"].iter().any(|word| pair(word, &["order"]));
        let total = terms.iter().map(|(_, rarity)| rarity).sum::<f64>().max(f64::MIN_POSITIVE);
        let known = terms.iter().filter(|(stem, _)| lexicon.has_topic(*stem));
        Self {
            topic: lexicon.topic(terms.iter().map(|(stem, _)| *stem)),
            topic_share: known.map(|(_, rarity)| rarity).sum::<f64>() / total,
            total,
            terms,
            unknown,
            sequence,
            named,
            first_person: any(FIRST_WORDS),
            about_user: any(FIRST_WORDS) || (any(THIRD_WORDS) && !names_somebody(query)),
            wants_time: has("when")
                || pair("what", &points)
                || pair("which", &points)
                || (is_keywords
                    && values(&[
                        "date",
                        "time",
                        "birthday",
                        "anniversary",
                        "appointment",
                        "deadline",
                        "expiry",
                    ]))
                || pair("how", &["long", "often"])
                || counts_time,
            wants_name: words.first().is_some_and(|word| among(NAME_BEGINS, word)),
            about_reply: pair("did", &["you"])
                || pair("you", &TELLING.split(' ').collect::<Vec<_>>())
                || words.windows(2).any(|two| two[0] == "you've" && among(TELLING, &two[1])),
            moment: Moment::read(&words),
            wants_number: pair(
                "how",
                &["many", "much", "old", "far", "big", "tall", "strong", "heavy"],
            ) || pair("what", &amounts)
                || (values(&amounts) && (is_keywords || asks_early)),
            about_now: (is_keywords || (asks_early && any(STATE_VERBS)))
                && !any(STATE_ENDS)
                && !is_sequence,
            text: query.trim().to_owned(),
            verbatim: lexicon.read(query).iter().map(|word| word.stem).collect(),
            quoted: quoted
                .iter()
                .map(|phrase| lexicon.read(phrase).iter().map(|word| word.stem).collect())
                .collect(),
            is_keywords,
            words: words.iter().cloned().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_tell_nothing_are_left_out_unless_there_are_no_others() {
        for (query, wanted) in [
            ("What did Ida's brother paint?", vec!["ida", "brother", "paint"]),
            ("who are you", vec!["who", "are", "you"]),
            ("tea and tea", vec!["tea"]),
            ("?", vec![]),
        ] {
            assert_eq!(content_words(query), wanted, "{query}");
        }
    }

    #[test]
    fn names_are_taken_out_of_a_question() {
        for (text, wanted) in [
            ("What did Ida's brother paint?", "What did brother paint?"),
            ("Did Otto meet Ida Stern?", "Did Otto meet ?"),
            ("Ida", "Ida"),
            ("idas boat", "idas boat"),
        ] {
            assert_eq!(without_names(text, ["Ida Stern"].into_iter()), wanted);
        }
    }

    fn read(query: &str, speakers: &[&str]) -> (QuestionWords, Lexicon) {
        let mut lexicon = Lexicon::new();
        let speakers: Vec<String> = speakers.iter().map(|name| (*name).to_owned()).collect();
        (QuestionWords::read(query, &[], |_| Some(1.0), &speakers, &mut lexicon), lexicon)
    }

    #[test]
    fn a_named_speaker_is_no_word_to_look_for_and_all_of_them_are_nobody() {
        let (asked, mut lexicon) = read("What did Ida's brother paint?", &["ida stern", "otto"]);
        assert_eq!(asked.named, ["ida stern"]);
        assert!(!asked.sequence.contains(&lexicon.word("ida").stem));
        assert!(asked.sequence.contains(&lexicon.word("brother").stem));
        assert!(read("Did Ida and Otto meet?", &["ida", "otto"]).0.named.is_empty());
        assert!(read("Did Ida meet him?", &["ida"]).0.named.is_empty());
        let (asked, mut lexicon) = read("Where is Ida?", &[]);
        assert_eq!(asked.sequence, [lexicon.word("ida").stem]);
        assert_eq!(read("Ida?", &["ida", "otto"]).0.sequence.len(), 1);
    }

    #[test]
    fn a_question_says_what_it_wants() {
        for (query, time, number, now, first) in [
            ("When did Ida paint the boat?", true, false, false, false),
            ("What time is my call?", true, false, true, true),
            ("How many weeks do I have?", true, true, true, true),
            ("How many sources are in my library?", false, true, true, true),
            ("What did I paint?", false, false, false, true),
            ("Summarize what we said", false, false, false, true),
            ("boat", false, false, true, false),
        ] {
            let asked = read(query, &[]).0;
            let found = (asked.wants_time, asked.wants_number, asked.about_now, asked.first_person);
            assert_eq!(found, (time, number, now, first), "{query}");
        }
    }
}
