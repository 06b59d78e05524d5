//! A search for only the best hits returns the beginning of the complete sorted hit list, also over
//! many segments.

use arango_embedded::Engine;
use arango_embedded::value::Value;

use super::{
    LOOKS_MAX, NEVER_MS, begin, collection, insert, keys, open, put, rows, rows_in, segments, set,
    view,
};

/// Number of documents: enough for several windows and blocks of the posting lists, with frequent,
/// medium and rare terms.
const MANY: u64 = 3000;

/// Returns a pseudo-random number below `below`; `state` starts from a fixed seed.
fn chance(state: &mut u64, below: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % below
}

/// Returns search conditions: lists of words, also with a second list of less weight, and phrases
/// with and without additional words.
fn searches() -> Vec<String> {
    let words =
        ["w0", "w1 w9", "w0 w1 w2", "w17 w3 w0", "w29 w28 w2", "w5 w11 w23 w30 w31", "none w4"];
    let scattered =
        words.map(|words| format!("ANALYZER(d.text IN TOKENS('{words}', 'text_en'), 'text_en')"));
    let phrase =
        |text: &str| format!("BOOST(ANALYZER(PHRASE(d.text, '{text}', 'text_en'), 'text_en'), 10)");
    let phrases = [("w0 w0", "w0 w0"), ("w0 w1", "w2 w0"), ("w1 w0", "w1 w0")].map(|(one, other)| {
        let (first, second) = (phrase(one), phrase(other));
        format!(
            "({first} OR {second}) AND (BOOST(d.n >= 0, 0) OR ANALYZER(d.text IN TOKENS('{one}', 'text_en'), 'text_en'))"
        )
    });
    let some = |words: &str| format!("ANALYZER(d.text IN TOKENS('{words}', 'text_en'), 'text_en')");
    let two = [("w1 w9", "w0 w5"), ("w29 w2 w28", "w2 w17 w30"), ("w3", "w0"), ("w4 w1", "")];
    let two = two.map(|(words, related)| {
        let related = format!("BOOST({}, 0.3)", some(related));
        format!("({} OR {related}) AND BOOST(d.n >= 0 OR d.n == null, 0)", some(words))
    });
    scattered.into_iter().chain(phrases).chain([phrase("w0 w2")]).chain(two).collect()
}

/// The top hits of a search are the first entries of its complete hit list. Without further sort
/// keys, hits with equal scores keep their order.
fn the_best_are_the_first_of_all(engine: &Engine) {
    for search in searches() {
        for (call, filter) in
            [("BM25(d)", ""), ("BM25(d, 0.4, 1)", ""), ("TFIDF(d, true)", "AND d.n < 900")]
        {
            let search = format!("SEARCH ({search}) {filter}");
            let all = rows(
                engine,
                &format!("FOR d IN v {search} LET s = {call} SORT s DESC RETURN [s, d._key]"),
            );
            assert!(all.len() > 20, "{search}");
            for (keys, limit) in [("", 1), ("", 20), (", d.n", 20)] {
                let text = format!(
                    "FOR d IN v {search} SORT {call} DESC{keys} LIMIT {limit} RETURN [{call}, d._key]"
                );
                let best: Vec<String> = rows(engine, &text).iter().map(Value::to_json).collect();
                let mut first = all.clone();
                if !keys.is_empty() {
                    let number = |row: &Value| {
                        row.as_array().unwrap()[1].as_str().unwrap().parse::<u64>().unwrap()
                    };
                    let score = |row: &Value| row.as_array().unwrap()[0].as_f64().unwrap();
                    first.sort_by(|a, b| {
                        score(b).total_cmp(&score(a)).then(number(a).cmp(&number(b)))
                    });
                }
                let first: Vec<String> = first.iter().take(limit).map(Value::to_json).collect();
                assert_eq!(best, first, "{text}");
            }
        }
    }
}

fn best_score(engine: &Engine) -> String {
    let text = "FOR d IN v SEARCH ANALYZER(d.text IN ['w0'], 'text_en') SORT BM25(d) DESC LIMIT 1 RETURN BM25(d)";
    rows(engine, text)[0].to_json()
}

#[test]
fn a_quiet_view_has_few_segments_and_the_best_stay_the_best() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("engine");
    let engine = open(&directory, NEVER_MS);
    collection(&engine, "c");
    view(&engine, 0, "v", r#"{"c": {"fields": {"text": {"analyzers": ["text_en"]}, "n": {}}}}"#);
    let mut state = 7;
    for part in 0..5 {
        let transaction = begin(&engine, "c");
        for number in part * MANY / 5..(part + 1) * MANY / 5 {
            let words = (0..1 + chance(&mut state, 14)).map(|_| {
                let range = 1 + chance(&mut state, 32);
                format!("w{}", chance(&mut state, range))
            });
            let text = words.collect::<Vec<_>>().join(" ");
            put(
                &transaction,
                "c",
                &format!(r#"{{"_key": "{number}", "n": {number}, "text": "{text}"}}"#),
            );
        }
        transaction.commit(false).unwrap();
        engine.commit_views().unwrap();
    }
    let transaction = begin(&engine, "c");
    rows_in(&engine, &transaction, "FOR d IN c FILTER d.n % 7 == 3 REMOVE d IN c").unwrap();
    transaction.commit(false).unwrap();
    engine.commit_views().unwrap();
    let before = segments(&directory);
    assert!(before > 1, "{before} segments");
    the_best_are_the_first_of_all(&engine);
    let with_removed = best_score(&engine);
    drop((transaction, engine));

    let engine = open(&directory, 10);
    // As soon as searches use the merged segments, removed documents no longer influence the
    // scores.
    let few = (0..LOOKS_MAX).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        segments(&directory) == 1 && best_score(&engine) != with_removed
    });
    assert!(few, "{} segments", segments(&directory));
    the_best_are_the_first_of_all(&engine);
    // From this point on, searches use the precomputed data of frequent terms.
    the_best_are_the_first_of_all(&engine);
    insert(&engine, "c", r#"{"_key": "9999", "n": 9999, "text": "w0 later"}"#);
    let late = "FOR d IN v SEARCH ANALYZER(d.text IN TOKENS('later', 'text_en'), 'text_en') OPTIONS {waitForSync: true} RETURN d._key";
    assert_eq!(keys(&engine, late), set(&["9999"]));
    the_best_are_the_first_of_all(&engine);
}
