//! The table of functions.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::{Call, array, date, document, misc, numeric, statistics, string, type_check};
use crate::error::Result;
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
    array::TABLE,
    document::TABLE,
    numeric::TABLE,
    statistics::TABLE,
    date::TABLE,
    type_check::TABLE,
    misc::TABLE,
];

/// Functions of the server that this engine refuses by name (501/9) instead of calling them unknown.
const REFUSED: &[&str] = &[
    "NGRAM_SIMILARITY",
    "NGRAM_POSITIONAL_SIMILARITY",
    "MINHASH",
    "MINHASH_COUNT",
    "MINHASH_ERROR",
    "GEO_POINT",
    "GEO_MULTIPOINT",
    "GEO_POLYGON",
    "GEO_MULTIPOLYGON",
    "GEO_LINESTRING",
    "GEO_MULTILINESTRING",
    "GEO_DISTANCE",
    "GEO_CONTAINS",
    "GEO_INTERSECTS",
    "GEO_EQUALS",
    "GEO_AREA",
    "GEO_IN_RANGE",
    "DISTANCE",
    "IS_IN_POLYGON",
    "NEAR",
    "WITHIN",
    "WITHIN_RECTANGLE",
    "FULLTEXT",
    "REGEX_TEST",
    "REGEX_MATCHES",
    "REGEX_SPLIT",
    "REGEX_REPLACE",
    "MD5",
    "SHA1",
    "CRC32",
    "HASH",
    "SOUNDEX",
    "CALL",
    "APPLY",
    "SLEEP",
    "V8",
    "SCHEMA_GET",
    "SCHEMA_VALIDATE",
    "DATE_UTCTOLOCAL",
    "DATE_LOCALTOUTC",
    "DATE_TIMEZONE",
    "DATE_TIMEZONES",
    "EDGES",
    "NEIGHBORS",
    "SHARD_ID",
    "DECODE_REV",
    "COLLECTIONS",
    "IS_SAME_COLLECTION",
];

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
