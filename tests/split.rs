//! Splitters on real token counts: nothing is lost, nothing is too long, whatever the text.

use proptest::prelude::*;
use vctx::chunk::{By, Cut, Splitter, split};
use vctx::memory::{Encoding, TokenCounter};
use vctx::models::Tiktoken;

/// The first article of the Universal Declaration of Human Rights says something like this in each of them.
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

const ALL: [By; 4] = [By::Token, By::Recursive, By::Sentence, By::ParentChild];

fn counter() -> Tiktoken {
    Tiktoken::new(Encoding::O200kBase)
}

fn how(by: By, tokens_max: u64) -> Splitter {
    Splitter { by, tokens_max, ..Splitter::default() }
}

/// The cuts, after checking what holds for any text.
fn cuts(text: &str, how: &Splitter) -> Vec<Cut> {
    let counter = counter();
    let cuts = split(text, how, &counter);
    assert_eq!(cuts.is_empty(), text.is_empty());
    let mut end = 0;
    for cut in &cuts {
        assert!(cut.start <= end && cut.end > end, "{how:?}: {cut:?} behind {end}");
        assert!(how.overlap_tokens > 0 || cut.start == end, "{how:?}: {cut:?} repeats");
        end = cut.end;
        let tokens = counter.count(&text[cut.start..cut.end]);
        assert!(tokens <= how.tokens_max, "{how:?}: {tokens} tokens");
        if let Some(parent) = &cut.parent {
            assert!(parent.start <= cut.start && cut.end <= parent.end);
            assert!(counter.count(&text[parent.clone()]) <= 4 * how.tokens_max);
        }
        assert_eq!(cut.parent.is_some(), how.by == By::ParentChild);
    }
    assert_eq!(end, text.len(), "{how:?}: the end is missing");
    cuts
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
    }
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
    ] {
        let error = splitter.checked().unwrap_err();
        assert_eq!(error.fields["field"], field);
    }
    assert!(how(By::ParentChild, 64).checked().is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_text_is_cut_whole(text in "(\\PC|[ \n\t]|[a-z]{1,9} |\u{301}|🦀){0,400}", limit in 16_u64..200, by in 0..4_usize) {
        cuts(&text, &how(ALL[by], limit));
    }
}
