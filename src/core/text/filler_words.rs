//! English words with little content, which have less weight in summaries and lexical vectors.

/// Names that are spelled like function words; a summary keeps such a word if it is capitalised
/// within a sentence.
pub(super) const NAMES_LIKE_STOP_WORDS: [&str; 2] = ["May", "Will"];

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
