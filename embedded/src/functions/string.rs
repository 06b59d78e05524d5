//! AQL text functions; positions and lengths count Unicode code points.

use base64::Engine as _;
use sha2::Digest as _;

use super::Call;
use super::like::like;
use super::table::{Function, MANY, live, pure};
use crate::error::{Code, Error, Result};
use crate::value::{Value, parse};

/// The AQL functions that this file implements.
pub(super) const TABLE: &[Function] = &[
    pure("CONCAT", 1, MANY, concat, "joins texts; skips nulls and joins the items of arrays"),
    pure(
        "CONCAT_SEPARATOR",
        2,
        MANY,
        concat_separator,
        "joins texts with a separator between them",
    ),
    pure(
        "CHAR_LENGTH",
        1,
        1,
        |_, a| Ok(count(a[0].to_text().chars().count())),
        "number of characters",
    ),
    pure("SHA256", 1, 1, sha256, "SHA-256 in hex"),
    pure("LOWER", 1, 1, |_, a| Ok(a[0].to_text().to_lowercase().into()), "in small letters"),
    pure("UPPER", 1, 1, |_, a| Ok(a[0].to_text().to_uppercase().into()), "in capitals"),
    pure("SUBSTRING", 2, 3, substring, "part from an offset"),
    pure("SUBSTRING_BYTES", 2, 5, substring_bytes, "part of a text from a byte offset"),
    pure("LEFT", 2, 2, left, "the first characters"),
    pure("RIGHT", 2, 2, right, "the last characters"),
    pure("TRIM", 1, 2, trim, "the text without white space at both ends"),
    pure("LTRIM", 1, 2, ltrim, "the text without white space at the start"),
    pure("RTRIM", 1, 2, rtrim, "the text without white space at the end"),
    pure("CONTAINS", 2, 3, contains, "whether a text contains another, or at which position"),
    pure("STARTS_WITH", 2, 3, starts_with, "whether a text begins with another"),
    pure("FIND_FIRST", 2, 4, find_first, "first position of a text"),
    pure("FIND_LAST", 2, 4, find_last, "last position of a text"),
    pure("SUBSTITUTE", 2, 4, substitute, "with texts replaced"),
    pure("LIKE", 2, 3, like_function, "whether a pattern of % and _ matches"),
    pure("REPEAT", 2, 3, repeat, "the same text several times"),
    pure(
        "LEVENSHTEIN_MATCH",
        3,
        6,
        levenshtein_match,
        "whether the edit distance of two texts is small",
    ),
    pure(
        "NGRAM_SIMILARITY",
        3,
        3,
        |c, a| ngrams(c, a, false),
        "share of the target's n-grams that a text contains",
    ),
    pure(
        "NGRAM_POSITIONAL_SIMILARITY",
        3,
        3,
        |c, a| ngrams(c, a, true),
        "similarity of two texts by their n-grams",
    ),
    pure("LEVENSHTEIN_DISTANCE", 2, 2, levenshtein, "edit distance with transpositions"),
    pure("JSON_STRINGIFY", 1, 1, json_stringify, "as JSON text"),
    pure("JSON_PARSE", 1, 1, json_parse, "a JSON text as a value"),
    pure(
        "TO_BASE64",
        1,
        1,
        |_, a| Ok(base64::prelude::BASE64_STANDARD.encode(a[0].to_text().as_bytes()).into()),
        "in base64",
    ),
    pure("TO_HEX", 1, 1, |_, a| Ok(hex(a[0].to_text().as_bytes()).into()), "as hex digits"),
    pure("TO_CHAR", 1, 1, to_char, "the character of a code point"),
    pure("ENCODE_URI_COMPONENT", 1, 1, encode_uri, "percent-encoded"),
    live("RANDOM_TOKEN", 1, 1, random_token, "random letters and digits"),
    live("UUID", 0, 0, |_, _| Ok(super::misc::random_uuid()?.into()), "a random UUID"),
];

