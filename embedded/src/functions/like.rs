//! Matches texts with the patterns of `LIKE`.

/// Whether the whole text matches a LIKE pattern with `%` (any text), `_` (one character) and `\`
/// (the next character literally).
pub fn like(text: &str, pattern: &str, ignore_case: bool) -> bool {
    if ignore_case {
        like_folded(&text.to_lowercase(), &pattern.to_lowercase())
    } else {
        like_folded(text, pattern)
    }
}

/// Like [`like`], for texts whose case was folded. Nothing is allocated, because a search compares
/// each token of a dictionary with a pattern.
fn like_folded(text: &str, pattern: &str) -> bool {
    enum Part {
        Any,
        One,
        Is(char),
    }
    /// Returns the first part of a pattern and the rest of the pattern.
    fn part(pattern: &str) -> Option<(Part, &str)> {
        let mut chars = pattern.chars();
        let part = match chars.next()? {
            '%' => Part::Any,
            '_' => Part::One,
            '\\' => {
                let mut after = chars.clone();
                match after.next() {
                    // A backslash at the end of a pattern means nothing.
                    None => return None,
                    Some(escaped) if "%_\\?+[(){}^$|.*".contains(escaped) => {
                        chars = after;
                        Part::Is(escaped)
                    }
                    Some(_) => Part::Is('\\'),
                }
            }
            other => Part::Is(other),
        };
        Some((part, chars.as_str()))
    }
    /// Returns the first character of a text and the rest of the text.
    fn first(text: &str) -> Option<(char, &str)> {
        let mut chars = text.chars();
        Some((chars.next()?, chars.as_str()))
    }
    let (mut text, mut pattern) = (text, pattern);
    // Where to go on after a mismatch: the pattern after its last `%`, and the text that this `%`
    // does not yet stand for.
    let mut retry: Option<(&str, &str)> = None;
    while let Some((c, rest)) = first(text) {
        match part(pattern) {
            Some((Part::Any, after)) => {
                retry = Some((after, text));
                pattern = after;
            }
            Some((Part::One, after)) => (text, pattern) = (rest, after),
            Some((Part::Is(wanted), after)) if wanted == c => (text, pattern) = (rest, after),
            _ => {
                let Some((after, from)) = retry else { return false };
                let Some((_, from)) = first(from) else { return false };
                retry = Some((after, from));
                (text, pattern) = (from, after);
            }
        }
    }
    while let Some((Part::Any, after)) = part(pattern) {
        pattern = after;
    }
    part(pattern).is_none()
}

#[cfg(test)]
mod tests {
    use super::like;

    /// Matches by definition: `%` is any text, `_` one character, and `\\` makes the next plain.
    fn defined(text: &[char], pattern: &[char]) -> bool {
        match (pattern, text) {
            ([], _) => text.is_empty(),
            (['%', rest @ ..], _) => (0..=text.len()).any(|at| defined(&text[at..], rest)),
            (['\\'], _) => text.is_empty(),
            (['_', after @ ..], [_, rest @ ..]) => defined(rest, after),
            (['\\', c @ ('%' | '_' | '\\'), after @ ..], [first, rest @ ..])
            | ([c, after @ ..], [first, rest @ ..]) => c == first && defined(rest, after),
            (_, []) => false,
        }
    }

    #[test]
    fn patterns_match_by_their_definition() {
        let of = |letters: [char; 5], number: usize| -> Vec<char> {
            (0..number % 6).map(|at| letters[number / 5_usize.pow(at as u32 + 1) % 5]).collect()
        };
        for pattern in (0..15_625).step_by(11) {
            let pattern = of(['%', '_', 'a', 'é', '\\'], pattern);
            for text in (0..15_625).step_by(97) {
                let text = of(['a', 'é', 'a', '_', '\\'], text);
                let (text, pattern) = (String::from_iter(&text), String::from_iter(&pattern));
                let chars = |text: &str| text.chars().collect::<Vec<_>>();
                let wanted = defined(&chars(&text), &chars(&pattern));
                assert_eq!(like(&text, &pattern, false), wanted, "{text} {pattern}");
            }
        }
    }
}
