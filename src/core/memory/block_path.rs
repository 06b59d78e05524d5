//! Maps block names to file paths and back, one to one.
//!
//! A block's name consists of the characters A-Z a-z 0-9 _ . -, but its path may contain any
//! characters, in segments separated by `/`. In a block's name, `/` is written as `..`, and any
//! other forbidden byte as `-x` and two hex digits. A name that is not the encoding of any path has
//! the path `@` followed by the name.

use crate::limits::NAME_BYTES_MAX;

/// The directory that contains all blocks.
pub const ROOT: &str = "/memories";

/// The encoding of `/` in a block's name.
const SLASH: &str = "..";
/// Prefix of an encoded byte in a block's name.
const BYTE: &str = "-x";
/// First character of the path of a block whose name is not the encoding of any path; the block's
/// name follows unchanged.
const LITERAL: char = '@';

/// The reason why a block's path is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathFault {
    /// The path does not begin with the root directory.
    Outside,
    /// The path contains a segment `.` or `..`, a percent-encoded dot, slash, backslash or NUL, or
    /// a forbidden character.
    Climbs,
    /// The path or its encoded name is too long; the value is the length in bytes.
    Long(usize),
}

/// What a path names: a block, or a directory of blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemoryPath {
    /// The root directory.
    Root,
    /// A block or a directory below the root. The value is its path in the encoding of block names.
    Named(String),
}

/// Parses a path. A doubled or trailing slash in a path is ignored.
pub fn place_of(path: &str) -> Result<MemoryPath, PathFault> {
    let rest = path.strip_prefix(ROOT).ok_or(PathFault::Outside)?;
    if !rest.is_empty() && !rest.starts_with('/') {
        return Err(PathFault::Outside);
    }
    let segments: Vec<&str> = rest.split('/').filter(|segment| !segment.is_empty()).collect();
    if segments.iter().any(|segment| climbs(segment)) {
        return Err(PathFault::Climbs);
    }
    if segments.is_empty() {
        return Ok(MemoryPath::Root);
    }
    let inside = segments.join("/");
    // A path that begins with the prefix `@` is longer than the block's name by the length of the
    // prefix.
    if inside.len() > NAME_BYTES_MAX + LITERAL.len_utf8() {
        return Err(PathFault::Long(inside.len()));
    }
    let name = name_of(&inside);
    if name.len() > NAME_BYTES_MAX {
        return Err(PathFault::Long(name.len()));
    }
    Ok(MemoryPath::Named(name))
}

/// Returns the path of a block.
pub fn path_of(name: &str) -> String {
    format!("{ROOT}/{}", inside(name))
}

/// Whether a block is in a directory, at any depth.
pub fn lies_in(name: &str, directory: &MemoryPath) -> bool {
    match directory {
        MemoryPath::Root => true,
        MemoryPath::Named(directory) => {
            inside(name).strip_prefix(&*inside(directory)).is_some_and(|rest| rest.starts_with('/'))
        }
    }
}

/// Returns the name of a block after the block's directory was renamed.
pub fn moved(name: &str, from: &str, to: &str) -> String {
    let inner = inside(name);
    let rest = inner.strip_prefix(&*inside(from)).unwrap_or_default();
    name_of(&format!("{}{rest}", inside(to)))
}

/// Whether a segment of a path could lead to a parent directory, possibly after another program
/// decodes it. The result is also true for a segment with a control character.
fn climbs(segment: &str) -> bool {
    let lower = segment.to_ascii_lowercase();
    let disguised = ["%2e", "%2f", "%5c", "%00", "\\"].iter().any(|form| lower.contains(form));
    segment == "." || segment == ".." || disguised || segment.chars().any(char::is_control)
}

/// Encodes a path below the root as a block's name.
fn name_of(path: &str) -> String {
    let literal = path.strip_prefix(LITERAL).filter(|name| plain(name) && own(name).is_none());
    literal.map_or_else(|| written(path), str::to_owned)
}

/// Decodes a block's name into a path below the root.
fn inside(name: &str) -> String {
    own(name).unwrap_or_else(|| format!("{LITERAL}{name}"))
}

/// Returns the path whose encoding is this block's name, if there is such a path. The recursion
/// through `name_of` ends, because each call gets a shorter text.
fn own(name: &str) -> Option<String> {
    read(name).filter(|path| written(path) == name && name_of(path) == name)
}

/// Whether a text is a block's name. `.` and `..` are none.
fn plain(name: &str) -> bool {
    !matches!(name, "" | "." | "..")
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b))
}

fn written(path: &str) -> String {
    let bytes = path.as_bytes();
    let mut name = String::with_capacity(path.len());
    for (at, &byte) in bytes.iter().enumerate() {
        let next = bytes.get(at + 1);
        let literal = match byte {
            b'/' => {
                name.push_str(SLASH);
                continue;
            }
            // A dot next to another dot or to a slash must be encoded, because two dots mean a
            // slash.
            b'.' => !name.ends_with('.') && !matches!(next, Some(b'.' | b'/')),
            b'-' => hex_at(&bytes[at..]).is_none(),
            b'_' => true,
            other => other.is_ascii_alphanumeric(),
        };
        match literal {
            true => name.push(char::from(byte)),
            false => name.push_str(&format!("{BYTE}{byte:02x}")),
        }
    }
    name
}

/// Decodes a block's name; `None` if no path encodes to the name.
fn read(name: &str) -> Option<String> {
    let bytes = name.as_bytes();
    let (mut path, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while at < bytes.len() {
        if bytes[at..].starts_with(SLASH.as_bytes()) {
            path.push(b'/');
            at += SLASH.len();
        } else if let Some(byte) = hex_at(&bytes[at..]) {
            path.push(byte);
            at += BYTE.len() + 2;
        } else {
            path.push(bytes[at]);
            at += 1;
        }
    }
    let path = String::from_utf8(path).ok()?;
    let sound = path.split('/').all(|segment| !segment.is_empty() && !climbs(segment));
    sound.then_some(path)
}

/// Decodes `-x` and two lower-case hex digits at the beginning of a text.
fn hex_at(bytes: &[u8]) -> Option<u8> {
    let digits = bytes.strip_prefix(BYTE.as_bytes())?.get(..2)?;
    let lower = digits.iter().all(|d| matches!(d, b'0'..=b'9' | b'a'..=b'f'));
    let text = std::str::from_utf8(digits).ok().filter(|_| lower)?;
    u8::from_str_radix(text, 16).ok()
}
