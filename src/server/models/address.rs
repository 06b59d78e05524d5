//! The address of a model's server: a Unix socket, or the URL of a server that the configuration
//! names.

use std::path::{Path, PathBuf};

use url::{Host, Url};

use super::providers::Provider;
use vctx_core::limits::{NAME_BYTES_MAX, SOCKET_PATH_BYTES_MAX};

/// Maximum length of the URL of a model's server, in bytes.
const URL_BYTES_MAX: usize = 2_048;
/// Path of an API below a server whose address has no path.
const USUAL_BASE: &str = "/v1";

/// Address of a model's server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A Unix socket.
    Unix(PathBuf),
    /// A URL with the scheme `http` or `https`.
    Web(Url),
}

/// The settings of an address, as the configuration has them.
#[derive(Clone, Copy, Debug)]
pub struct AddressSettings<'a> {
    /// Name of a provider, whose address counts if no other is set; or empty.
    pub provider: &'a str,
    /// URL of the server, or empty.
    pub url: &'a str,
    /// Unix socket of the server, or empty.
    pub socket: &'a Path,
}

impl AddressSettings<'_> {
    /// Returns whether a server is configured.
    pub fn is_set(&self) -> bool {
        !(self.provider.is_empty() && self.url.is_empty() && self.socket.as_os_str().is_empty())
    }

    /// Returns the provider, if one is named. An error begins with the setting's name.
    pub fn provider(&self) -> Result<Option<&'static Provider>, String> {
        match self.provider {
            "" => Ok(None),
            name => Provider::by_name(name).map(Some),
        }
    }

    /// Returns the address. An error begins with the setting's name.
    pub fn address(&self) -> Result<Address, String> {
        let provider = self.provider()?;
        let length = self.socket.as_os_str().len();
        match (length, self.url, provider) {
            (0, "", Some(provider)) => Address::of_url(provider.url),
            (0, "", None) => {
                Err("url: name the model's server, such as https://api.openai.com/v1".into())
            }
            (0, url, _) => Address::of_url(url),
            (_, "", _) if !self.socket.is_absolute() || length > SOCKET_PATH_BYTES_MAX => {
                Err(format!("socket: use a full path of at most {SOCKET_PATH_BYTES_MAX} bytes"))
            }
            (_, "", _) => Ok(Address::Unix(self.socket.to_owned())),
            _ => Err("url: set either url or socket".into()),
        }
    }
}

impl Address {
    /// Parses a URL: `https://host/path`, `http://host:port/path` or `unix:///path`. An error
    /// begins with `url:`.
    pub fn of_url(text: &str) -> Result<Self, String> {
        let fault = |what: &str| Err(format!("url: {what}"));
        if text.len() > URL_BYTES_MAX {
            return fault("too long");
        }
        if let Some(path) = text.strip_prefix("unix://") {
            let path = Path::new(path);
            return match path.is_absolute() && path.as_os_str().len() <= SOCKET_PATH_BYTES_MAX {
                true => Ok(Self::Unix(path.to_owned())),
                false => fault("after unix:// comes the full path of a socket"),
            };
        }
        if !text.contains("://") {
            return fault("begin it with https:// or http://, such as https://api.openai.com/v1");
        }
        let Ok(url) = Url::parse(text) else {
            return fault("not a URL: write it as https://api.openai.com/v1");
        };
        match url.scheme() {
            "http" | "https" => {}
            scheme => {
                return fault(&format!(
                    "{scheme}: is no scheme for a model: use https:// or http://"
                ));
            }
        }
        if !url.username().is_empty() || url.password().is_some() {
            return fault("leave out the name and password: a key has a variable of its own");
        }
        if url.fragment().is_some() {
            return fault("leave out the part after #");
        }
        Ok(Self::Web(url))
    }

    /// Returns the address without its path, as `https://host:port` or the socket's path, for logs
    /// and `/readyz`.
    pub fn host(&self) -> String {
        match self {
            Self::Unix(path) => path.display().to_string(),
            Self::Web(url) => url.origin().ascii_serialization(),
        }
    }

