//! Text functions; positions and lengths count Unicode code points.

use base64::Engine as _;
use sha2::Digest;

use super::Call;
use super::table::{Function, MANY, live, pure};
use crate::error::{Code, Error, Result};
use crate::value::{Value, parse};

/// The functions of this file.
pub(super) const TABLE: &[Function] = &[
    pure("CONCAT", 1, MANY, concat, "joins texts; null is nothing, an array its items"),
    pure("CONCAT_SEPARATOR", 2, MANY, concat_separator, "joins texts with one between"),
    pure(
        "CHAR_LENGTH",
        1,
        1,
        |_, a| Ok(count(a[0].to_text().chars().count())),
        "number of characters",
    ),
    pure("LOWER", 1, 1, |_, a| Ok(a[0].to_text().to_lowercase().into()), "in small letters"),
    pure("UPPER", 1, 1, |_, a| Ok(a[0].to_text().to_uppercase().into()), "in capitals"),
    pure("SUBSTRING", 2, 3, substring, "part from an offset"),
    pure("SUBSTRING_BYTES", 2, 5, substring_bytes, "part from a byte offset"),
    pure("LEFT", 2, 2, left, "the first characters"),
    pure("RIGHT", 2, 2, right, "the last characters"),
    pure("TRIM", 1, 2, trim, "without space at the ends"),
    pure("LTRIM", 1, 2, ltrim, "without space at the start"),
    pure("RTRIM", 1, 2, rtrim, "without space at the end"),
    pure("CONTAINS", 2, 3, contains, "whether, or where, a text stands in another"),
    pure("STARTS_WITH", 2, 3, starts_with, "whether a text begins with another"),
    pure("FIND_FIRST", 2, 4, find_first, "first position of a text"),
    pure("FIND_LAST", 2, 4, find_last, "last position of a text"),
    pure("SPLIT", 1, 3, split, "parts between separators"),
    pure("SUBSTITUTE", 2, 4, substitute, "with texts replaced"),
    pure("LIKE", 2, 3, like_function, "whether a pattern of % and _ matches"),
    pure("REPEAT", 2, 3, repeat, "the same text several times"),
    pure("LEVENSHTEIN_DISTANCE", 2, 2, levenshtein, "edit distance with transpositions"),
    pure("JSON_STRINGIFY", 1, 1, |_, a| Ok(a[0].to_json().into()), "as JSON text"),
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
    pure(
        "SHA256",
        1,
        1,
        |_, a| Ok(hex(&sha2::Sha256::digest(a[0].to_text().as_bytes())).into()),
        "SHA-256 in hex",
    ),
    pure(
        "SHA512",
        1,
        1,
        |_, a| Ok(hex(&sha2::Sha512::digest(a[0].to_text().as_bytes())).into()),
        "SHA-512 in hex",
    ),
    pure("FNV64", 1, 1, fnv64, "FNV-1A 64 in hex"),
    live("RANDOM_TOKEN", 1, 1, random_token, "random letters and digits"),
    live("UUID", 0, 0, |_, _| Ok(super::misc::uuid().into()), "a random UUID"),
];

/// Longest text a function may make, in bytes.
const TEXT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Longest text LEVENSHTEIN_DISTANCE takes, in characters.
const LEVENSHTEIN_CHARS_MAX: usize = 4096;
/// Longest RANDOM_TOKEN (the server's limit).
const TOKEN_CHARS_MAX: i64 = 65_536;

