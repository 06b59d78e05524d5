//! The table of functions.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::{
    Call, array, bits, date, document, geo, hash, misc, numeric, regex, statistics, string,
    type_check,
};
use crate::error::{Code, Error, Result};
use crate::value::Value;

/// One function of the table.
#[derive(Debug)]
pub struct Function {
    /// Name in capitals.
    pub name: &'static str,
    /// Fewest arguments.
    pub min: usize,
    /// Most arguments; [`usize::MAX`] is any number.
    pub max: usize,
    /// Whether a call with constant arguments may be replaced by its value.
    pub foldable: bool,
    /// The implementation; the number of arguments is within bounds.
    pub run: fn(&mut Call<'_>, &[Value]) -> Result<Value>,
    /// What it does, in a line.
    pub help: &'static str,
}

/// Any number of arguments.
pub(super) const MANY: usize = usize::MAX;

type Run = fn(&mut Call<'_>, &[Value]) -> Result<Value>;

/// An entry whose value depends on its arguments alone.
pub(super) const fn pure(
    name: &'static str,
    min: usize,
    max: usize,
    run: Run,
    help: &'static str,
) -> Function {
    Function { name, min, max, foldable: true, run, help }
}

/// An entry that answers differently each time, or must be seen to run.
pub(super) const fn live(
    name: &'static str,
    min: usize,
    max: usize,
    run: Run,
    help: &'static str,
) -> Function {
    Function { name, min, max, foldable: false, run, help }
}

/// All rooms' tables.
const TABLES: &[&[Function]] = &[
    string::TABLE,
    regex::TABLE,
    hash::TABLE,
    array::TABLE,
    document::TABLE,
    numeric::TABLE,
    bits::TABLE,
    geo::TABLE,
    statistics::TABLE,
    date::TABLE,
    type_check::TABLE,
    misc::TABLE,
];

/// Functions of the server that this engine refuses by name (501/9) instead of calling them unknown.
const REFUSED: &[&str] = &["NEAR", "WITHIN", "WITHIN_RECTANGLE", "FULLTEXT", "V8"];

/// Functions that the host answers; the plan has them, not the table.
pub(super) const DATA: &[&str] = &[
    "COLLECTION_COUNT",
    "COLLECTIONS",
    "CURRENT_DATABASE",
    "CURRENT_USER",
    "DOCUMENT",
    "MINHASH_MATCH",
    "NGRAM_MATCH",
    "OFFSET_INFO",
    "SCHEMA_GET",
    "SCHEMA_VALIDATE",
    "SHARD_ID",
    "SLEEP",
    "TOKENS",
];

/// Most arguments of a call, as the server tells it.
const ARGUMENTS_MAX: usize = 65_536;

/// Error 1541 unless a number of arguments is within bounds.
pub fn arity(name: &str, given: usize, min: usize, max: usize) -> Result<()> {
    if (min..=max).contains(&given) {
        return Ok(());
    }
    let most = max.min(ARGUMENTS_MAX);
    let message = format!(
        "invalid number of arguments for function '{name}()', expected number of arguments: minimum: {min}, maximum: {most}"
    );
    Err(Error::new(Code::QueryFunctionArgumentNumberMismatch, message))
}

/// The function of this name (in capitals).
pub fn function(name: &str) -> Option<&'static Function> {
    static BY_NAME: OnceLock<HashMap<&'static str, &'static Function>> = OnceLock::new();
    BY_NAME
        .get_or_init(|| TABLES.iter().copied().flatten().map(|f| (f.name, f)).collect())
        .get(name)
        .copied()
}

/// Whether the real server has this function and the engine does not.
pub fn refused(name: &str) -> bool {
    REFUSED.contains(&name)
}
