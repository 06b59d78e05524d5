//! Reads command arguments from a text, a file (`@FILE`) or stdin (`-`), with a size limit.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::exit::Failure;
use vctx_core::dialect::{Dialect, Format, Profile};

/// Maximum size of an argument read from a file or from stdin, in bytes.
const ARGUMENT_BYTES_MAX: u64 = 64 << 20;

/// Resolves an argument: the text itself, the content of `@FILE`, or stdin for `-`.
pub fn text(argument: &str) -> Result<String, Failure> {
    match (argument, argument.strip_prefix('@')) {
        ("-", _) => whole("stdin", io::stdin().lock(), ARGUMENT_BYTES_MAX),
        (_, Some(path)) => file(Path::new(path), ARGUMENT_BYTES_MAX),
        (text, None) => Ok(text.to_string()),
    }
}

/// Makes a path absolute. An empty path stays empty; the code that opens the path refuses it.
pub fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

/// Parses the name of a dialect.
pub fn dialect(name: &str) -> Result<Dialect, String> {
    Dialect::by_name(name).map_err(|error| error.message)
}

/// Parses the name of a schema format.
pub fn format(name: &str) -> Result<Format, String> {
    Format::by_name(name).map_err(|error| error.message)
}

/// Parses the name of a profile of schemas.
pub fn profile(name: &str) -> Result<Profile, String> {
    Profile::by_name(name).map_err(|error| error.message)
}

/// Reads a JSON argument from a text, a file or stdin.
pub fn json(option: &str, argument: &str) -> Result<Value, Failure> {
    let text = text(argument)?;
    serde_json::from_str(&text).map_err(|error| {
        Failure::usage(format!("{option} is not JSON: {error}"))
            .next(format!("quote the JSON text for the shell: {option} '{{\"name\": \"value\"}}'"))
    })
}

/// Reads a file of UTF-8 text, up to `bytes_max`.
pub fn file(path: &Path, bytes_max: u64) -> Result<String, Failure> {
    let opened = File::open(path).map_err(|error| Failure::reading(path.display(), &error))?;
    whole(path.display(), opened, bytes_max)
}

fn whole(what: impl std::fmt::Display, from: impl Read, bytes_max: u64) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    from.take(bytes_max + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::reading(&what, &error))?;
    if bytes.len() as u64 > bytes_max {
        return Err(Failure::data(format!("{what} is longer than {bytes_max} bytes")));
    }
    String::from_utf8(bytes).map_err(|error| {
        let line = 1 + error.as_bytes()[..error.utf8_error().valid_up_to()]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count();
        Failure::data(format!("{what} line {line} is not UTF-8"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;

    #[test]
    fn text_comes_as_it_is_or_from_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, "hello").unwrap();
        assert_eq!(text("plain").unwrap(), "plain");
        assert_eq!(text(&format!("@{}", path.display())).unwrap(), "hello");
        assert_eq!(text("@/no/such/file").unwrap_err().exit, Exit::NoInput);
    }

    #[test]
    fn what_is_too_long_or_not_utf8_is_refused_with_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, b"ab\ncd\n\xff").unwrap();
        assert!(file(&path, 100).unwrap_err().message.ends_with("line 3 is not UTF-8"));
        assert!(file(&path, 6).unwrap_err().message.ends_with("longer than 6 bytes"));
    }

    #[test]
    fn paths_become_absolute() {
        let here = std::env::current_dir().unwrap();
        assert_eq!(absolute("a/b".into()), here.join("a/b"));
        assert_eq!(absolute("/a".into()), Path::new("/a"));
        assert_eq!(absolute("".into()), Path::new(""));
    }

    #[test]
    fn broken_json_is_a_usage_error() {
        assert_eq!(json("--args", "{a}").unwrap_err().exit, Exit::Usage);
        assert_eq!(json("--args", "{\"a\":1}").unwrap()["a"], 1);
    }
}
