//! English words with little content, which have less weight in summaries and lexical vectors.

/// Names that are spelled like function words; a summary keeps such a word if it is capitalised
/// within a sentence.
pub(super) const NAMES_LIKE_STOP_WORDS: [&str; 2] = ["May", "Will"];

/// Names of the months, which count like numbers.
pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Words common to all conversations (greetings, praise, feelings, general verbs), which have less
/// weight in a summary.
pub(super) const FILLER_WORDS: &str = "able absolutely agree agreed amazing appreciate awesome bad beautiful best better big bit bring brings brought \
bye call came care catch check come comes coming congrats congratulations cool course crazy cute day days deal def definitely enjoy enjoyed \
enjoying everyday exactly excellent excited exciting extra fantastic far feel feeling feelings feels felt find finding fine first for forward \
found fun gave get gets getting give gives giving glad go goes going gone good got great guess guys happen happened happens happy hard hear \
heard help helped helpful helping helps hope hopefully hoping idea important incredible inspiring interested interesting journey joy keep \
keeping kept kind know known last later life literally little long look looked looking looks love loved lovely loves luck made make makes \
making matter mean means mind moment nice often old part perfect possible pretty probably proud put question ready real recently remember \
reminds right said saw say saying says see seeing seem seems seen sense set share shared sharing sharing show shows small sorry sound sounds \
special start started stay stuff super support sure take takes taking talk talked talking tell telling thank thanks thanx think thinking thought \
thoughts time times today told tomorrow took totally tough tried truly try trying two understand use used using wait want wanted wants \
wonderful wondering word words work worked working works world worry worth year years";

/// Further words of encouragement, feelings and praise, which have less weight in a summary only:
/// the lexical vectors of stored texts depend on the list above.
pub(super) const PRAISE_WORDS: &str = "accomplish accomplished achieve achieved admire advice appreciated authentic awe balance beauty believe blast \
blessed blessing breathtaking bright busy calming challenge challenges challenging chance chances chat cherish cherished comfort comforting \
confidence confident connect connecting connection courage creative creativity currently curious dedicated dedication delight delighted \
determination determined difference difficult dream dreams easier easy effort efforts embrace emotional emotions encourage encouragement \
encouraging energy escape eventually exhausted experience experiences explore exploring express fabulous finally focus forget freedom fresh \
fulfilled fulfilling full future goal goals gorgeous grateful gratitude grow growing growth happening happiness heart honest honored huge hurry \
ideas imagine impact impressed impressive improve inspiration inspire inspired insane involved kindness lately lucky magical meaningful memorable \
memories memory moments motivate motivated motivating motivation need needed needs nervous news opportunities opportunity overwhelmed overwhelming \
passion passionate patience peace peaceful personal pic pics pleased positive positivity potential power powerful pride progress push pushing \
realize realized refreshing relax relaxed relaxing relief reminded reminder resilience respect rewarding rough sad satisfying scary soul spirit \
staying stoked strength strengths stress stressed stressful strong struggle struggles stuck stunning succeed success sweet thankful thrilled tired \
touching treasure true trust unique upset vibe vibes wanna warm whatever wild wisdom wish worries worried";