    /// Returns the path and query of a request to an API whose own path is `api`. The address's
    /// own path, or `/v1` if it has none, comes before. A `path` that is not empty counts instead.
    pub fn target(&self, api: &str, path: &str) -> String {
        let (base, query) = match self {
            Self::Unix(_) => (USUAL_BASE, None),
            Self::Web(url) => (url.path().trim_end_matches('/'), url.query()),
        };
        let base = if base.is_empty() { USUAL_BASE } else { base };
        let mut target = match path {
            "" => format!("{base}{api}"),
            path => path.to_owned(),
        };
        if let Some(query) = query {
            target.push(if target.contains('?') { '&' } else { '?' });
            target.push_str(query);
        }
        target
    }

    /// Returns whether requests go over a network without encryption.
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Web(url) if url.scheme() == "http") && self.is_remote()
    }

    /// Returns whether the server is on another machine.
    pub fn is_remote(&self) -> bool {
        let Self::Web(url) = self else { return false };
        let is_here = match url.host() {
            Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        };
        !is_here
    }
}

/// Checks the name of a model. An error begins with `model:`.
pub(super) fn check_model(model: &str) -> Result<(), String> {
    match (1..=NAME_BYTES_MAX).contains(&model.len()) {
        true => Ok(()),
        false => Err(format!("model: name the model, in at most {NAME_BYTES_MAX} bytes")),
    }
}

/// Checks the path of requests to a model. An error begins with `path:`.
pub(super) fn check_path(path: &str) -> Result<(), String> {
    match path.is_empty() || path.starts_with('/') {
        true => Ok(()),
        false => Err("path: begin it with /, or leave it empty".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(provider: &str, url: &str, socket: &str) -> Result<Address, String> {
        AddressSettings { provider, url, socket: Path::new(socket) }.address()
    }

    #[test]
    fn an_address_is_a_socket_or_the_url_of_a_named_server() {
        let target = |url: &str, path: &str| of("", url, "").unwrap().target("/x", path);
        assert_eq!(of("", "", "/run/m.sock").unwrap(), Address::Unix("/run/m.sock".into()));
        assert_eq!(of("", "unix:///run/m.sock", "").unwrap().target("/x", ""), "/v1/x");
        assert_eq!(target("http://localhost:11434", ""), "/v1/x");
        assert_eq!(target("https://api.example.com/openai/v1/", ""), "/openai/v1/x");
        assert_eq!(target("https://h/v1?api-version=2", ""), "/v1/x?api-version=2");
        assert_eq!(target("https://h/v1", "/own?a=b"), "/own?a=b");
        assert_eq!(of("openai", "", "").unwrap().host(), "https://api.openai.com");
        assert_eq!(of("ollama", "", "").unwrap().host(), "http://localhost:11434");
        assert_eq!(of("openai", "https://h", "").unwrap().host(), "https://h");
    }

    #[test]
    fn what_is_no_address_is_refused_and_told_how_to_write_it() {
        for (provider, url, socket, said) in [
            ("", "", "", "url: name the model's server"),
            ("", "api.openai.com", "", "url: begin it with https://"),
            ("", "localhost:11434", "", "url: begin it with https://"),
            ("", "ftp://h", "", "url: ftp: is no scheme"),
            ("", "https://", "", "url: not a URL"),
            ("", "https://me:secret@h", "", "url: leave out the name and password"),
            ("", "https://h/#a", "", "url: leave out the part after #"),
            ("", "unix://run/m.sock", "", "url: after unix://"),
            ("", "https://h", "/run/m.sock", "url: set either"),
            ("", "", "m.sock", "socket: use a full path"),
            ("openia", "", "", "provider: "),
        ] {
            let fault = of(provider, url, socket).unwrap_err();
            assert!(fault.starts_with(said), "{url}: {fault}");
            assert!(!fault.contains("secret"), "{fault}");
        }
    }

    #[test]
    fn only_a_loopback_needs_no_encryption() {
        let is_open = |url: &str| of("", url, "").unwrap().is_open();
        for url in ["https://h", "http://localhost:1", "http://127.0.0.1:1", "http://[::1]:1"] {
            assert!(!is_open(url), "{url}");
        }
        assert!(is_open("http://10.0.0.1:1") && is_open("http://h"));
    }
}
