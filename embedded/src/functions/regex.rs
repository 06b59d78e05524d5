//! AQL functions with regular expressions, whose ICU syntax is translated to the syntax of
//! `fancy_regex`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use fancy_regex::{Captures, Regex};

use super::table::{Function, pure};
use super::{Call, Warnings};
use crate::error::{Code, Error, Result};
use crate::value::Value;

/// The AQL functions that this file implements.
pub(super) const TABLE: &[Function] = &[
    pure("REGEX_TEST", 2, 3, test, "whether an expression matches a part of a text"),
    pure("REGEX_MATCHES", 2, 3, matches, "the first match and its groups"),
    pure("REGEX_SPLIT", 2, 4, split_by_regex, "parts between matches"),
    pure("REGEX_REPLACE", 3, 4, replace, "with all matches replaced"),
    pure("SPLIT", 1, 3, split, "parts between separators"),
];

/// Maximum length of a regular expression in bytes.
const PATTERN_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of compiled regular expressions in the cache, which all queries share.
const READY_MAX: usize = 256;
/// Maximum number of backtracking steps of one match. If a match needs more steps, the expression
/// is treated as invalid; ArangoDB has similar limits.
const BACKTRACKS_MAX: usize = 1_000_000;
/// Maximum number of parts into which a function splits a text.
const PARTS_MAX: usize = 250_000;
/// Maximum length of the result of a replacement, in bytes.
const TEXT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Maximum number of parts that one step of ICU's split returns; if it is reached, the last part is
/// the rest of the text.
const SPLIT_STEP: usize = 16;

/// The characters that ICU treats as line ends.
const LINE_ENDS: &str = r"\n\x0b\x0c\r\x{85}\x{2028}\x{2029}";

fn has_line_end(text: &str) -> bool {
    text.contains(['\n', '\u{b}', '\u{c}', '\r', '\u{85}', '\u{2028}', '\u{2029}'])
}

/// Returns the compiled expression to match a text; `None` for an invalid expression.
fn compiled(pattern: &str, ignore_case: bool, text: &str) -> Option<Arc<Regex>> {
    type Ready = HashMap<(String, bool, bool), Option<Arc<Regex>>>;
    static READY: OnceLock<Mutex<Ready>> = OnceLock::new();
    if pattern.len() > PATTERN_BYTES_MAX {
        return None;
    }
    let lines = has_line_end(text);
    let mut ready =
        READY.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    let key = (pattern.to_owned(), ignore_case, lines);
    if let Some(found) = ready.get(&key) {
        return found.clone();
    }
    if ready.len() >= READY_MAX {
        ready.clear();
    }
    let mut builder = fancy_regex::RegexBuilder::new(&translated(pattern, lines));
    builder.case_insensitive(ignore_case).backtrack_limit(BACKTRACKS_MAX);
    let made = builder.build().ok().map(Arc::new);
    ready.insert(key, made.clone());
    made
}

/// Translates ICU's escapes to the syntax of `fancy_regex`. `lines` means that the text contains
/// line ends, which affect the translation of `.` and `$`.
fn translated(pattern: &str, lines: bool) -> String {
    let flagged = ["(?s", "(?m", "(?is", "(?im"].iter().any(|flags| pattern.contains(flags));
    let lines = lines && !flagged;
    let mut out = String::with_capacity(pattern.len());
    let mut class = 0;
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '\\' => rest = escape(rest, class > 0, &mut out),
            '.' if class == 0 && lines => out.push_str(&format!("[^{LINE_ENDS}]")),
            '$' if class == 0 && lines => {
                out.push_str(&format!(r"(?=(?:\r\n|[{LINE_ENDS}])?\z)"));
            }
            _ => {
                class += i32::from(c == '[');
                class -= i32::from(c == ']' && class > 0);
                out.push(c);
            }
        }
    }
    out
}

/// Translates the escape after a backslash and returns the rest of the expression.
fn escape<'a>(text: &'a str, in_class: bool, out: &mut String) -> &'a str {
    let Some(c) = text.chars().next() else {
        out.push('\\');
        return text;
    };
    let rest = &text[c.len_utf8()..];
    let set = |out: &mut String, inside: &str| {
        let text = if in_class { inside.to_owned() } else { format!("[{inside}]") };
        out.push_str(&text);
    };
    let mut code = |from: &'a str, digits: usize, radix: u32| {
        let text = from.get(..digits)?;
        let number = u32::from_str_radix(text, radix).ok()?;
        out.push_str(&format!("\\x{{{number:x}}}"));
        Some(&from[digits..])
    };
    let number = match c {
        'u' => code(rest, 4, 16),
        'U' => code(rest, 8, 16),
        '0' => {
            let digits = rest.bytes().take(3).take_while(|b| matches!(b, b'0'..=b'7')).count();
            code(rest, digits, 8)
        }
        _ => None,
    };
    if let Some(rest) = number {
        return rest;
    }
    match c {
        'Q' => {
            let (literal, behind) = rest.split_once("\\E").unwrap_or((rest, ""));
            out.push_str(&fancy_regex::escape(literal));
            return behind;
        }
        'h' => set(out, r"\p{Zs}\t"),
        'H' => out.push_str(r"[^\p{Zs}\t]"),
        'v' => set(out, LINE_ENDS),
        'V' => out.push_str(&format!("[^{LINE_ENDS}]")),
        'R' => out.push_str(&format!(r"(?:\r\n|[{LINE_ENDS}])")),
        'X' => out.push_str(r"(?:\r\n|\P{M}\p{M}*|\p{M}+)"),
        'e' => out.push_str(r"\x1b"),
        '<' | '>' | '"' | '\'' | ',' | ':' | ';' | '=' | '@' | '_' | '`' | '!' => {
            out.push_str(&fancy_regex::escape(c.encode_utf8(&mut [0; 4])));
        }
        'c' if rest.starts_with(|c: char| c.is_ascii_alphabetic()) => {
            out.push_str(&format!("\\x{:02x}", rest.as_bytes()[0] & 0x1f));
            return &rest[1..];
        }
        other => {
            out.push('\\');
            out.push(other);
        }
    }
    rest
}

