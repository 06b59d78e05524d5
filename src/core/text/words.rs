//! English words by how little they tell: those a telegraphic line leaves out, and those it counts for less.

/// Function words, left out. Negations are not among them: leaving them out would turn a fact around.
pub(super) const STOP_WORDS: &str = "a about above across actually after again against ago ah all almost along already also although always am \
amid among an and another any anybody anyhow anyone anything anyway anywhere apart are around as aside at away be became because become been \
before being below beside besides between beyond both but by can could did do does doing done down during each eg either else enough etc even \
ever every everybody everyone everything everywhere few for from further gonna gotta had has have having he hello hence her here hers herself \
hey hi him himself his hmm how however huh i ie if in indeed instead into is it its itself just kinda least less let lets like lot lots many \
may maybe me might mine more moreover most mostly much must my myself near neither nevertheless now of off oh ok okay on once one ones only \
onto or other others otherwise ought our ours ourselves out over own per perhaps please quite rather really same shall she should since so \
some somebody somehow someone something sometimes somewhat somewhere soon sort still such than that thats the their theirs them themselves \
then there thereby therefore these they thing things this those though through throughout thus till to together too toward towards uh um \
under until unto up upon us very via was way we well were what whatever when whenever where whereas wherever whether which whichever while \
who whoever whole whom whose why will with within would wow yay yeah yep yes yet you your yours yourself yourselves yup im ive id ill hes shes \
youre youve youll youd theyre theyve theyll were weve dont";

/// Names spelled like function words, kept where a capital marks them within a sentence.
pub(super) const NAMES_LIKE_STOP_WORDS: [&str; 2] = ["May", "Will"];

/// Words of any conversation (greetings, praise, feelings, general verbs), kept but counted for less.
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
