//! Tests that token counts equal those of OpenAI's published encodings.

use vctx_core::memory::{Encoding, TokenCounter as _};
use vctx_core::text::{EarlierTiktoken, Tiktoken};

/// Returns the tables that OpenAI publishes, as another program reads them.
fn published(encoding: Encoding) -> &'static tiktoken_rs::CoreBPE {
    match encoding {
        Encoding::O200kBase => tiktoken_rs::o200k_base_singleton(),
        Encoding::Cl100kBase => tiktoken_rs::cl100k_base_singleton(),
    }
}

#[test]
fn counts_are_the_published_ones() {
    // Token counts that OpenAI's tiktoken returns for these texts.
    let table = [
        ("", 0, 0),
        ("hello world", 2, 2),
        ("tiktoken is great!", 6, 6),
        ("antidisestablishmentarianism", 6, 6),
        ("2 + 2 = 4", 7, 7),
    ];
    for (text, o200k, cl100k) in table {
        assert_eq!(Tiktoken::new(Encoding::O200kBase).count(text), o200k, "o200k_base of {text:?}");
        assert_eq!(
            Tiktoken::new(Encoding::Cl100kBase).count(text),
            cl100k,
            "cl100k_base of {text:?}"
        );
    }
}

#[test]
fn the_spelling_of_a_special_token_is_plain_text() {
    for &encoding in Encoding::ALL {
        let counter = Tiktoken::new(encoding);
        assert_eq!(counter.encoding(), encoding);
        assert!(counter.count("<|endoftext|>") > 3, "{encoding}");
    }
}

#[test]
fn a_long_text_counts_like_its_encoding_in_one_go() {
    let text = "The tide turns at seven, and the harbour master wants 14 euros. ".repeat(2_000);
    for &encoding in Encoding::ALL {
        let table = published(encoding);
        let counter = Tiktoken::new(encoding);
        assert!(text.len() > 7 * 16 * 1024);
        assert_eq!(counter.count(&text), table.encode_ordinary(&text).len() as u64, "{encoding}");
    }
}

/// Earlier versions counted some of these texts one or two tokens too high.
#[test]
fn long_texts_without_a_blank_between_words_count_exactly() {
    let base64 = (0..40_000_u32).map(|n| char::from(b"aQ7z/Rk2+Xw9s"[(n * n % 13) as usize]));
    let mut high = 0;
    for text in [
        "7".repeat(50_000),
        "\tif a { b(c); }\n".repeat(3_000),
        base64.collect(),
        "a".repeat(40_000),
        "漢字，".repeat(6_000),
        " ".repeat(40_000),
        "-=".repeat(20_000),
        "\n".repeat(40_000),
    ] {
        for &encoding in Encoding::ALL {
            let whole = published(encoding).encode_ordinary(&text).len() as u64;
            let shown = &text[..text.floor_char_boundary(16)];
            assert_eq!(Tiktoken::new(encoding).count(&text), whole, "{encoding}: {shown:?}");
            let earlier = EarlierTiktoken::new(encoding).count(&text);
            assert!(earlier >= whole, "{encoding}: {shown:?}: {earlier} of {whole}");
            high += u64::from(earlier > whole);
        }
    }
    assert!(high >= 4, "{high} counts of earlier versions were too high");
}

#[test]
fn runs_without_a_blank_are_counted_and_do_not_panic() {
    let counter = Tiktoken::default();
    for unit in ["a", "A", " ", "\n", "漢", "🦀", "é", "\u{0}", "7", " \t", "-"] {
        let text = unit.repeat(60_000 / unit.len());
        let tokens = counter.count(&format!("{text}x"));
        assert!(tokens > 0 && tokens <= text.len() as u64 + 1, "{unit:?}: {tokens}");
    }
}

/// The files of the encodings have the published tokens. `UPDATE_GOLDEN=1` writes the files.
#[test]
fn the_files_have_the_published_tokens() {
    for &encoding in Encoding::ALL {
        let mut wanted = Vec::new();
        for rank in 0.. {
            // Special tokens are not in the file; their ranks follow a gap.
            let Ok(token) = published(encoding).decode_bytes(&[rank]) else { break };
            wanted.push(u8::try_from(token.len()).expect("a short token"));
            wanted.extend(token);
        }
        let path = format!("{}/text/{encoding}.tokens", env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, &wanted).expect("the file can be written");
        }
        assert!(
            std::fs::read(&path).expect("a file") == wanted,
            "{path}: run with UPDATE_GOLDEN=1"
        );
    }
}

/// The sources of the program have words, numbers and signs of all kinds.
#[test]
fn real_texts_count_as_published() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut compared = 0;
    for file in
        ["text/tiktoken.rs", "text/lexicon.rs", "context/intent.rs", "search/rank/subjects.txt"]
    {
        let text = std::fs::read_to_string(folder.join(file)).expect("a file");
        for part in text.split("\n\n").chain([text.as_str()]) {
            for &encoding in Encoding::ALL {
                let whole = published(encoding).encode_ordinary(part).len() as u64;
                assert_eq!(Tiktoken::new(encoding).count(part), whole, "{encoding}: {part:?}");
                compared += 1;
            }
        }
    }
    assert!(compared > 100, "{compared}");
}
