//! Tests the text splitters with real token counts: for any text, no part is lost and no chunk is
//! too long.

use crate::share;
use proptest::prelude::*;
use vctx_core::chunk::{By, Cut, Splitter, sentences, split, split_by_meaning};
use vctx_core::memory::{Encoding, TokenCounter};
use vctx_core::text::{Tiktoken, lexical};

/// A sentence of the first article of the Universal Declaration of Human Rights, in several
/// languages.
const LANGUAGES: [&str; 30] = [
    "All human beings are born free.",
    "Alle Menschen sind frei geboren.",
    "Tous les êtres humains naissent libres.",
    "Todos los seres humanos nacen libres.",
    "Tutti gli esseri umani nascono liberi.",
    "Todos os seres humanos nascem livres.",
    "Alle mensen worden vrij geboren.",
    "Alla människor är födda fria.",
    "Kaikki ihmiset syntyvät vapaina.",
    "Kõik inimesed sünnivad vabadena.",
    "Wszyscy ludzie rodzą się wolni.",
    "Všichni lidé rodí se svobodní.",
    "Minden emberi lény szabadon születik.",
    "Toate ființele umane se nasc libere.",
    "Всички хора се раждат свободни.",
    "Все люди рождаются свободными.",
    "Всі люди народжуються вільними.",
    "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι.",
    "Bütün insanlar hür doğarlar.",
    "يولد جميع الناس أحرارًا.",
    "כל בני אדם נולדו בני חורין.",
    "تمام ابنای بشر آزاد به دنیا می‌آیند.",
    "सभी मनुष्यों को जन्मजात स्वतन्त्रता प्राप्त हैं।",
    "সমস্ত মানুষ স্বাধীনভাবে জন্মগ্রহণ করে।",
    "மனிதப் பிறவியினர் சகலரும் சுதந்திரமாகவே பிறக்கின்றனர்.",
    "มนุษย์ทั้งหลายเกิดมามีอิสระ",
    "人人生而自由。",
    "すべての人間は、生まれながらにして自由である。",
    "모든 인간은 태어날 때부터 자유롭다.",
    "Tất cả mọi người sinh ra đều được tự do.",
];

const ALL: [By; 7] = [
    By::Token,
    By::Recursive,
    By::Sentence,
    By::ParentChild,
    By::Character,
    By::Semantic,
    By::Code,
];

/// Dimension of a sentence's vector.
const DIMENSION: usize = 384;

fn counter() -> Tiktoken {
    Tiktoken::new(Encoding::O200kBase)
}

fn how(by: By, tokens_max: u64) -> Splitter {
    Splitter { by, tokens_max, ..Splitter::default() }
}

/// Splits a text, checks what must hold for every text, and returns the cuts.
fn cuts(text: &str, how: &Splitter) -> Vec<Cut> {
    let counter = counter();
    let cuts = match how.by {
        By::Semantic => by_meaning(text, how),
        _ => split(text, how, &counter),
    };
    assert_eq!(cuts.is_empty(), text.is_empty());
    let mut end = 0;
    for cut in &cuts {
        assert!(cut.start <= end && cut.end > end, "{how:?}: {cut:?} behind {end}");
        let repeats = how.overlap_tokens + how.overlap_chars.unwrap_or(0) > 0;
        assert!(repeats || cut.start == end, "{how:?}: {cut:?} repeats");
        end = cut.end;
        let part = &text[cut.start..cut.end];
        if how.by == By::Character {
            let chars = part.chars().count() as u64;
            assert!(chars <= how.chars_max.unwrap_or(512), "{how:?}: {chars} characters");
        } else {
            let tokens = counter.count(part);
            assert!(tokens <= how.tokens_max, "{how:?}: {tokens} tokens");
        }
        if let Some(parent) = &cut.parent {
            assert!(parent.start <= cut.start && cut.end <= parent.end);
            assert!(counter.count(&text[parent.clone()]) <= 4 * how.tokens_max);
        }
        assert_eq!(cut.parent.is_some(), how.by == By::ParentChild);
    }
    assert_eq!(end, text.len(), "{how:?}: the end is missing");
    cuts
}

