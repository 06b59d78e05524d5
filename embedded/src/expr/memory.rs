//! Counts the memory of one query's rows and values.

use super::room::Share;
use crate::error::{Code, Error, Result};
use crate::value::Value;

/// Default and maximum memory limit of a query for its rows and values, in bytes.
const QUERY_BYTES_MAX: u64 = 1 << 30;
/// Memory limit of an expression that is evaluated outside of a running query, in bytes.
const EXPRESSION_BYTES_MAX: u64 = 64 << 20;

/// Counts the memory of a query against its limit.
#[derive(Debug)]
pub struct Memory {
    bytes_max: u64,
    bytes: u64,
    made: u64,
    peak: u64,
    /// The query's part of the memory of all queries; `None` outside of a running query.
    share: Option<Share>,
}

impl Memory {
    /// Returns the memory counter of a query. A `limit` of 0 bytes means the engine's default
    /// limit.
    pub fn new(limit: u64) -> Self {
        let bytes_max = if limit == 0 { QUERY_BYTES_MAX } else { limit.min(QUERY_BYTES_MAX) };
        Self { bytes_max, bytes: 0, made: 0, peak: 0, share: None }
    }

    /// Also counts the memory in a share of the memory of all queries.
    #[must_use]
    pub fn within(self, share: Share) -> Self {
        Self { share: Some(share), ..self }
    }

    /// Takes the share out of the counter, for rows that live longer than their query.
    pub fn take_share(&mut self) -> Option<Share> {
        self.share.take()
    }

    /// Returns the memory counter of an expression that is evaluated outside of a running query.
    pub fn of_an_expression() -> Self {
        Self::new(EXPRESSION_BYTES_MAX)
    }

    /// Counts the bytes of rows that stay in memory; returns error 32 if the memory limit is
    /// exceeded.
    pub fn hold(&mut self, bytes: usize) -> Result<()> {
        self.bytes += bytes as u64;
        self.peak = self.peak.max(self.bytes);
        self.check(self.bytes)
    }

    /// Counts the bytes of a value that an expression has made; returns error 32 if the memory
    /// limit is exceeded.
    ///
    /// A part that occurs several times in the value counts each time. No value is therefore larger
    /// than the limit, so the time to read, compare or send a value is bounded.
    pub fn make(&mut self, value: &Value) -> Result<()> {
        let left = self.bytes_max.saturating_sub(self.bytes + self.made);
        self.made += value.size_bytes_up_to(usize::try_from(left).unwrap_or(usize::MAX)) as u64;
        self.check(self.bytes + self.made)
    }

    /// Returns the bytes of the values that expressions have made for the current row, as an
    /// argument of [`Memory::drop_to`].
    pub fn made(&self) -> u64 {
        self.made
    }

    /// Subtracts the bytes of all values that expressions have made since [`Memory::made`] returned
    /// `made`.
    pub fn drop_to(&mut self, made: u64) {
        self.made = self.made.min(made);
    }

    fn check(&mut self, bytes: u64) -> Result<()> {
        if bytes > self.bytes_max {
            return Err(Error::new(
                Code::ResourceLimit,
                "query would use more memory than allowed",
            ));
        }
        self.share.as_mut().map_or(Ok(()), |share| share.grow_to(bytes))
    }

    /// Returns the bytes counted now, as an argument of [`Memory::release_to`].
    pub fn bytes_held(&self) -> u64 {
        self.bytes
    }

    /// Subtracts all bytes of rows that were counted after [`Memory::bytes_held`] returned `held`.
    pub fn release_to(&mut self, held: u64) {
        self.bytes = self.bytes.min(held);
    }

    /// Subtracts released bytes from the counted memory.
    pub fn let_go(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// Returns the query's peak memory in bytes.
    pub fn peak(&self) -> u64 {
        self.peak
    }
}
