//! Tests how a document's text and the positions of its chunks are restored from the chunks.

use vctx_core::chunk::{laid_out, restored};
use vctx_core::memory::archive::Span;

#[test]
fn chunks_lie_where_they_stand_or_one_behind_the_other() {
    let document = "Ebbe und Flut. Ebbe. Überall.";
    let (whole, places) = laid_out(&["Ebbe", "Ebbe.", "Überall."], Some(document));
    assert_eq!((whole.as_str(), &places[..]), (document, &[0..4, 15..20, 21..30][..]));
    let (whole, places) = laid_out(&["Flut ", "Ebbe", "Ebbe"], Some("Ebbe"));
    assert_eq!((whole.as_str(), &places[..]), ("Flut Ebbe\nEbbe", &[0..5, 5..9, 10..14][..]));
    assert_eq!(laid_out(&[], None), (String::new(), vec![]));
}

#[test]
fn a_stored_document_reads_as_its_chunks_tell() {
    let at =
        |start: u64, text: &str| Some(Span { start, end: start + text.chars().count() as u64 });
    let document = "Ebbe und Flut. Überall Ebbe.";
    let (first, second, third) = ("Ebbe und Flut. ", "Flut. Überall ", "Ebbe.");
    let chunks = [(first, at(100, first)), (second, at(109, second)), (third, at(123, third))];
    let (whole, places) = restored(&chunks);
    assert_eq!(whole, document);
    let texts: Vec<&str> = places.iter().map(|place| &whole[place.clone()]).collect();
    assert_eq!(texts, [first, second, third]);
    // A chunk may lie completely inside an earlier, larger chunk.
    let inner = restored(&[("abcdef", at(0, "abcdef")), ("cd", at(2, "cd"))]);
    assert_eq!(inner, ("abcdef".to_owned(), vec![0..6, 2..4]));
    for chunks in [
        [("abc", None), ("def", at(3, "def"))],
        [("abc", at(0, "abc")), ("def", at(4, "def"))],
        [("abc", at(0, "abc")), ("xyz", at(2, "xyz"))],
        [("abc", at(5, "abc")), ("def", at(3, "def"))],
    ] {
        assert_eq!(restored(&chunks), laid_out(&chunks.map(|c| c.0), None), "{chunks:?}");
    }
}