/// Maximum length of a function's result, in bytes.
const TEXT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Maximum length of the result of REPEAT, in bytes (ArangoDB's limit).
const REPEAT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Maximum length of an argument of LEVENSHTEIN_DISTANCE, in characters.
const LEVENSHTEIN_CHARS_MAX: usize = 4096;
/// Maximum length of a RANDOM_TOKEN, in characters (ArangoDB's limit).
const TOKEN_CHARS_MAX: i64 = 65_536;

/// Converts a count to a value.
pub(super) fn count(n: usize) -> Value {
    Value::from(n as u64)
}

/// Encodes bytes as hex digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn sha256(_: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    Ok(hex(&sha2::Sha256::digest(a[0].to_text().as_bytes())).into())
}

fn concat(_: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let items = match a {
        [Value::Array(items)] => items.as_slice(),
        _ => a,
    };
    joined(items.iter().map(Value::to_text), "")
}

/// Joins texts with a separator; returns error 32 if the result is longer than the limit.
fn joined<T: AsRef<str>>(texts: impl Iterator<Item = T>, separator: &str) -> Result<Value> {
    let mut out = String::new();
    for (number, text) in texts.enumerate() {
        if number > 0 {
            out.push_str(separator);
        }
        if out.len() + text.as_ref().len() > TEXT_BYTES_MAX {
            return Err(Error::of(Code::ResourceLimit));
        }
        out.push_str(text.as_ref());
    }
    Ok(out.into())
}

/// Refuses a value that is larger than the limit before its text is made. Characters that need an
/// escape make the text up to six times as long.
fn json_stringify(_: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    if a[0].size_bytes_up_to(TEXT_BYTES_MAX) > TEXT_BYTES_MAX / 4 {
        return Err(Error::of(Code::ResourceLimit));
    }
    Ok(a[0].to_json().into())
}

fn concat_separator(_: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let separator = a[0].to_text();
    let items = match &a[1..] {
        [Value::Array(items)] => items.as_slice(),
        rest => rest,
    };
    joined(items.iter().filter(|v| !v.is_null()).map(Value::to_text), &separator)
}

/// Returns the start and end of a substring. A negative `offset` counts from the end of the text.
/// The substring never extends beyond the end of the text.
fn window(length: usize, offset: i64, take: Option<i64>) -> (usize, usize) {
    let length = length as i64;
    let start = if offset < 0 { (length + offset).max(0) } else { offset.min(length) };
    let end = take.map_or(length, |t| start.saturating_add(t.max(0)).min(length));
    (start as usize, end as usize)
}

fn substring(_: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let text = a[0].to_text();
    let (start, end) = window(text.chars().count(), a[1].to_i64(), a.get(2).map(Value::to_i64));
    Ok(text.chars().skip(start).take(end - start).collect::<String>().into())
}

/// Evaluates SUBSTRING_BYTES: a substring given by byte positions, optionally extended by some
/// characters on both sides. Returns null with a warning if a bound is inside a character.
fn substring_bytes(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let Some(text) = a[0].as_str() else { return call.caution(Code::BadParameter) };
    let (start, end) = window(text.len(), a[1].to_i64(), a.get(2).map(Value::to_i64));
    if !text.is_char_boundary(start) || !text.is_char_boundary(end) {
        return call.caution(Code::BadParameter);
    }
    let wider = |at: usize| usize::try_from(a.get(at).map_or(0, Value::to_i64)).unwrap_or(0);
    let left = wider(3);
    let right = if a.len() > 4 { wider(4) } else { left };
    let before = text[..start].char_indices().rev().take(left).last().map_or(start, |(at, _)| at);
    let behind: usize = text[end..].chars().take(right).map(char::len_utf8).sum();
    Ok(text[before..end + behind].into())
}

fn left(_: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let n = usize::try_from(a[1].to_i64()).unwrap_or(0);
    let text = a[0].to_text();
    let end = if text.len() <= n { None } else { text.char_indices().nth(n).map(|(at, _)| at) };
    Ok(match (end, &a[0]) {
        (None, Value::String(_)) => a[0].clone(),
        (end, _) => text[..end.unwrap_or(text.len())].into(),
    })
}

fn right(_: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let text = a[0].to_text();
    let n = usize::try_from(a[1].to_i64()).unwrap_or(0);
    let skip = text.chars().count().saturating_sub(n);
    Ok(text.chars().skip(skip).collect::<String>().into())
}

