//! Where chunks lie in their document; where only chunks are known, what their document reads like.

use std::ops::Range;

use crate::memory::archive::Span;

/// The document and the place of each chunk in it, in bytes. Chunks that stand in `document` in their order lie where they stand; else they
/// are put one behind the other, parted by a line break where neither side has white space.
pub fn laid_out(texts: &[&str], document: Option<&str>) -> (String, Vec<Range<usize>>) {
    if let Some(document) = document
        && let Some(places) = places(texts, document)
    {
        return (document.to_owned(), places);
    }
    let mut whole = String::new();
    let mut places = Vec::with_capacity(texts.len());
    for text in texts {
        let open = whole.chars().next_back().is_some_and(|c| !c.is_whitespace());
        if open && !text.starts_with(char::is_whitespace) {
            whole.push('\n');
        }
        let start = whole.len();
        whole.push_str(text);
        places.push(start..whole.len());
    }
    (whole, places)
}

/// What a stored document reads like, and the place of each of its chunks in it, in bytes. Where each chunk tells where it lies (in characters)
/// and they leave nothing out between them, that decides; else they are put one behind the other.
pub fn restored(chunks: &[(&str, Option<Span>)]) -> (String, Vec<Range<usize>>) {
    placed(chunks).unwrap_or_else(|| {
        let texts: Vec<&str> = chunks.iter().map(|(text, _)| *text).collect();
        laid_out(&texts, None)
    })
}

/// The same by what the chunks tell; none where they do not, or tell what cannot be.
fn placed(chunks: &[(&str, Option<Span>)]) -> Option<(String, Vec<Range<usize>>)> {
    let begin = chunks.first()?.1?.start;
    let mut whole = String::new();
    // Where each character of the whole begins, and its end.
    let mut starts = vec![0];
    let mut places = Vec::with_capacity(chunks.len());
    for (text, span) in chunks {
        let at = usize::try_from((*span)?.start.checked_sub(begin)?).ok()?;
        let start = *starts.get(at)?;
        let known = whole.len() - start;
        // What two chunks share reads the same in both.
        let shared = known.min(text.len());
        if whole.get(start..start + shared)? != text.get(..shared)? {
            return None;
        }
        for (_, letter) in text[shared..].char_indices() {
            whole.push(letter);
            starts.push(whole.len());
        }
        places.push(start..start + text.len());
    }
    Some((whole, places))
}

/// The first place of each text behind the beginning of the one before.
fn places(texts: &[&str], document: &str) -> Option<Vec<Range<usize>>> {
    let mut from = 0;
    let mut places = Vec::with_capacity(texts.len());
    for text in texts {
        let start = from + document.get(from..)?.find(text)?;
        places.push(start..start + text.len());
        from = start + document[start..].chars().next().map_or(0, char::len_utf8);
    }
    Some(places)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        // A part of a larger piece lies inside what is there already.
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
}
