//! Parses a request's target, and refuses every target that two parsers could read differently.

use http::Uri;

use super::refusal::{Reason, Refusal};

/// Maximum length of a request target, in bytes; the targets that a vctx server sends are much
/// shorter.
const PROXY_TARGET_BYTES_MAX: usize = 2_048;

/// A parsed target: path segments and parameters. It must not contain percent encoding, so that all
/// parsers read it in the same way.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Target<'a> {
    /// The database that the path names; `None` without `/_db/NAME`, which means `_system`.
    pub(super) database: Option<&'a str>,
    /// Path segments after `/_db/NAME`.
    pub(super) segments: Vec<&'a str>,
    /// Parameters, in the order of the target.
    pub(super) parameters: Vec<(&'a str, &'a str)>,
}

impl<'a> Target<'a> {
    /// Parses a request target in origin form (path and query).
    pub(super) fn read(uri: &'a Uri) -> Result<Self, Refusal> {
        let refuse = |text: &str| Err(Refusal::of(Reason::Path, text));
        if uri.scheme().is_some() || uri.authority().is_some() {
            return refuse("the target is not a path: send `GET /path`, without scheme and host");
        }
        let length = uri.path().len() + uri.query().map_or(0, str::len);
        if length > PROXY_TARGET_BYTES_MAX {
            let text = format!("the target is longer than {PROXY_TARGET_BYTES_MAX} bytes");
            return Err(Refusal::of(Reason::Path, text));
        }
        let Some(path) = uri.path().strip_prefix('/') else {
            return refuse("the target does not begin with /");
        };
        let mut segments: Vec<&str> =
            if path.is_empty() { Vec::new() } else { path.split('/').collect() };
        if !segments.iter().all(|segment| plain(segment) && *segment != "." && *segment != "..") {
            return refuse(
                "the path is not canonical: no %-sequences, empty or dotted segments, no slash at its end; \
                 only letters, digits and _ - . : *",
            );
        }
        let mut database = None;
        if segments.first() == Some(&"_db") {
            if segments.len() < 3 {
                return refuse("the path ends after the name of a database");
            }
            database = segments.drain(..2).nth(1);
        }
        let pairs = uri.query().map(|query| query.split('&')).into_iter().flatten();
        let mut parameters = Vec::new();
        for pair in pairs {
            match pair.split_once('=') {
                Some((name, value)) if plain(name) && plain(value) => {
                    parameters.push((name, value));
                }
                _ => return refuse("the parameters are not name=value in plain characters"),
            }
        }
        Ok(Self { database, segments, parameters })
    }
}

/// Whether a text is not empty and has only characters that never need encoding.
fn plain(text: &str) -> bool {
    let means_itself = |b: u8| b.is_ascii_alphanumeric() || b"_-.:*".contains(&b);
    !text.is_empty() && text.bytes().all(means_itself)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_spelling_passes_and_its_likes_do_not() {
        let read = |text: &str| Target::read(&text.parse().unwrap()).map(|t| t.segments.join("|"));
        assert_eq!(read("/_db/vctx/_api/version").unwrap(), "_api|version");
        assert_eq!(read("/_api/analyzer/vctx::words").unwrap(), "_api|analyzer|vctx::words");
        assert_eq!(read("/").unwrap(), "");
        for text in [
            "/_api/version/",
            "//_api/version",
            "/_api//version",
            "/_api/./version",
            "/_api/x/../version",
            "/..",
            "/%5fapi/version",
            "/_api/version%00",
            "/_api/version;a=b",
            "/_api/version?",
            "/_api/version?a",
            "/_api/version?a=",
            "/_api/version?a=%31",
            "/_api/version?a=b&",
            "/_api/version?a=b+c",
            "/_db/vctx",
            "/_db/vctx/",
            "/_db//_api/version",
            "http://localhost/_api/version",
            "*",
            "/_api/vers\u{e4}on",
        ] {
            let Ok(uri) = text.parse::<Uri>() else { continue };
            assert!(Target::read(&uri).is_err(), "{text}");
        }
        let long = format!("/_api/{}", "x".repeat(PROXY_TARGET_BYTES_MAX));
        assert!(read(&long).is_err());
    }

    proptest! {
        /// Checks that an accepted target has only one spelling, because the proxy forwards it
        /// unchanged.
        #[test]
        fn what_passes_is_its_own_spelling(text in "/[a-zA-Z_%./:;?&=#*0-9\\\\-]{0,40}") {
            if let Ok(uri) = text.parse::<Uri>()
                && let Ok(target) = Target::read(&uri)
            {
                let joined = format!("/{}", target.segments.join("/"));
                prop_assert!(uri.path() == joined || uri.path().starts_with("/_db/"));
                prop_assert!(!uri.path().contains(['%', ';', '\\']) && !uri.path().contains("//"));
                prop_assert!(target.segments.iter().all(|s| !s.is_empty() && *s != "." && *s != ".."));
            }
        }
    }
}