fn trimmed(text: &Value, chars: Option<&Value>, start: bool, end: bool) -> Value {
    let text = text.to_text();
    let chars = chars.map_or_else(|| " \t\r\n".into(), Value::to_text);
    let mut part: &str = &text;
    if start {
        part = part.trim_start_matches(|c| chars.contains(c));
    }
    if end {
        part = part.trim_end_matches(|c| chars.contains(c));
    }
    part.into()
}

fn trim(_: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let kind = a.get(1).filter(|v| v.is_number()).map_or(0, Value::to_i64);
    let chars = a.get(1).filter(|v| v.as_str().is_some());
    Ok(trimmed(&a[0], chars, kind != 2, kind != 1))
}

fn ltrim(_: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    Ok(trimmed(&a[0], a.get(1), true, false))
}

fn rtrim(_: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    Ok(trimmed(&a[0], a.get(1), false, true))
}

fn contains(_: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let (text, search) = (a[0].to_text(), a[1].to_text());
    let found = if search.is_empty() { None } else { text.find(&*search) };
    if a.get(2).is_some_and(Value::is_true) {
        // ArangoDB advances by the byte width of the text's first character, so it returns a byte
        // position rounded up to a multiple of that width.
        let width = text.chars().next().map_or(1, char::len_utf8);
        return Ok(found.map_or(Value::Int(-1), |at| count(at.next_multiple_of(width))));
    }
    Ok(Value::Bool(found.is_some()))
}

fn starts_with(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let Some(text) = a[0].as_str() else { return call.mistyped() };
    match &a[1] {
        Value::String(prefix) => Ok(Value::Bool(text.starts_with(&**prefix))),
        Value::Array(prefixes) => {
            let wanted = a.get(2).map_or(1, Value::to_i64);
            let found =
                prefixes.iter().filter_map(Value::as_str).filter(|p| text.starts_with(*p)).count();
            Ok(Value::Bool(found as i64 >= wanted))
        }
        _ => call.mistyped(),
    }
}

/// Returns the part of the text from `start` to `end` (inclusive), and the number of characters
/// before this part. `start` and `end` are optional arguments of the function.
fn searched(a: &[Value]) -> Option<(String, usize)> {
    let text = a[0].to_text();
    let start = usize::try_from(a.get(2).map_or(0, Value::to_i64)).ok()?;
    let end = match a.get(3) {
        Some(v) if !v.is_null() => usize::try_from(v.to_i64()).ok().filter(|e| *e >= start)?,
        _ => usize::MAX,
    };
    Some((text.chars().skip(start).take((end - start).saturating_add(1)).collect(), start))
}

fn find_first(_: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let Some((part, before)) = searched(a) else { return Ok(Value::Int(-1)) };
    let search = a[1].to_text();
    if search.is_empty() {
        return Ok(Value::Int(a.get(2).map_or(0, Value::to_i64)));
    }
    let at = part.find(&*search).map(|at| count(before + part[..at].chars().count()));
    Ok(at.unwrap_or(Value::Int(-1)))
}

fn find_last(_: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let Some((part, before)) = searched(a) else { return Ok(Value::Int(-1)) };
    let search = a[1].to_text();
    if search.is_empty() {
        return Ok(match a.get(3).filter(|v| !v.is_null()) {
            Some(end) => Value::Int(end.to_i64().saturating_add(1)),
            None => count(a[0].to_text().chars().count()),
        });
    }
    let at = part.rfind(&*search).map(|at| count(before + part[..at].chars().count()));
    Ok(at.unwrap_or(Value::Int(-1)))
}

/// Finds the earliest occurrence of any of several texts; returns the byte position of the
/// occurrence, and the index of the text that occurs there.
fn first_of<'a>(text: &str, needles: impl Iterator<Item = &'a str>) -> Option<(usize, usize)> {
    needles
        .enumerate()
        .filter(|(_, needle)| !needle.is_empty())
        .filter_map(|(which, needle)| text.find(needle).map(|at| (at, which)))
        .min()
}