/// Splits a text by the similarity of its sentences; the lexical embedder computes their vectors.
fn by_meaning(text: &str, how: &Splitter) -> Vec<Cut> {
    let places = sentences(text);
    let vectors: Vec<Vec<f64>> =
        places.iter().map(|place| lexical::embed_query(&text[place.clone()], DIMENSION)).collect();
    split_by_meaning(text, &places, &vectors, how, &counter())
}

#[test]
fn hard_texts_are_cut_whole_and_below_the_limit() {
    let giant_line = "x".repeat(20_000);
    let letters = "👩‍👩‍👧‍👦🏳️‍🌈".repeat(300);
    let zalgo = format!("a{}", "\u{301}".repeat(3_000));
    let blanks = format!("{}one{}two", " ".repeat(9_000), "\n".repeat(4_000));
    let languages = LANGUAGES.join("\n").repeat(3);
    let texts = [
        "",
        " ",
        "\n",
        "word",
        "\u{feff}a\u{0}b",
        &giant_line,
        &letters,
        &zalgo,
        &blanks,
        &languages,
        &"0123456789".repeat(900),
        &"漢字".repeat(2_000),
        &"a b ".repeat(3_000),
    ];
    for text in texts {
        for by in ALL {
            cuts(text, &how(by, 16));
            cuts(text, &how(by, 100));
        }
        cuts(text, &Splitter { overlap_tokens: 20, ..how(By::Token, 64) });
        let few = Splitter { chars_max: Some(16), ..how(By::Character, 16) };
        cuts(text, &few);
        cuts(text, &Splitter { overlap_chars: Some(8), ..few });
    }
}

#[test]
fn characters_are_counted_and_repeated_exactly() {
    let text = "0123456789abcdefghij".repeat(10);
    let twenty = Splitter { chars_max: Some(20), ..how(By::Character, 128) };
    let places: Vec<(usize, usize)> =
        cuts(&text, &twenty).iter().map(|cut| (cut.start, cut.end)).collect();
    assert_eq!(places, (0..10).map(|n| (20 * n, 20 * n + 20)).collect::<Vec<_>>());
    let overlapping = Splitter { overlap_chars: Some(5), ..twenty.clone() };
    let places: Vec<(usize, usize)> =
        cuts(&text, &overlapping).iter().map(|cut| (cut.start, cut.end)).collect();
    assert!(places.windows(2).all(|two| two[0].1 - two[1].0 == 5), "{places:?}");
    assert_eq!(places.len(), 13);
    // An emoji of several code points is never split. A character of several bytes counts as one
    // character.
    let family = "👩‍👩‍👧‍👦";
    let text = family.repeat(30);
    for cut in cuts(&text, &twenty) {
        assert_eq!((cut.end - cut.start) % family.len(), 0);
    }
    assert_eq!(cuts(&"漢".repeat(60), &twenty).len(), 3);
}

#[test]
fn what_is_about_something_else_is_another_chunk() {
    let boats = "The boat sails to Lisbon. The boat needs new sails. Sails of a boat wear in a storm. A boat in a storm sails slowly. ";
    let tea = "Green tea wants water of seventy degrees. Black tea wants boiling water. Tea in boiling water turns bitter. Bitter tea wants sugar. ";
    let tax = "The tax office sent a letter. The letter names the tax of last year. Last year the office asked for less tax. ";
    let text = [boats, tea, tax].concat();
    let found = cuts(&text, &how(By::Semantic, 128));
    let found: Vec<&str> = found.iter().map(|cut| &text[cut.start..cut.end]).collect();
    assert_eq!(found, [boats, tea, tax]);
    // A splitter that only counts tokens keeps this text in one chunk.
    assert_eq!(cuts(&text, &how(By::Sentence, 128)).len(), 1);
    let (first, second) =
        (cuts(&text, &how(By::Semantic, 128)), cuts(&text, &how(By::Semantic, 128)));
    assert_eq!(first, second);
    // A text about one topic is not split unless it is too long; it is then split at its largest
    // drops of similarity.
    let same = "The boat sails to Lisbon. ".repeat(5);
    assert_eq!(cuts(&same, &how(By::Semantic, 128)).len(), 1);
    let long = [boats.repeat(8), tea.repeat(8)].concat();
    let found = cuts(&long, &how(By::Semantic, 100));
    assert!(found.len() >= 5, "{found:?}");
    assert!(found.iter().any(|cut| cut.end == boats.len() * 8), "{found:?}");
}

