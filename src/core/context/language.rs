//! Tells English questions from others: the steps of a build know the words of English, and other
//! languages are searched and graded by their own words alone.

use crate::search::StopWords;

/// Frequent small words of other languages.
const OTHERS: &str = "aber als auch auf beim bin bist das dass dem den der des die ein eine einen einer es für hat ich im ist kann mein meine mit nach nicht oder sie sind um und von wann warum was welche wer wie wo zu zum zur au aux avec ce ces cette comment dans de des du elle est et il je la le les leur ma mais mes mon nous où par pas pour quand quel quelle qui que sa ses son sont sur un une vous al como con cuando cuál cuándo cuánto del dónde el ella en es esta este la las lo los mi mis muy no para pero por qué quién se su sus un una y che chi come cosa da della di dove è gli il lo mia mio nel non per perché più quando quanto sono una uno com não o os um uma een en het hoe is mijn niet van voor waar wat wie";

/// Whether a question is in English, as far as its words say; a question of names alone is.
pub fn is_english(question: &str) -> bool {
    let letters = question.chars().filter(|c| c.is_alphabetic());
    let (latin, other) =
        letters.fold(
            (0, 0),
            |(latin, other), c| {
                if c < '\u{250}' { (latin + 1, other) } else { (latin, other + 1) }
            },
        );
    if other > latin {
        return false;
    }
    let lower = question.to_lowercase();
    let words = || lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let own = words().filter(|word| StopWords::Recall.contains(word)).count();
    let others = words()
        .filter(|word| OTHERS.split(' ').any(|known| known == *word))
        .filter(|word| !StopWords::Recall.contains(word))
        .count();
    others <= own
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_of_other_languages_are_told_from_english_ones() {
        for (question, expected) in [
            ("Where does my sister play the violin?", true),
            ("What does the ferry to La Spezia cost?", true),
            ("Ada Roe Lisbon 2021", true),
            ("", true),
            ("Wie heißt mein Zahnarzt?", false),
            ("Combien coûte le bac pour Elbe ?", false),
            ("¿Cuánto cuesta el ferry a Elba?", false),
            ("Dove suona mia sorella?", false),
            ("Кто мой стоматолог?", false),
            ("我的牙医是谁?", false),
        ] {
            assert_eq!(is_english(question), expected, "{question}");
        }
    }
}