/// Reads the texts to search for and their replacements; `None` if one of them is not a text.
fn replacements(a: &[Value]) -> Option<(Vec<(String, String)>, Option<&Value>)> {
    let text = |v: &Value| v.as_str().map(str::to_owned);
    let new = |v: &Value| if v.is_null() { Some(String::new()) } else { text(v) };
    if let Value::Object(map) = &a[1] {
        let pairs = map.iter().map(|(k, v)| Some((k.to_string(), new(v)?)));
        return Some((pairs.collect::<Option<_>>()?, a.get(2)));
    }
    let from: Vec<String> = match &a[1] {
        Value::Array(items) => items.iter().map(text).collect::<Option<_>>()?,
        one => vec![text(one)?],
    };
    let to: Vec<String> = match a.get(2) {
        None => Vec::new(),
        Some(Value::Array(items)) => items.iter().map(new).collect::<Option<_>>()?,
        Some(Value::String(one)) => vec![one.to_string(); from.len()],
        Some(_) => return None,
    };
    let to = to.into_iter().chain(std::iter::repeat(String::new()));
    Some((from.into_iter().zip(to).collect(), a.get(3)))
}

fn substitute(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    if a.len() > 3 && a[1].as_object().is_some() {
        let text = "invalid number of arguments for function 'SUBSTITUTE()', expected number of arguments: minimum: 2, maximum: 4";
        return call.warn(Code::QueryFunctionArgumentNumberMismatch, text);
    }
    let Some((pairs, limit)) = replacements(a) else { return call.mistyped() };
    let text = a[0].to_text();
    let mut left = match limit.map_or(-1, Value::to_i64) {
        few if few < -1 => 0,
        limit => limit,
    };
    let mut out = String::new();
    let mut rest: &str = &text;
    while left != 0 {
        let Some((at, which)) = first_of(rest, pairs.iter().map(|(from, _)| from.as_str())) else {
            break;
        };
        out.push_str(&rest[..at]);
        out.push_str(&pairs[which].1);
        if out.len() > TEXT_BYTES_MAX {
            return Err(Error::of(Code::ResourceLimit));
        }
        rest = &rest[at + pairs[which].0.len()..];
        left -= 1;
    }
    out.push_str(rest);
    Ok(out.into())
}

fn like_function(_: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let ignore_case = a.get(2).is_some_and(Value::is_true);
    Ok(Value::Bool(like(&a[0].to_text(), &a[1].to_text(), ignore_case)))
}

fn repeat(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let Ok(times) = usize::try_from(a[1].to_i64()) else { return call.mistyped() };
    let (text, separator) =
        (a[0].to_text(), a.get(2).map_or_else(Default::default, Value::to_text));
    let length = text.len().saturating_mul(times);
    if (length + separator.len()).max(separator.len().saturating_mul(times)) > REPEAT_BYTES_MAX
        || times > REPEAT_BYTES_MAX
    {
        let text = "Output string of AQL REPEAT function was limited to 16MB.";
        return call.explain(Code::ResourceLimit, text);
    }
    let bytes = (text.len() + separator.len()).saturating_mul(times);
    let mut out = String::with_capacity(bytes.saturating_sub(separator.len()));
    for at in 0..times {
        if at > 0 {
            out.push_str(&separator);
        }
        out.push_str(&text);
    }
    Ok(out.into())
}

fn levenshtein(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    match distance(&a[0].to_text(), &a[1].to_text(), true) {
        Some(distance) => Ok(count(distance)),
        None => call.mistyped(),
    }
}

