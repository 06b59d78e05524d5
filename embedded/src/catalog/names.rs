//! Checks names as ArangoDB does.

use crate::error::{Code, Error, Result};
use crate::limits::NAME_BYTES_MAX;

/// Maximum length of a database name in bytes (ArangoDB 3.12).
const DATABASE_NAME_BYTES_MAX: usize = 128;

/// Refuses illegal names of databases (1229).
pub(super) fn check_database(name: &str) -> Result<()> {
    let system = name == "_system";
    if system || (name.len() <= DATABASE_NAME_BYTES_MAX && is_plain(name, false)) {
        return Ok(());
    }
    Err(Error::of(Code::DatabaseNameInvalid))
}

/// Refuses illegal names of collections, views and indexes (1208). A leading `_` is reserved for
/// system collections.
pub(super) fn check_data_source(name: &str, is_system: bool) -> Result<()> {
    if name.len() <= NAME_BYTES_MAX && is_plain(name, is_system) {
        return Ok(());
    }
    Err(Error::new(Code::IllegalName, format!("illegal name: {name:?}")))
}

fn is_plain(name: &str, underscore: bool) -> bool {
    let Some(first) = name.chars().next() else { return false };
    let starts =
        !first.is_ascii_digit() && !matches!(first, '.' | ' ') && (underscore || first != '_');
    starts
        && !name.ends_with(' ')
        && !name.chars().any(|c| c.is_control() || matches!(c, '/' | ':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_as_arangodb_does() {
        for name in ["a", "Größe", "a-b_c", "a.b"] {
            assert!(
                check_data_source(name, false).is_ok() && check_database(name).is_ok(),
                "{name}"
            );
        }
        for name in ["", "_a", "1a", ".a", " a", "a/b", "a:b", "a\n", &"a".repeat(257)] {
            assert!(check_data_source(name, false).is_err(), "{name}");
            assert!(check_database(name).is_err(), "{name}");
        }
        assert!(check_data_source("_graphs", true).is_ok() && check_database("_system").is_ok());
    }
}
