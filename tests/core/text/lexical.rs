//! Tests lexical vectors: the influence of neighbouring text in a document, vectors of questions,
//! and unit length.

use vctx_core::text::composed;
use vctx_core::text::lexical::{DIMENSION, embed_document, embed_query};

const D: usize = DIMENSION as usize;

fn cosine(a: &[f64], b: &[f64]) -> f64 {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

fn texts(list: &[&str]) -> Vec<String> {
    list.iter().map(|t| (*t).to_owned()).collect()
}

#[test]
fn the_same_chunk_in_two_documents_has_two_vectors_near_each_other() {
    let shared = "The fee is due on the first of May.";
    let boats = embed_document(&texts(&["Berths in the harbour of Cuxhaven.", shared]), D);
    let flats = embed_document(&texts(&["Rooms in the student house.", shared]), D);
    assert_ne!(boats[1], flats[1]);
    assert!(cosine(&boats[1], &flats[1]) > 0.8);
    assert_eq!(boats, embed_document(&texts(&["Berths in the harbour of Cuxhaven.", shared]), D));
    // An embedder that looks at each text alone could not distinguish these texts.
    assert_eq!(embed_query(shared, D), embed_query(shared, D));
}

#[test]
fn what_stands_nearer_weighs_more() {
    let filler = "Lorem ipsum dolor sit amet consectetur adipiscing elit sed eiusmod. ".repeat(20);
    let document = texts(&[
        "Harbour master Petersen.",
        "He charges fourteen euros.",
        &filler,
        "Payment by card.",
    ]);
    let vectors = embed_document(&document, D);
    let question = embed_query("harbour master Petersen", D);
    assert!(cosine(&question, &vectors[1]) > cosine(&question, &vectors[3]) + 0.02);
}

#[test]
fn a_question_finds_its_chunk_by_words_and_word_parts() {
    let document = texts(&[
        "Ada moved to Lisbon in March and rents a flat near the river.",
        "The veterinarian prescribed drops for Biscuit, the older cat.",
        "Their savings are in an index fund at the cooperative bank.",
        "On Thursdays the choir rehearses Brahms in the parish hall.",
        "The bicycle needs new brake pads before the tour in August.",
    ]);
    let vectors = embed_document(&document, D);
    for (question, wanted) in [
        ("Where does Ada rent?", 0),
        ("Which vet drops does the cat Biscuit get?", 1),
        ("cooperative banks and funds", 2),
        ("when are the choir's rehearsals", 3),
        ("bicycles: braking", 4),
    ] {
        let question_vector = embed_query(question, D);
        let near = |at: &usize| cosine(&question_vector, &vectors[*at]);
        let best = (0..vectors.len()).max_by(|a, b| near(a).total_cmp(&near(b)));
        assert_eq!(best, Some(wanted), "{question}");
    }
}

#[test]
fn every_vector_has_length_one_and_any_dimension() {
    for dimension in [2, 256, 1024] {
        for text in ["", "the of and", "?!", "Brahms", &"long ".repeat(5000)] {
            let vectors = embed_document(&texts(&[text, "other words"]), dimension);
            for vector in vectors.iter().chain([&embed_query(text, dimension)]) {
                assert_eq!(vector.len(), dimension);
                let length = vector.iter().map(|c| c * c).sum::<f64>();
                assert!((length - 1.0).abs() < 1e-3, "{text:.20}: {length}");
            }
        }
    }
}

#[test]
fn the_same_chunk_among_others_has_another_vector_near_its_own() {
    let (x, y, z) = (vec![1.0, 0.0, 0.0], vec![0.0, 1.0, 0.0], vec![0.0, 0.0, 1.0]);
    let here = composed(&[x.clone(), y.clone()]);
    let there = composed(&[x.clone(), z]);
    assert_ne!(here[0], there[0]);
    assert!(here[0][0] > 0.95 && there[0][0] > 0.95);
    assert_ne!(here[0], x);
    assert_eq!(composed(std::slice::from_ref(&x)), [x]);
    assert!(composed(&[]).is_empty());
}