#[test]
fn functions_and_classes_stay_whole_where_they_fit() {
    let rust = "use std::fmt;\n\n/// Adds two numbers.\n#[inline]\nfn add(a: u64, b: u64) -> u64 {\n    a + b\n}\n\nfn sub(a: u64, b: u64) -> u64 {\n    if a > b {\n        a - b\n    } else {\n        0\n    }\n}\n";
    let python = "import os\n\n\ndef tide(at):\n    if at > 7:\n        return 'low'\n    else:\n        return 'high'\n\n\n@cached\ndef berth(n):\n    return [\n        n,\n        n + 1,\n    ]\n";
    let script = "const a = 1;\n\nfunction sail(to) {\n\tconst days = {\n\t\tlisbon: 5,\n\t};\n\treturn days[to];\n}\n\nclass Boat {\n\tmoor() {\n\t\treturn 4;\n\t}\n}\n";
    let whole = |text: &str, tokens_max: u64, units: &[&str]| {
        let cuts = cuts(text, &how(By::Code, tokens_max));
        assert!(cuts.len() > 1, "{cuts:?}");
        for unit in units {
            let holds = cuts.iter().any(|cut| text[cut.start..cut.end].contains(unit));
            assert!(holds, "{unit:?} is parted: {cuts:?}");
        }
    };
    whole(
        rust,
        48,
        &[
            &rust[rust.find("///").unwrap()..rust.find("\n\nfn sub").unwrap()],
            &rust[rust.find("fn sub").unwrap()..],
        ],
    );
    whole(
        python,
        40,
        &[
            &python[python.find("def tide").unwrap()..python.find("\n\n\n@").unwrap()],
            &python[python.find("@cached").unwrap()..],
        ],
    );
    whole(
        script,
        40,
        &[
            &script[script.find("function").unwrap()..script.find("class").unwrap()],
            &script[script.find("class").unwrap()..],
        ],
    );
    // A class that is too long is split between its methods.
    let method = |name: &str| {
        format!(
            "    def {name}(self):\n        # Looks it up.\n        for one in self.all:\n            if one == '{name}':\n                return one\n\n"
        )
    };
    let methods = ["first", "second", "third", "fourth"].map(method);
    let class = format!("class Log:\n{}", methods.concat());
    let methods: Vec<&str> = methods.iter().map(|m| m.trim_end()).collect();
    whole(&class, 56, &methods);
}

#[test]
fn an_emoji_of_many_code_points_stays_whole() {
    let family = "👩‍👩‍👧‍👦";
    let text = family.repeat(200);
    for cut in cuts(&text, &how(By::Token, 64)) {
        assert_eq!((cut.end - cut.start) % family.len(), 0);
    }
}

#[test]
fn each_language_is_found_whole_in_some_chunk() {
    let text = LANGUAGES.join("\n\n");
    for by in [By::Recursive, By::Sentence, By::ParentChild] {
        let cuts = cuts(&text, &how(by, 64));
        for sentence in LANGUAGES {
            let found = cuts.iter().any(|cut| text[cut.start..cut.end].contains(sentence));
            assert!(found, "{by:?}: {sentence}");
        }
    }
}

