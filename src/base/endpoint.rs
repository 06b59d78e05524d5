//! Where a database listens: a Unix socket, in any of its spellings; never TCP.

use std::path::{Path, PathBuf};

use vctx_core::limits::SOCKET_PATH_BYTES_MAX;

/// A Unix socket's path, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    path: PathBuf,
}

/// A user and a password; printed without the password.
#[derive(Clone)]
pub struct Credentials {
    /// User.
    pub user: String,
    /// Password.
    pub password: String,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Credentials({})", self.user)
    }
}

/// Why an address is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointFault {
    /// `http://`, `https://`, `tcp://`, `ssl://`, …
    #[error(
        "`{0}` is not a Unix socket: the database is reached over Unix sockets only; use unix:///path, http+unix:///path, http+unix://%2Fpath or /path"
    )]
    NotUnix(String),
    /// Not absolute.
    #[error("`{0}` is not an absolute path: begin it with /")]
    NotAbsolute(String),
    /// Longer than the kernel takes.
    #[error(
        "the socket path has {0} bytes, the kernel takes {SOCKET_PATH_BYTES_MAX}: use a shorter directory"
    )]
    TooLong(usize),
    /// A broken percent sequence.
    #[error("`{0}` has a broken %-sequence")]
    Percent(String),
}

impl Endpoint {
    /// Reads `/p`, `unix:///p`, `http+unix:///p` or `http+unix://%2Fp`.
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
            // What follows may hold a password.
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

    /// The socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The form that survives `Url::join` and `http::Uri`: the path as a hex host.
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