/// Finds successive matches as ICU does: an empty match may directly follow a non-empty match.
struct Finder<'r, 't> {
    regex: &'r Regex,
    text: &'t str,
    next: Option<usize>,
}

impl<'r, 't> Finder<'r, 't> {
    fn new(regex: &'r Regex, text: &'t str) -> Self {
        Self { regex, text, next: Some(0) }
    }

    /// Returns the next match; fails if the search takes too many steps.
    fn find(&mut self) -> std::result::Result<Option<Captures<'t, str>>, ()> {
        let Some(from) = self.next else { return Ok(None) };
        let found = self.regex.captures_from_pos(self.text, from).map_err(drop)?;
        self.next = found.as_ref().and_then(|c| c.get(0)).and_then(|whole| {
            let end = whole.end();
            if whole.start() < end {
                return Some(end);
            }
            self.text[end..].chars().next().map(|c| end + c.len_utf8())
        });
        Ok(found)
    }
}

/// Reads the arguments of a matching function: the text, the expression, and whether to ignore
/// case.
fn ready(a: &[Value], case_at: usize) -> (String, Option<Arc<Regex>>) {
    let text = a[0].to_text().into_owned();
    let ignore_case = a.get(case_at).is_some_and(Value::is_true);
    let regex = compiled(&a[1].to_text(), ignore_case, &text);
    (text, regex)
}

fn invalid(call: &mut Call<'_>) -> Result<Value> {
    call.caution(Code::QueryInvalidRegex)
}

fn test(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let (text, regex) = ready(a, 2);
    match regex.map(|regex| regex.is_match(text.as_str())) {
        Some(Ok(found)) => Ok(Value::Bool(found)),
        _ => invalid(call),
    }
}

/// Evaluates `text =~ pattern`; null with a warning for an invalid pattern.
pub fn matches_regex(text: &Value, pattern: &Value, warnings: &mut Warnings) -> Result<Value> {
    test(&mut Call { name: "REGEX_TEST", warnings }, &[text.clone(), pattern.clone()])
}

fn matches(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let (text, regex) = ready(a, 2);
    match regex.map(|regex| Finder::new(&regex, &text).find()) {
        Some(Ok(found)) => Ok(found.map_or(Value::Null, |found| {
            let group = |at| found.get(at).map_or("", |m| m.as_str()).into();
            Value::array((0..found.len()).map(group).collect())
        })),
        _ => invalid(call),
    }
}

fn replace(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let (text, regex) = ready(a, 3);
    let Some(regex) = regex else { return invalid(call) };
    let template = a[2].to_text();
    let mut out = String::new();
    let mut behind = 0;
    let mut finder = Finder::new(&regex, &text);
    loop {
        let Ok(found) = finder.find() else { return invalid(call) };
        let Some((found, whole)) = found.and_then(|f| f.get(0).map(|m| m.range()).map(|r| (f, r)))
        else {
            break;
        };
        out.push_str(&text[behind..whole.start]);
        if expand(&template, &found, &mut out).is_none() {
            return invalid(call);
        }
        if out.len() > TEXT_BYTES_MAX {
            return Err(Error::of(Code::ResourceLimit));
        }
        behind = whole.end;
    }
    out.push_str(&text[behind..]);
    Ok(out.into())
}

