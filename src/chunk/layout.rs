//! Where chunks lie in their document; where only chunks are known, what their document reads like.

use std::ops::Range;

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
}