#[test]
fn token_chunks_are_full_and_repeat_what_they_are_told_to() {
    let text = "The tide turns at seven and the harbour master wants fourteen euros. ".repeat(200);
    let counter = counter();
    let full = cuts(&text, &how(By::Token, 100));
    for cut in &full[..full.len() - 1] {
        assert!(counter.count(&text[cut.start..cut.end]) >= 90, "{cut:?}");
    }
    let overlapping = cuts(&text, &Splitter { overlap_tokens: 25, ..how(By::Token, 100) });
    for pair in overlapping.windows(2) {
        let repeated = counter.count(&text[pair[1].start..pair[0].end]);
        assert!((20..=25).contains(&repeated), "{repeated}");
    }
}

#[test]
fn paragraphs_and_sentences_stay_whole_where_they_fit() {
    let paragraph = "One boat. Two boats, three sails.\n\n";
    let text = paragraph.repeat(40);
    for cut in cuts(&text, &how(By::Recursive, 40)) {
        assert_eq!(cut.start % paragraph.len(), 0);
    }
    let text = "Ada sails to Lisbon in March. ".repeat(60);
    for cut in cuts(&text, &how(By::Sentence, 40)) {
        assert!(text[cut.start..cut.end].trim_end().ends_with("March."));
    }
}

#[test]
fn no_chunk_ends_with_the_heading_of_the_next() {
    let section = |n: usize| {
        let text = format!("The boat of day {n} left the harbour at {n} and came back late. ");
        format!("## Day {n}\n\n{}\n\n", text.repeat(1 + n % 7))
    };
    let text: String = (1..30).map(section).collect();
    for by in [By::Recursive, By::Sentence, By::ParentChild, By::Semantic] {
        let how = how(by, 64);
        let cuts = if by == By::Semantic { by_meaning(&text, &how) } else { cuts(&text, &how) };
        for cut in &cuts {
            let chunk = &text[cut.start..cut.end];
            let last = chunk.trim_end().lines().next_back().unwrap();
            assert!(!last.starts_with('#'), "{by:?}: {chunk}");
            assert!(counter().count(chunk) <= 64, "{by:?}: {chunk}");
        }
    }
}

#[test]
fn a_splitter_with_senseless_limits_is_refused_by_name() {
    for (splitter, field) in [
        (how(By::Token, 15), "splitter.tokens_max"),
        (how(By::Token, 4_096), "splitter.tokens_max"),
        (Splitter { overlap_tokens: 1, ..how(By::Recursive, 64) }, "splitter.overlap_tokens"),
        (Splitter { overlap_tokens: 33, ..how(By::Token, 64) }, "splitter.overlap_tokens"),
        (
            Splitter { parent_tokens_max: Some(64), ..how(By::Token, 64) },
            "splitter.parent_tokens_max",
        ),
        (
            Splitter { parent_tokens_max: Some(63), ..how(By::ParentChild, 64) },
            "splitter.parent_tokens_max",
        ),
        (
            Splitter { parent_tokens_max: Some(64), ..how(By::Code, 64) },
            "splitter.parent_tokens_max",
        ),
        (Splitter { overlap_tokens: 1, ..how(By::Semantic, 64) }, "splitter.overlap_tokens"),
        (Splitter { overlap_tokens: 1, ..how(By::Character, 64) }, "splitter.overlap_tokens"),
        (Splitter { chars_max: Some(64), ..how(By::Token, 64) }, "splitter.chars_max"),
        (Splitter { chars_max: Some(15), ..how(By::Character, 64) }, "splitter.chars_max"),
        (Splitter { chars_max: Some(8_193), ..how(By::Character, 64) }, "splitter.chars_max"),
        (Splitter { overlap_chars: Some(1), ..how(By::Code, 64) }, "splitter.overlap_chars"),
        (Splitter { overlap_chars: Some(257), ..how(By::Character, 64) }, "splitter.overlap_chars"),
    ] {
        let error = splitter.checked().unwrap_err();
        assert_eq!(error.fields["field"], field);
    }
    assert!(how(By::ParentChild, 64).checked().is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(share(64)))]

    #[test]
    fn any_text_is_cut_whole(text in "(\\PC|[ \n\t]|[a-z]{1,9} |\u{301}|🦀){0,400}", limit in 16_u64..200, by in 0..7_usize) {
        cuts(&text, &how(ALL[by], limit));
    }
}
