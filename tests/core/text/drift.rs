//! Tests the measures of a summary: its similarity to the summarized messages, and the amount of
//! their information that it lost.

use vctx_core::memory::Encoding;
use vctx_core::text::Tiktoken;
use vctx_core::text::drift::{information, similarity};
use vctx_core::text::local::Line;

fn line<'a>(speaker: &'a str, text: &'a str) -> Line<'a> {
    Line { seq: 1, day: "2023-05-08".parse().unwrap(), speaker, text }
}

const BOATS: [(&str, &str); 3] = [
    ("Ada", "The sloop has two sails and a brass compass. We sail to Lisbon in March."),
    ("Ben", "Bring the brass compass and warm coats, the harbour is cold."),
    ("Ada", "The harbour master charges fourteen euros for a berth."),
];

#[test]
fn a_summary_of_something_else_is_far_and_one_of_the_batch_is_near() {
    let batch = BOATS.map(|(speaker, text)| line(speaker, text));
    let near = similarity(
        "Ada: sloop two sails, brass compass, Lisbon March\nBen: warm coats, harbour cold",
        "",
        &batch,
    );
    let far = similarity("The guitar needs new strings.\nPiano lessons on Monday.", "", &batch);
    let (near, far) = (near.unwrap(), far.unwrap());
    assert!(near > 0.6 && far < 0.3, "{near} {far}");
    let itself: Vec<String> =
        BOATS.iter().map(|(speaker, text)| format!("{speaker}: {text}")).collect();
    assert!(similarity(&itself.join("\n"), "", &batch).unwrap() > 0.999);
}

#[test]
fn what_the_old_summary_said_is_no_drift() {
    let batch = [line("Ben", "The harbour is cold.")];
    let old = "Ada: guitar strings, piano lessons\nAda: violin bow";
    let new = "Ada: guitar strings, piano lessons, violin bow\nBen: harbour cold";
    let with = similarity(new, old, &batch).unwrap();
    let without = similarity(new, "", &batch).unwrap();
    assert!(with > without + 0.2, "{with} {without}");
}

#[test]
fn a_side_without_a_line_has_no_similarity() {
    assert_eq!(similarity("", "", &[line("Ada", "Hello")]), None);
    assert_eq!(similarity("Ada: hello", "", &[]), None);
}

#[test]
fn an_empty_summary_lost_everything_and_a_copy_nothing() {
    let counter = Tiktoken::new(Encoding::O200kBase);
    let batch = BOATS.map(|(speaker, text)| line(speaker, text));
    assert_eq!(information("", &batch, &counter).0, 1.0);
    let copy: Vec<&str> = BOATS.iter().map(|(_, text)| *text).collect();
    assert_eq!(information(&copy.join(" "), &batch, &counter).0, 0.0);
}