/// Edit distance of two texts; `None` if a text has more than `LEVENSHTEIN_CHARS_MAX` characters.
fn distance(left: &str, right: &str, transpositions: bool) -> Option<usize> {
    let left: Vec<char> = left.chars().collect();
    let right: Vec<char> = right.chars().collect();
    if left.len().max(right.len()) > LEVENSHTEIN_CHARS_MAX {
        return None;
    }
    let width = right.len() + 1;
    let mut before: Vec<usize> = vec![0; width];
    let mut above: Vec<usize> = (0..width).collect();
    for i in 1..=left.len() {
        let mut row = vec![i; width];
        for j in 1..width {
            let differs = usize::from(left[i - 1] != right[j - 1]);
            row[j] = (above[j] + 1).min(row[j - 1] + 1).min(above[j - 1] + differs);
            let swapped = transpositions
                && i > 1
                && j > 1
                && left[i - 1] == right[j - 2]
                && left[i - 2] == right[j - 1];
            if swapped {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut above, row);
    }
    Some(above[right.len()])
}

/// Maximum distance argument of LEVENSHTEIN_MATCH without transpositions (ArangoDB's limit).
const MATCH_DISTANCE_MAX: i64 = 4;

/// Evaluates `LEVENSHTEIN_MATCH(text, target, distance, transpositions, …)` outside of SEARCH.
fn levenshtein_match(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let transpositions = match a.get(3) {
        None => true,
        Some(Value::Bool(flag)) => *flag,
        Some(_) => return call.mistyped(),
    };
    let most = a[2].to_i64();
    if !a[2].is_number() || most < 0 || !transpositions && most > MATCH_DISTANCE_MAX {
        return call.mistyped();
    }
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    match distance(&text(&a[0]), &text(&a[1]), transpositions) {
        Some(distance) => Ok(Value::Bool(distance as i64 <= most)),
        None => call.mistyped(),
    }
}

/// Maximum product of the lengths of two texts in an n-gram comparison.
const NGRAM_PAIRS_MAX: usize = 64 << 20;

/// Similarity of two texts by their n-grams (G. Kondrak, "N-gram similarity and distance"), in
/// single precision. Without `positional`, the number of equal n-grams is divided by the number of
/// n-grams in the target. With `positional`, two partly equal n-grams count as a fraction, and the
/// sum is divided by the number of n-grams in the longer text.
fn ngrams(call: &mut Call<'_>, a: &[Value], positional: bool) -> Result<Value> {
    let (Some(text), Some(target), true) = (a[0].as_str(), a[1].as_str(), a[2].is_number()) else {
        return call.mistyped();
    };
    let Some(size) = usize::try_from(a[2].to_i64()).ok().filter(|size| *size > 0) else {
        return call.explain(Code::BadParameter, "Invalid ngram size. Should be 1 or greater");
    };
    let mut text: Vec<char> = text.chars().collect();
    let mut target: Vec<char> = target.chars().collect();
    if positional && target.len() > text.len() {
        std::mem::swap(&mut text, &mut target);
    }
    if text.len().saturating_mul(target.len()) > NGRAM_PAIRS_MAX {
        return Err(Error::of(Code::ResourceLimit));
    }
    let alike = |x: &[char], y: &[char]| x.iter().zip(y).filter(|(x, y)| x == y).count() as f32;
    let found = if text.len().min(target.len()) < size {
        match (positional, text.is_empty()) {
            (true, true) => 1.0,
            (true, false) => alike(&text, &target) / text.len() as f32,
            (false, _) => f32::from(u8::from(text == target)),
        }
    } else {
        let mut best = vec![0_f32; text.len() - size + 2];
        let mut corner = 0.0;
        for one in target.windows(size) {
            for (at, other) in text.windows(size).enumerate() {
                let same = match alike(one, other) {
                    part if positional => part / size as f32,
                    part => f32::from(u8::from(part as usize == size)),
                };
                let above = best[at + 1];
                best[at + 1] = best[at].max(above).max(corner + same);
                corner = above;
            }
        }
        let all = if positional { text.len() } else { target.len() } - size + 1;
        best.last().map_or(0.0, |last| last / all as f32)
    };
    super::call::number(f64::from(found))
}

fn json_parse(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let Some(text) = a[0].as_str() else { return call.mistyped() };
    match parse(text.as_bytes()) {
        Ok(value) => Ok(value),
        Err(_) => call.mistyped(),
    }
}

fn to_char(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    match u32::try_from(a[0].to_i64()).ok().and_then(char::from_u32) {
        Some(c) if a[0].is_number() => Ok(c.to_string().into()),
        _ => call.mistyped(),
    }
}

fn encode_uri(_: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let mut out = String::new();
    for byte in a[0].to_text().bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.!~*'()".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    Ok(out.into())
}

fn random_token(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    let length = a[0].to_i64();
    if !(0..=TOKEN_CHARS_MAX).contains(&length) {
        return Err(call.fails());
    }
    let letter = |_| {
        let at = super::misc::random()? % LETTERS.len() as u64;
        Ok(char::from(LETTERS[at as usize]))
    };
    Ok((0..length).map(letter).collect::<Result<String>>()?.into())
}
