//! Lists of English function words: archive searches, recall searches and summaries each leave out
//! a different list.

/// The three lists of function words, named by their use. Each list was tuned by measurements of
/// its use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopWords {
    /// Words that a search of the archive ignores.
    Archive,
    /// Words of a question that a search of recall storage ignores.
    Recall,
    /// Words that a summary leaves out. A summary keeps negations, because a fact without its
    /// negation would be reversed.
    Summary,
}

impl StopWords {
    /// Returns all words of the list, in lower case.
    pub fn words(self) -> impl Iterator<Item = &'static str> {
        let lists: &[&'static str] = match self {
            Self::Archive => &[ALL, QUANTITIES, POSSESSIVE],
            Self::Recall => &[ALL, SPOKEN, NEGATIONS, POSSESSIVE],
            Self::Summary => &[ALL, QUANTITIES, SPOKEN, SUMMARY],
        };
        lists.iter().flat_map(|list| list.split(' '))
    }

    /// Whether the list contains a word, which must be in lower case.
    pub fn contains(self, word: &str) -> bool {
        self.words().any(|known| known == word)
    }
}

/// Words that are in all three lists of function words.
const ALL: &str = "a an and are as at be been by can did do does for from had has have he her his how i in is \
    it its of on or she that the their there these they this those to was we were what when \
    where which who whom whose why will with would you";

const QUANTITIES: &str = "many much";

const POSSESSIVE: &str = "s";

/// Words that are in the lists of function words for recall storage and for summaries.
const SPOKEN: &str = "about after all also am any before being between both but could doing done during each few \
    having here hers herself him himself if into itself just may me might mine more most must \
    my myself only other our ours over own same shall should so some such than theirs them \
    themselves then too us very your yours yourself";

/// Negations, and the short pieces that remain when `don't`, `I'll` or `we've` is split at the
/// apostrophe.
const NEGATIONS: &str = "d ll m no nor not re t ve";

const SUMMARY: &str = "above across actually again against ago ah almost along already although always amid among \
    another anybody anyhow anyone anything anyway anywhere apart around aside away became \
    because become below beside besides beyond dont down eg either else enough etc even ever \
    every everybody everyone everything everywhere further gonna gotta hello hence hes hey hi \
    hmm however huh id ie ill im indeed instead ive kinda least less let lets like lot lots \
    maybe moreover mostly near neither nevertheless now off oh ok okay once one ones onto \
    others otherwise ought ourselves out per perhaps please quite rather really shes since \
    somebody somehow someone something sometimes somewhat somewhere soon sort still thats \
    thereby therefore theyll theyre theyve thing things though through throughout thus till \
    together toward towards uh um under until unto up upon via way well weve whatever whenever \
    whereas wherever whether whichever while whoever whole within wow yay yeah yep yes yet \
    youd youll youre yourselves youve yup";
