//! Blocks as files: every name of a block is one path, every path is one name, and both ways lead back to where one came from.
//!
//! A name has the characters A-Z a-z 0-9 _ . -; a path has any, in segments parted by `/`. So `/` is written `..`, and each byte of
//! what a name cannot hold as `-x` and two hex digits. Names that this never writes have a path of their own, after `@`.

use crate::limits::NAME_BYTES_MAX;

/// Where all blocks lie.
pub const ROOT: &str = "/memories";

/// How `/` is written in a name.
const SLASH: &str = "..";
/// Begins a byte in a name.
const BYTE: &str = "-x";
/// Begins the path of a name that no path would be written as.
const LITERAL: char = '@';

/// What is wrong with a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathFault {
    /// It does not begin with the root.
    Outside,
    /// It tries to climb, plainly or in disguise, or has a character that no path needs.
    Climbs,
    /// As a name it is longer than one may be: so many bytes.
    Long(usize),
}

/// A place among the blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Where all of them lie.
    Root,
    /// A block, or a directory of blocks, by its name.
    Named(String),
}

/// The place that a path means. A doubled or closing slash means nothing.
pub fn place_of(path: &str) -> Result<Place, PathFault> {
    let rest = path.strip_prefix(ROOT).ok_or(PathFault::Outside)?;
    if !rest.is_empty() && !rest.starts_with('/') {
        return Err(PathFault::Outside);
    }
    let segments: Vec<&str> = rest.split('/').filter(|segment| !segment.is_empty()).collect();
    if segments.iter().any(|segment| climbs(segment)) {
        return Err(PathFault::Climbs);
    }
    if segments.is_empty() {
        return Ok(Place::Root);
    }
    let inside = segments.join("/");
    // Only the sign of a literal name is left out when a path is written.
    if inside.len() > NAME_BYTES_MAX + LITERAL.len_utf8() {
        return Err(PathFault::Long(inside.len()));
    }
    let name = name_of(&inside);
    if name.len() > NAME_BYTES_MAX {
        return Err(PathFault::Long(name.len()));
    }
    Ok(Place::Named(name))
}

/// The path of a block.
pub fn path_of(name: &str) -> String {
    format!("{ROOT}/{}", inside(name))
}

/// Whether a block lies in a directory, however deep.
pub fn lies_in(name: &str, directory: &Place) -> bool {
    match directory {
        Place::Root => true,
        Place::Named(directory) => {
            inside(name).strip_prefix(&*inside(directory)).is_some_and(|rest| rest.starts_with('/'))
        }
    }
}

/// The name of a block when its directory gets another one.
pub fn moved(name: &str, from: &str, to: &str) -> String {
    let inner = inside(name);
    let rest = inner.strip_prefix(&*inside(from)).unwrap_or_default();
    name_of(&format!("{}{rest}", inside(to)))
}

/// Segments that would lead elsewhere, in any of the forms that something behind might take for one.
fn climbs(segment: &str) -> bool {
    let lower = segment.to_ascii_lowercase();
    let disguised = ["%2e", "%2f", "%5c", "%00", "\\"].iter().any(|form| lower.contains(form));
    segment == "." || segment == ".." || disguised || segment.chars().any(char::is_control)
}

/// A path below the root as a name.
fn name_of(path: &str) -> String {
    let literal = path.strip_prefix(LITERAL).filter(|name| plain(name) && own(name).is_none());
    literal.map_or_else(|| written(path), str::to_owned)
}

/// A name as a path below the root.
fn inside(name: &str) -> String {
    own(name).unwrap_or_else(|| format!("{LITERAL}{name}"))
}

/// The path that a name was written from; none if it was written from none. Each look is at a shorter text.
fn own(name: &str) -> Option<String> {
    read(name).filter(|path| written(path) == name && name_of(path) == name)
}

fn plain(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b))
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
            // One dot beside another, or beside a slash, would be read as a slash.
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

/// What a name says if it was written from a path; none if it could not have been.
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

