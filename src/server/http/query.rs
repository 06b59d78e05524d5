//! Parses the query string of a request into named texts and numbers.

use url::form_urlencoded;

use vctx_core::error::{Error, Result};

/// The parameters of a query string; of a repeated parameter, the last value counts.
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Parses a query string. Refuses a parameter that `usage` does not list.
    pub fn parse(raw: Option<&str>, usage: &str) -> Result<Self> {
        let names = |word: &&str| !["", "and", "or"].contains(word);
        let known: Vec<&str> = usage.split([' ', ',']).filter(names).collect();
        let pairs = form_urlencoded::parse(raw.unwrap_or_default().as_bytes()).into_owned();
        let pairs: Vec<(String, String)> = pairs.collect();
        match pairs.iter().find(|(name, _)| !known.contains(&name.as_str())) {
            Some((name, _)) => Err(Error::argument(name, format!("unknown: use {usage}"))),
            None => Ok(Self(pairs)),
        }
    }

    /// Returns the last value of a parameter.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().rfind(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the number of the first item of a list, which counts from 1; 1 by default.
    pub fn first(&self, name: &str) -> Result<u64> {
        match self.number(name)? {
            Some(0) => Err(Error::argument(name, "use 1 or more")),
            given => Ok(given.unwrap_or(1)),
        }
    }

    /// Returns the last value of a parameter as a number.
    pub fn number(&self, name: &str) -> Result<Option<u64>> {
        self.text(name).map(|value| number(name, value)).transpose()
    }
}

pub(super) fn number(name: &str, value: &str) -> Result<u64> {
    value.parse().map_err(|_| Error::argument(name, "must be a whole number"))
}