/// A number of things as a value.
pub(super) fn count(n: usize) -> Value {
    Value::from(n as u64)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn concat(_: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let items = match a {
        [Value::Array(items)] => items.as_slice(),
        _ => a,
    };
    Ok(items.iter().map(Value::to_text).collect::<String>().into())
}

fn concat_separator(_: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let separator = a[0].to_text();
    let items = match &a[1..] {
        [Value::Array(items)] => items.as_slice(),
        rest => rest,
    };
    let texts: Vec<_> = items.iter().filter(|v| !v.is_null()).map(Value::to_text).collect();
    Ok(texts.join(&separator).into())
}

/// A start that may count from the end, and a length, cut to what is there.
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

fn substring_bytes(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    if a.len() > 3 {
        return Err(Error::unsupported("SUBSTRING_BYTES() with left or right"));
    }
    let text = a[0].to_text();
    let (start, end) = window(text.len(), a[1].to_i64(), a.get(2).map(Value::to_i64));
    match text.get(start..end) {
        Some(part) => Ok(part.into()),
        None => call.mistyped(),
    }
}

fn left(_: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let n = usize::try_from(a[1].to_i64()).unwrap_or(0);
    Ok(a[0].to_text().chars().take(n).collect::<String>().into())
}

fn right(_: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let text = a[0].to_text();
    let n = usize::try_from(a[1].to_i64()).unwrap_or(0);
    let skip = text.chars().count().saturating_sub(n);
    Ok(text.chars().skip(skip).collect::<String>().into())
}

fn trimmed(a: &[Value], start: bool, end: bool) -> Value {
    let text = a[0].to_text();
    let chars = match a.get(1) {
        Some(Value::String(s)) => s.to_string(),
        _ => " \t\r\n".to_owned(),
    };
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
    Ok(trimmed(a, kind != 2, kind != 1))
}

fn ltrim(_: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    Ok(trimmed(a, true, false))
}

fn rtrim(_: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    Ok(trimmed(a, false, true))
}

fn position(text: &str, byte: Option<usize>) -> Value {
    byte.map_or(Value::Int(-1), |at| count(text[..at].chars().count()))
}

fn contains(_: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let (text, search) = (a[0].to_text(), a[1].to_text());
    let found = if search.is_empty() { None } else { text.find(&*search) };
    if a.get(2).is_some_and(Value::is_true) {
        return Ok(position(&text, found));
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

/// The characters from `start` to `end` (inclusive) of the arguments, and how many stand before them.
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
    let at = part.find(&*a[1].to_text()).map(|at| count(before + part[..at].chars().count()));
    Ok(at.unwrap_or(Value::Int(-1)))
}

fn find_last(_: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let Some((part, before)) = searched(a) else { return Ok(Value::Int(-1)) };
    let at = part.rfind(&*a[1].to_text()).map(|at| count(before + part[..at].chars().count()));
    Ok(at.unwrap_or(Value::Int(-1)))
}

fn split(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let text = a[0].to_text();
    let Some(separator) = a.get(1) else { return Ok(Value::array(vec![text.into_owned().into()])) };
    let limit = match a.get(2) {
        Some(v) if !v.is_null() => v.to_i64(),
        _ => i64::MAX,
    };
    if limit < 0 {
        return call.mistyped();
    }
    let separators: Vec<String> = match separator {
        Value::Null => return Ok(Value::array(vec![text.into_owned().into()])),
        Value::Array(items) => items.iter().map(|v| v.to_text().into_owned()).collect(),
        other => vec![other.to_text().into_owned()],
    };
    let mut parts = Vec::new();
    let mut rest: &str = &text;
    if separators.iter().any(String::is_empty) {
        parts = rest.chars().map(|c| Value::from(c.to_string())).collect();
    } else {
        while let Some((at, found)) = first_of(rest, separators.iter().map(String::as_str)) {
            parts.push(Value::from(&rest[..at]));
            rest = &rest[at + separators[found].len()..];
        }
        parts.push(Value::from(rest));
    }
    parts.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(Value::array(parts))
}

/// The earliest of several texts: byte position and which one.
fn first_of<'a>(text: &str, needles: impl Iterator<Item = &'a str>) -> Option<(usize, usize)> {
    needles
        .enumerate()
        .filter(|(_, needle)| !needle.is_empty())
        .filter_map(|(which, needle)| text.find(needle).map(|at| (at, which)))
        .min()
}

fn substitute(_: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let text = a[0].to_text();
    let owned = |v: &Value| v.to_text().into_owned();
    let (pairs, limit): (Vec<(String, String)>, Option<&Value>) = match (&a[1], a.get(2)) {
        (Value::Object(map), limit) => {
            (map.iter().map(|(k, v)| (k.to_string(), owned(v))).collect(), limit)
        }
        (Value::Array(from), Some(Value::Array(to))) => {
            let to = |i: usize| to.get(i).map_or_else(String::new, owned);
            (from.iter().enumerate().map(|(i, f)| (owned(f), to(i))).collect(), a.get(3))
        }
        (Value::Array(from), to) => {
            let to = to.map_or_else(String::new, owned);
            (from.iter().map(|f| (owned(f), to.clone())).collect(), a.get(3))
        }
        (from, to) => (vec![(owned(from), to.map_or_else(String::new, owned))], a.get(3)),
    };
    let mut left = limit.filter(|v| !v.is_null()).map_or(i64::MAX, Value::to_i64);
    let mut out = String::new();
    let mut rest: &str = &text;
    while left > 0 {
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

/// Whether `%` (any text), `_` (one character) and `\` (the next one as it is) match the whole text.
pub fn like(text: &str, pattern: &str, ignore_case: bool) -> bool {
    enum Part {
        Any,
        One,
        Is(char),
    }
    let fold = |s: &str| if ignore_case { s.to_lowercase() } else { s.to_owned() };
    let text: Vec<char> = fold(text).chars().collect();
    let mut parts = Vec::new();
    let pattern = fold(pattern);
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        parts.push(match c {
            '%' => Part::Any,
            '_' => Part::One,
            '\\' => match chars.next_if(|n| matches!(n, '%' | '_' | '\\')) {
                Some(escaped) => Part::Is(escaped),
                None => Part::Is('\\'),
            },
            other => Part::Is(other),
        });
    }
    let (mut t, mut p) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        match parts.get(p) {
            Some(Part::Any) => {
                retry = Some((p + 1, t));
                p += 1;
            }
            Some(Part::One) => (t, p) = (t + 1, p + 1),
            Some(Part::Is(c)) if *c == text[t] => (t, p) = (t + 1, p + 1),
            _ => match retry {
                Some((after, from)) => {
                    retry = Some((after, from + 1));
                    (t, p) = (from + 1, after);
                }
                None => return false,
            },
        }
    }
    parts[p..].iter().all(|part| matches!(part, Part::Any))
}

fn like_function(_: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let ignore_case = a.get(2).is_some_and(Value::is_true);
    Ok(Value::Bool(like(&a[0].to_text(), &a[1].to_text(), ignore_case)))
}

fn repeat(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let Ok(times) = usize::try_from(a[1].to_i64()) else { return call.mistyped() };
    let (text, separator) =
        (a[0].to_text(), a.get(2).map_or_else(Default::default, Value::to_text));
    if (text.len() + separator.len()).saturating_mul(times) > TEXT_BYTES_MAX
        || times > TEXT_BYTES_MAX
    {
        return Err(Error::of(Code::ResourceLimit));
    }
    Ok(vec![&*text; times].join(&separator).into())
}

fn levenshtein(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let left: Vec<char> = a[0].to_text().chars().collect();
    let right: Vec<char> = a[1].to_text().chars().collect();
    if left.len().max(right.len()) > LEVENSHTEIN_CHARS_MAX {
        return call.mistyped();
    }
    let width = right.len() + 1;
    let mut before: Vec<usize> = vec![0; width];
    let mut above: Vec<usize> = (0..width).collect();
    for i in 1..=left.len() {
        let mut row = vec![i; width];
        for j in 1..width {
            let differs = usize::from(left[i - 1] != right[j - 1]);
            row[j] = (above[j] + 1).min(row[j - 1] + 1).min(above[j - 1] + differs);
            let swapped =
                i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1];
            if swapped {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut above, row);
    }
    Ok(count(above[right.len()]))
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
        Some(c) => Ok(c.to_string().into()),
        None => call.mistyped(),
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

fn fnv64(_: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in a[0].to_text().bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    Ok(format!("{hash:X}").into())
}

fn random_token(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    let length = a[0].to_i64();
    if !(0..=TOKEN_CHARS_MAX).contains(&length) {
        return call.mistyped();
    }
    let token = (0..length)
        .map(|_| char::from(LETTERS[(super::misc::random() % LETTERS.len() as u64) as usize]));
    Ok(token.collect::<String>().into())
}
