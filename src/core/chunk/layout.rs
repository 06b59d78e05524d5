//! Finds the positions of chunks in their document, or restores a document from its chunks.

use std::ops::Range;

use crate::memory::archive::Span;

/// Returns the document and the byte range of each chunk in the document. If the document is not
/// given or does not contain a chunk, the document is made by joining the chunks. A line break is
/// inserted between two chunks that have no white space between them.
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

/// Restores a stored document from its chunks, and returns the byte range of each chunk. If the
/// stored offsets (in characters) leave no gap and fit the texts, the chunks are put at these
/// offsets. Otherwise the chunks are joined as in [`laid_out`].
pub fn restored(chunks: &[(&str, Option<Span>)]) -> (String, Vec<Range<usize>>) {
    placed(chunks).unwrap_or_else(|| {
        let texts: Vec<&str> = chunks.iter().map(|(text, _)| *text).collect();
        laid_out(&texts, None)
    })
}

/// Restores the document from the chunks' offsets; `None` if some offsets are missing, leave a gap,
/// or contradict the texts.
fn placed(chunks: &[(&str, Option<Span>)]) -> Option<(String, Vec<Range<usize>>)> {
    let begin = chunks.first()?.1?.start;
    let mut whole = String::new();
    // Byte position of each character of the document, and of the document's end.
    let mut starts = vec![0];
    let mut places = Vec::with_capacity(chunks.len());
    for (text, span) in chunks {
        let at = usize::try_from((*span)?.start.checked_sub(begin)?).ok()?;
        let start = *starts.get(at)?;
        let known = whole.len() - start;
        // The text that two chunks share must be equal in both chunks.
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

/// Returns the byte range of each text in the document; `None` if a text is not found. The search
/// for a text begins one character after the start of the previous text.
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
