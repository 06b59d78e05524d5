//! Word lists of English with which the built-in summariser recognises subjects, verbs and the
//! borders of clauses. All words are in lower case.

use std::sync::LazyLock;

use rustc_hash::FxHashSet;

/// A set of words, which is read from a list when it is first used.
pub(super) type Words = LazyLock<FxHashSet<&'static str>>;

macro_rules! words {
    ($list:literal) => {
        LazyLock::new(|| $list.split_ascii_whitespace().collect())
    };
}

/// Words before a full stop that does not end a sentence.
pub(super) static ABBREVIATIONS: Words = words!(
    "mr mrs ms dr prof st mt vs e.g i.e approx jr sr ca cf dept est fig min max nr \
    jan feb mar apr jun jul aug sep sept oct nov dec mon tue wed thu fri"
);

/// First letters of the months in English and German.
pub(super) static MONTH_BEGINNINGS: Words =
    words!("jan feb mar mär apr may mai jun jul aug sep oct okt nov dec dez");

/// Words that join a clause to the clause before.
pub(super) static COORDINATORS: Words = words!("and but so yet plus");

/// Words with which a dependent clause begins.
pub(super) static SUBORDINATORS: Words = words!(
    "if unless when whenever once until till while whilst because since as although \
    though after before whether where wherever that which who whom whose what how why than"
);

/// Words with which a remark about the clause before begins.
pub(super) static TAILS: Words =
    words!("which who because since so as although though while where");

/// Words after which a sentence may state something wished, possible, denied or reported.
pub(super) static CAUTIOUS: Words = words!(
    "if unless whether hope hopes hoped hoping wish wishes wished would could might may maybe \
    perhaps should imagine imagined pretend suppose supposed say says said tell tells told ask asks asked hear heard think \
    thinks thought believe believes believed guess doubt dream dreamed dreamt claim claims claimed whenever afraid until \
    convinced told reckon"
);

/// Words at the beginning of a sentence that only mark a turn of speech.
pub(super) static MARKERS: Words = words!(
    "woah whoa unfortunately fortunately luckily haha well yeah yes yep yup oh ooh wow hey hi hello also ok okay plus btw haha hah lol anyway \
    actually honestly thanks congrats right sure absolutely definitely totally exactly great cool nice awesome amazing aw aww \
    hmm um uh gosh man dude and but so great good agreed true indeed welcome alright quick"
);

/// Phrases at the beginning of a sentence that only mark a turn of speech.
pub(super) const PHRASES: [&str; 8] = [
    "by the way,",
    "of course,",
    "to be honest,",
    "in fact,",
    "no worries,",
    "for sure,",
    "oh no,",
    "good morning,",
];

/// Words that say nothing on their own. A clause with only such words, fillers and names is
/// left out.
pub(super) static SMALL_TALK: Words = words!(
    "worries doubt doubts huge sweet posted stoked gorgeous hilarious insane wild impressive adorable delighted thrilled \
    pleased pic pics photo ya yall dude bro buddy pal nope congrats agree chat chatted chatting soon bet welcome deserve \
    deserved miss missed job haha funny news morning evening afternoon hurry totes honestly stunning breathtaking powerful relaxing chance forget"
);

/// Words that join a clause to what was said before, and are left out at its beginning.
pub(super) static JOINTS: Words = words!("and but so plus or");

/// Words with which speakers speak about themselves.
pub(super) static SELF: Words =
    words!("i i'm i've i'll i'd my me mine myself we we're we've we'll we'd our us ours ourselves");

/// Verbs that say where somebody lives.
pub(super) static LIVES: Words = words!("live living moved relocated lived");
/// Words between such a verb and the name of the place.
pub(super) static TOWARDS: Words = words!("in to at near");

/// First words of a request.
pub(super) static REQUESTS: Words = words!(
    "tell show give explain write make help please describe recommend suggest teach translate fix rewrite draft"
);

/// First words of a question.
pub(super) static ASKS: Words = words!(
    "what what's whats how how's who who's why where where's when which is are am do does did can could should would will any"
);

/// Words that say that something changed.
pub(super) static CHANGES: Words = words!(
    "moved changed switched now instead anymore longer cancelled canceled postponed rescheduled \
    replaced stopped quit sold renamed updated became former formerly scrap scrapped scrapping decided booked \
    back pushed shifted correction rang phoned called same turns after"
);

/// Words that deny something, or say what somebody likes or cannot bear.
pub(super) static REFUSALS: Words = words!(
    "no not never without nothing none cannot avoid allergic allergy intolerant prefer prefers love loves hate hates \
    always vegetarian vegan"
);

/// Words of stories about the past.
pub(super) static PAST: Words = words!("once ago used last");

static PRONOUNS: Words = words!(
    "i we he she they it you i'm i've i'll we're we've we'll he's she's he'll she'll they're they've \
    they'll it's it'll that's there's there you're you've you'll here's"
);

/// Pronouns that stand for what was said before, so that their clause does not stand alone.
pub(super) static BACK: Words =
    words!("he she they it that's it's he's she's they're they've he'll she'll they'll it'll");

static DETERMINERS: Words = words!("my his her our their your the this that these those a an");

