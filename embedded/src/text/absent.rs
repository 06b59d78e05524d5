//! Replaces the module `text/conformance` in builds without the Cargo feature `conformance`; its
//! constructors return errors.

use super::analyzer::Returns;
use super::query::Query;
use crate::error::{Error, Result};
use crate::syntax::Binary;
use crate::value::Value;

/// Returns the error of a constructor, which names the missing feature.
fn refused<T>(what: &str) -> Result<T> {
    Err(Error::unsupported(format!("{what} in a build without the feature `conformance`")))
}

/// The query of an analyzer of type `aql`.
#[derive(Debug)]
pub(super) enum Program {}

impl Program {
    pub(super) fn new(_: &Value) -> Result<Self> {
        refused("an analyzer of type 'aql'")
    }

    pub(super) fn values(&self, _: &str) -> Vec<Value> {
        match *self {}
    }

    pub(super) fn texts(&self, _: &str) -> Vec<String> {
        match *self {}
    }

    pub(super) fn returns(&self) -> Returns {
        match *self {}
    }

    pub(super) fn collapses(&self) -> bool {
        match *self {}
    }
}

/// The sort order of a locale, for analyzers of type `collation`.
#[derive(Clone, Copy, Debug)]
pub(super) enum Collation {}

impl Collation {
    pub(super) fn of(_: &str) -> Result<Self> {
        refused("an analyzer of type 'collation'")
    }

    pub(super) fn key(self, _: &str) -> String {
        match self {}
    }
}

/// Converts values to shapes, for geo analyzers.
#[derive(Debug)]
pub(super) enum Shapes {}

impl Shapes {
    pub(super) fn new(kind: &str, _: &Value) -> Result<Self> {
        refused(&format!("an analyzer of type '{kind}'"))
    }

    pub(super) fn of(&self, _: &Value) -> Option<Value> {
        match *self {}
    }
}

/// A geo condition over a shape.
#[derive(Clone, Debug)]
pub(crate) struct GeoTest;

impl GeoTest {
    pub(crate) fn new(
        name: &str,
        _: Vec<Value>,
        _: usize,
        _: Option<(Binary, Value)>,
    ) -> Result<Self> {
        refused(&format!("{name}()"))
    }

    pub(super) fn holds(&self, _: &str) -> bool {
        false
    }

    pub(super) fn check(&self) -> Result<()> {
        Ok(())
    }
}

/// A path argument of `OFFSET_INFO`.
#[derive(Debug)]
pub(crate) enum Rule {}

impl Rule {
    pub(crate) fn all(_: &Value) -> Result<Vec<Self>> {
        refused("OFFSET_INFO()")
    }
}

pub(crate) fn offsets(_: &Query, _: &Value, _: &[Rule]) -> Value {
    Value::Null
}

/// Returns an empty MinHash signature, because this build cannot compute signatures.
pub(super) fn signature<'a>(_: impl Iterator<Item = &'a str>, _: usize) -> Vec<u64> {
    Vec::new()
}

pub(super) fn token(hash: u64) -> String {
    hash.to_string()
}
