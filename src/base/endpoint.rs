//! The address of a database: the path of a Unix socket, in one of four forms. TCP addresses are
//! refused.

use std::path::{Path, PathBuf};

use vctx_core::limits::SOCKET_PATH_BYTES_MAX;

/// A validated path of a Unix socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    path: PathBuf,
}

/// A user and a password; the debug output omits the password.
#[derive(Clone)]
pub struct Credentials {
    /// Name of the database user.
    pub user: String,
    /// Password of the user.
    pub password: String,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Credentials({})", self.user)
    }
}

/// Reasons why an address is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointFault {
    /// The address has a TCP scheme: `http://`, `https://`, `tcp://`, `ssl://`, …
    #[error(
        "`{0}` is not a Unix socket: the database is reached over Unix sockets only; use unix:///path, http+unix:///path, http+unix://%2Fpath or /path"
    )]
    NotUnix(String),
    /// The socket path is not absolute.
    #[error("`{0}` is not an absolute path: begin it with /")]
    NotAbsolute(String),
    /// The socket path is longer than the kernel allows.
    #[error(
        "the socket path has {0} bytes, but the kernel allows at most {SOCKET_PATH_BYTES_MAX}: use a shorter directory"
    )]
    TooLong(usize),
    /// The address has an invalid percent-encoded sequence.
    #[error("`{0}` contains an invalid percent-encoded sequence")]
    Percent(String),
}

impl Endpoint {
    /// Parses an address in one of the forms `/p`, `unix:///p`, `http+unix:///p` or
    /// `http+unix://%2Fp`.
    pub fn parse(text: &str) -> Result<Self, EndpointFault> {
        let rest = match text.split_once("://") {
            None => text.strip_prefix("unix:").unwrap_or(text).to_owned(),
            Some(("unix" | "http+unix", rest)) => {
                let decoded =
                    percent_decoded(rest).ok_or_else(|| EndpointFault::Percent(text.into()))?;
                if rest.starts_with('%') {
                    decoded.trim_end_matches('/').to_owned()
                } else {
                    decoded
                }
            }
            // The error shows only the scheme, because the rest of the address may contain a
            // password.
            Some((scheme, _)) => return Err(EndpointFault::NotUnix(format!("{scheme}://…"))),
        };
        if !rest.starts_with('/') {
            return Err(EndpointFault::NotAbsolute(text.into()));
        }
        if rest.len() > SOCKET_PATH_BYTES_MAX {
            return Err(EndpointFault::TooLong(rest.len()));
        }
        Ok(Self { path: PathBuf::from(rest) })
    }

    /// Returns the path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the address as a URL whose host is the hex-encoded socket path; `Url::join` and
    /// `http::Uri` leave this form unchanged.
    pub fn url(&self) -> String {
        hyperlocal::Uri::new(&self.path, "/").into_string()
    }
}

trait IntoText {
    fn into_string(self) -> String;
}

impl IntoText for hyperlocal::Uri {
    fn into_string(self) -> String {
        hyper::Uri::from(self).to_string()
    }
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let pair = [rest.next()?, rest.next()?];
            let pair = std::str::from_utf8(&pair).ok()?;
            bytes.push(u8::from_str_radix(pair, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_means_the_same_socket() {
        for text in [
            "/run/arangodb3/arangod.sock",
            "unix:///run/arangodb3/arangod.sock",
            "http+unix:///run/arangodb3/arangod.sock",
            "http+unix://%2Frun%2Farangodb3%2Farangod.sock",
            "http+unix://%2Frun%2Farangodb3%2Farangod.sock/",
        ] {
            let endpoint = Endpoint::parse(text).unwrap();
            assert_eq!(endpoint.path(), Path::new("/run/arangodb3/arangod.sock"), "{text}");
        }
    }

    #[test]
    fn tcp_and_broken_forms_are_refused() {
        for text in [
            "http://localhost:8529",
            "https://x",
            "tcp://127.0.0.1:8529",
            "ssl://x",
            "http+tcp://x",
        ] {
            assert!(matches!(Endpoint::parse(text), Err(EndpointFault::NotUnix(_))), "{text}");
        }
        assert!(matches!(Endpoint::parse("run/x.sock"), Err(EndpointFault::NotAbsolute(_))));
        assert!(matches!(Endpoint::parse("http+unix://%2"), Err(EndpointFault::Percent(_))));
        let long = format!("/{}", "x".repeat(107));
        assert_eq!(Endpoint::parse(&long), Err(EndpointFault::TooLong(108)));
    }
}