/// Appends a replacement text in which `$1`, `${name}` and escapes are resolved; `None` if a group
/// does not exist.
fn expand(template: &str, found: &Captures<'_, str>, out: &mut String) -> Option<()> {
    let mut rest = template;
    while let Some(at) = rest.find(['$', '\\']) {
        out.push_str(&rest[..at]);
        let sign = rest.as_bytes()[at];
        rest = &rest[at + 1..];
        if sign == b'\\' {
            let Some(c) = rest.chars().next() else { break };
            out.push(c);
            rest = &rest[c.len_utf8()..];
        } else if let Some(name) = rest.strip_prefix('{') {
            let (name, behind) = name.split_once('}')?;
            let group = match name.parse() {
                Ok(number) => found.get(number),
                Err(_) => found.name(name),
            };
            out.push_str(group?.as_str());
            rest = behind;
        } else {
            let mut group = rest.chars().next()?.to_digit(10)? as usize;
            rest = &rest[1..];
            while let Some(digit) = rest.chars().next().and_then(|c| c.to_digit(10)) {
                let longer = group * 10 + digit as usize;
                if longer >= found.len() {
                    break;
                }
                group = longer;
                rest = &rest[1..];
            }
            if group >= found.len() {
                return None;
            }
            out.push_str(found.get(group).map_or("", |m| m.as_str()));
        }
    }
    out.push_str(rest);
    Some(())
}

/// Runs one step of ICU's split. Returns at most [`SPLIT_STEP`] parts, including the capture groups
/// of separators; the last part is the rest of the text.
fn split_step<'t>(regex: &Regex, text: &'t str) -> std::result::Result<Vec<&'t str>, ()> {
    let mut parts = Vec::new();
    if text.is_empty() {
        return Ok(parts);
    }
    let mut from = 0;
    let mut finder = Finder::new(regex, text);
    loop {
        if parts.len() >= SPLIT_STEP - 1 {
            parts.push(&text[from..]);
            return Ok(parts);
        }
        let Some(found) = finder.find()? else {
            parts.push(&text[from..]);
            return Ok(parts);
        };
        let whole = found.get(0).map_or(from..from, |m| m.range());
        parts.push(&text[from..whole.start]);
        from = whole.end;
        for group in 1..found.len() {
            if parts.len() >= SPLIT_STEP - 1 {
                break;
            }
            parts.push(found.get(group).map_or("", |m| m.as_str()));
        }
        if from == text.len() {
            if parts.len() < SPLIT_STEP {
                parts.push("");
            }
            return Ok(parts);
        }
    }
}

/// Splits a text and returns the first `limit` parts. `each` is set for an empty expression, which
/// makes each character a part.
fn parts(regex: &Regex, text: &str, each: bool, limit: usize) -> Option<Vec<Value>> {
    let mut out = Vec::new();
    if text.is_empty() && !each {
        return Some(vec!["".into()]);
    }
    let mut rest = text;
    loop {
        let step = split_step(regex, rest).ok()?;
        let whole = step.len() == SPLIT_STEP;
        let take = step.len().saturating_sub(usize::from(whole || each));
        out.extend(step[..take].iter().skip(usize::from(each)).map(|part| Value::from(*part)));
        match step.last() {
            Some(last) if whole && out.len() < limit => rest = last,
            _ => break,
        }
    }
    out.truncate(limit);
    Some(out)
}

/// Reads the argument that limits the number of parts; `None` after a warning for a wrong type or a
/// negative number.
fn limit(call: &mut Call<'_>, value: Option<&Value>) -> Result<Option<usize>> {
    match value {
        None => Ok(Some(usize::MAX)),
        Some(v) if v.is_number() => Ok(usize::try_from(v.to_i64()).ok()),
        Some(_) => {
            call.mistyped()?;
            Ok(None)
        }
    }
}

fn split_by_regex(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let Some(limit) = limit(call, a.get(3))? else { return Ok(Value::Null) };
    if limit == 0 {
        return Ok(Value::array(Vec::new()));
    }
    let (text, regex) = ready(a, 2);
    let each = a[1].to_text().is_empty();
    match regex.and_then(|regex| parts(&regex, &text, each, limit.min(PARTS_MAX + 1))) {
        Some(parts) if parts.len() > PARTS_MAX => Err(Error::of(Code::ResourceLimit)),
        Some(parts) => Ok(Value::array(parts)),
        None => invalid(call),
    }
}

fn split(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let Some(limit) = limit(call, a.get(2))? else { return Ok(Value::Null) };
    if limit == 0 {
        return Ok(Value::array(Vec::new()));
    }
    let Some(separator) = a.get(1) else { return Ok(Value::array(vec![a[0].clone()])) };
    let (pattern, each) = match separator {
        Value::Object(_) => return call.mistyped(),
        Value::String(one) => (fancy_regex::escape(one).into_owned(), one.is_empty()),
        Value::Array(items) => {
            let texts: Option<Vec<&str>> =
                items.iter().map(|v| v.as_str().filter(|s| !s.is_empty())).collect();
            match texts {
                Some(texts) => {
                    let escaped: Vec<_> = texts.into_iter().map(fancy_regex::escape).collect();
                    (escaped.join("|"), false)
                }
                None => (String::new(), true),
            }
        }
        _ => (String::new(), false),
    };
    let text = a[0].to_text();
    let regex = Regex::new(&pattern).ok();
    match regex.and_then(|regex| parts(&regex, &text, each, limit.min(PARTS_MAX + 1))) {
        Some(parts) if parts.len() > PARTS_MAX => Err(Error::of(Code::ResourceLimit)),
        Some(parts) => Ok(Value::array(parts)),
        None => invalid(call),
    }
}