static AUXILIARIES: Words = words!(
    "is are was were has have had will can does did isn't aren't wasn't weren't hasn't haven't won't can't doesn't didn't"
);

/// Maximum number of words between a determiner and the verb of its noun.
const NOUN_WORDS_MAX: usize = 3;

/// Forms of verbs that are seldom anything else, in the order of their meanings. Other verbs are
/// recognised by their ending or by the pronoun before them.
static VERBS: Words = words!(
    "am is are was were isn't aren't wasn't weren't ain't has have had hasn't haven't hadn't do does did don't \
    doesn't didn't will won't would wouldn't can can't cannot could couldn't shall should shouldn't may might must mustn't \
    go goes went get gets got gotten make makes made take takes took come comes came see sees saw know knows knew \
    think thinks thought say says said tell tells told give gives gave find finds found feel feels felt keep keeps kept leave \
    leaves left begin begins began hear hears heard run runs ran bring brings brought write writes wrote sit sat \
    stands stood lose loses lost pay pays paid meet meets met lead leads led speak speaks spoke read reads spend spends spent \
    grow grows grew win wins won buy buys bought send sends sent build builds built fall falls fell sell sells sold \
    teach teaches taught catch catches caught draws drew choose chooses chose eat eats ate drank drives drove fly \
    flies flew sings sang swam wear wears wore hold holds held lay lies hang hung rode sleep sleeps slept stuck \
    live lives works plays want wants need needs love loves help helps calls asks seem seems use uses try tries costs \
    weighs owns means mean start starts sounds sound look looks hate hates enjoy enjoys includes contains becomes became \
    remember remembers reminds remind let lets put puts set sets let's hope hopes believe believes became broke woke rang \
    knows moves gives arrives opens closes begins lasts belongs depends consists serves shows stays goes says drives happens \
    add check avoid consider remember turn book wait stop save ask call talk tell visit thank thought understood lent sang"
);

/// Words after a pronoun that show that the pronoun is no subject.
static NOT_VERBS: Words = words!(
    "and or but for to in on at of with from by as than too so the a an about because if when while who \
    which that all both during after before either"
);

/// A text is English if at least one in this number of its words is in [`COMMON`].
const COMMON_SHARE: usize = 7;

/// Common words of English that are rare in other languages.
static COMMON: Words = words!(
    "the and to that it for you with have are be this but they he she as our from your his my i i'm i've it's \
    don't there can just on at had has been would could what when which their your about"
);

/// Whether a list of words contains a word.
pub(super) fn is_one_of(list: &Words, word: &str) -> bool {
    list.contains(word)
}

/// Returns a word in lower case without the punctuation around the word.
pub(super) fn lower(word: &str) -> String {
    word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase().replace('’', "'")
}

/// Whether a word, together with the word after, begins a clause with its subject.
pub(super) fn is_subject(word: &str, next: &str) -> bool {
    let (word, next) = (lower(word), lower(next));
    is_one_of(&PRONOUNS, &word) && (word.contains('\'') || !is_one_of(&NOT_VERBS, &next))
}

/// Whether words begin with a noun phrase, like `my sister`, and its verb.
pub(super) fn begins_with_noun_and_verb<'a>(mut words: impl Iterator<Item = &'a str>) -> bool {
    let begins = words.next().is_some_and(|word| is_one_of(&DETERMINERS, &lower(word)));
    let mut phrase = words.skip(1).take(NOUN_WORDS_MAX).map(lower);
    begins
        && phrase
            .find(|word| is_one_of(&NOT_VERBS, word) || is_one_of(&AUXILIARIES, word))
            .is_some_and(|word| is_one_of(&AUXILIARIES, &word))
}

/// Whether a text has a finite verb.
pub(super) fn has_verb(text: &str) -> bool {
    let mut before = String::new();
    let mut is_capital = false;
    for (at, raw) in text.split_whitespace().enumerate() {
        let word = lower(raw);
        let after_pronoun = is_one_of(&PRONOUNS, &before)
            && !before.contains('\'')
            && !word.is_empty()
            && !is_one_of(&NOT_VERBS, &word);
        let contracted =
            word.ends_with("n't") || (word.contains('\'') && is_one_of(&PRONOUNS, &word));
        let is_past =
            at > 0 && word.len() > 4 && word.ends_with("ed") && !is_one_of(&DETERMINERS, &before);
        let is_third = at > 1
            && is_capital
            && raw.starts_with(char::is_lowercase)
            && word.len() > 3
            && word.ends_with('s')
            && !word.ends_with("ss")
            && !word.ends_with("'s");
        if after_pronoun || contracted || is_past || is_third || is_one_of(&VERBS, &word) {
            return true;
        }
        is_capital = raw.starts_with(char::is_uppercase) && !is_one_of(&DETERMINERS, &word);
        before = word;
    }
    false
}

/// Whether a text seems to be in English: many of its words are common English words.
pub(super) fn is_english(text: &str) -> bool {
    let words = text.split_whitespace().map(lower);
    let (all, common) = words.fold((0, 0), |(all, common), word| {
        (all + 1, common + usize::from(is_one_of(&COMMON, &word)))
    });
    common > 0 && common * COMMON_SHARE >= all
}