/// The byte that stands here as `-x` and two lower hex digits.
fn hex_at(bytes: &[u8]) -> Option<u8> {
    let digits = bytes.strip_prefix(BYTE.as_bytes())?.get(..2)?;
    let lower = digits.iter().all(|d| matches!(d, b'0'..=b'9' | b'a'..=b'f'));
    let text = std::str::from_utf8(digits).ok().filter(|_| lower)?;
    u8::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(path: &str) -> String {
        match place_of(path) {
            Ok(Place::Named(name)) => name,
            other => panic!("{path}: {other:?}"),
        }
    }

    #[test]
    fn a_path_is_written_so_that_it_can_be_read() {
        for (path, expected) in [
            ("/memories/human", "human"),
            ("/memories/notes.txt", "notes.txt"),
            ("/memories/projects/sail/plan.md", "projects..sail..plan.md"),
            ("/memories//projects///plan.md/", "projects..plan.md"),
            ("/memories/to do.md", "to-x20do.md"),
            ("/memories/Zürich", "Z-xc3-xbcrich"),
            ("/memories/a..b", "a-x2e.b"),
            ("/memories/a./b", "a-x2e..b"),
            ("/memories/a/.b", "a..-x2eb"),
            ("/memories/.hidden", ".hidden"),
            ("/memories/x-x20y", "x-x2dx20y"),
            ("/memories/x-xyz", "x-xyz"),
            ("/memories/@home", "-x40home"),
            ("/memories/@my-x41", "my-x41"),
            ("/memories/@-x40my-x41", "-x40my-x41"),
            ("/memories/@a..", "a.."),
        ] {
            assert_eq!(name(path), expected, "{path}");
            assert_eq!(name(&path_of(expected)), expected, "{path}");
        }
    }

    #[test]
    fn every_name_has_a_path_that_leads_back() {
        let alphabet: Vec<char> = "x2e.-@/é".chars().collect();
        let mut seen = std::collections::HashMap::new();
        // All texts of up to five of these characters: as paths, and those that are names as names.
        let mut texts = vec![String::new()];
        let mut longest = texts.clone();
        for _ in 0..5 {
            longest = longest
                .iter()
                .flat_map(|text| alphabet.iter().map(move |c| format!("{text}{c}")))
                .collect();
            texts.extend(longest.iter().cloned());
        }
        for text in texts {
            if plain(&text) && text != "." && text != ".." {
                let path = path_of(&text);
                assert_eq!(name(&path), text, "the name {text} by its path {path}");
            }
            let Ok(Place::Named(name)) = place_of(&format!("/memories/{text}")) else { continue };
            let path = path_of(&name);
            assert!(plain(&name), "{text} became {name}");
            assert_eq!(place_of(&path), Ok(Place::Named(name.clone())), "{text}");
            if let Some(other) = seen.insert(name.clone(), path.clone()) {
                assert_eq!(other, path, "two paths are {name}");
            }
        }
    }

    #[test]
    fn what_would_lead_elsewhere_is_refused() {
        for path in [
            "/memories/..",
            "/memories/../etc/passwd",
            "/memories/a/../../b",
            "/memories/./a",
            "/memories/%2e%2e%2fetc",
            "/memories/%2E%2E/etc",
            "/memories/..\\etc",
            "/memories/a\\b",
            "/memories/a%5Cb",
            "/memories/a\0b",
            "/memories/a\nb",
        ] {
            assert_eq!(place_of(path), Err(PathFault::Climbs), "{path}");
        }
        for path in ["", "/", "/etc/passwd", "memories/a", "/memoriesx/a", "/Memories/a", "~"] {
            assert_eq!(place_of(path), Err(PathFault::Outside), "{path}");
        }
        let long = format!("/memories/{}", "ü".repeat(40));
        assert_eq!(place_of(&long), Err(PathFault::Long(320)));
        assert_eq!(
            place_of(&format!("/memories/{}", "u".repeat(1 << 20))),
            Err(PathFault::Long(1 << 20))
        );
        assert_eq!(place_of("/memories"), Ok(Place::Root));
        assert_eq!(place_of("/memories/"), Ok(Place::Root));
    }

    #[test]
    fn a_directory_is_what_lies_in_it() {
        let directory = Place::Named("a".into());
        for (name, inside) in
            [("a..b", true), ("a..b..c", true), ("a", false), ("ab..c", false), ("a....b", false)]
        {
            assert_eq!(lies_in(name, &directory), inside, "{name}");
            assert!(lies_in(name, &Place::Root));
        }
        assert_eq!(moved("a..b..c.md", "a..b", "z"), "z..c.md");
        assert_eq!(moved("a..b", "a", "x..y"), "x..y..b");
    }
}
