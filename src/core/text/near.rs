//! Finds the known name that a wrong name probably means, for error messages.

/// Maximum number of edits between a wrong name and the name that it means.
const EDITS_MAX: usize = 2;
/// Maximum length of a compared name, in characters; a longer name means none.
const NAME_CHARS_MAX: usize = 64;

/// Returns the known name that a wrong name probably means: one that begins with it, or differs
/// from it by at most two edits and in less than half of its letters.
pub fn nearest<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = wrong.chars().count();
    if length == 0 || length > NAME_CHARS_MAX {
        return None;
    }
    let scored = known.into_iter().filter_map(|name| {
        let edits = if name.starts_with(wrong) { 0 } else { edits(wrong, name) };
        (edits <= EDITS_MAX && edits * 2 < length.max(2)).then_some((edits, name))
    });
    scored.min_by_key(|(edits, _)| *edits).map(|(_, name)| name)
}

/// Returns the number of letters that must be inserted, removed or exchanged to make one name the
/// other (Levenshtein 1966).
fn edits(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().take(NAME_CHARS_MAX).collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        for (column, known) in other.iter().enumerate() {
            let exchanged = diagonal + usize::from(letter != *known);
            diagonal = row[column + 1];
            row[column + 1] = exchanged.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_name_means_the_nearest_known_one() {
        let known = ["query", "limit", "rehydrate", "role"];
        for (wrong, meant) in [
            ("q", Some("query")),
            ("qurey", Some("query")),
            ("limits", Some("limit")),
            ("rehydrated", Some("rehydrate")),
            ("x", None),
            ("tole", Some("role")),
            ("banana", None),
            ("", None),
        ] {
            assert_eq!(nearest(wrong, known), meant, "{wrong}");
        }
    }
}
