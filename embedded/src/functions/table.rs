//! The table of all AQL functions in this folder, with lookup by name.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::{Call, array, date, document, misc, numeric, regex, statistics, string, type_check};
use crate::error::{Code, Error, Result};
use crate::value::Value;

/// One function of the table.
#[derive(Debug)]
pub struct Function {
    /// The function's name in capitals.
    pub name: &'static str,
    /// Minimum number of arguments.
    pub min: usize,
    /// Maximum number of arguments; [`usize::MAX`] means no maximum.
    pub max: usize,
    /// Whether the planner may replace a call with constant arguments by the call's value.
    pub foldable: bool,
    /// The implementation. The caller has checked the number of arguments.
    pub run: fn(&mut Call<'_>, &[Value]) -> Result<Value>,
    /// One line that describes the function.
    pub help: &'static str,
}

/// The maximum for a function with any number of arguments.
pub(super) const MANY: usize = usize::MAX;

type Run = fn(&mut Call<'_>, &[Value]) -> Result<Value>;

/// Returns a table entry for a function whose value depends only on its arguments.
pub(super) const fn pure(
    name: &'static str,
    min: usize,
    max: usize,
    run: Run,
    help: &'static str,
) -> Function {
    Function { name, min, max, foldable: true, run, help }
}

/// Returns a table entry for a function whose value varies between calls or whose call has a side
/// effect.
pub(super) const fn live(
    name: &'static str,
    min: usize,
    max: usize,
    run: Run,
    help: &'static str,
) -> Function {
    Function { name, min, max, foldable: false, run, help }
}

/// All function tables.
const TABLES: &[&[Function]] = &[
    string::TABLE,
    regex::TABLE,
    array::TABLE,
    document::TABLE,
    numeric::TABLE,
    statistics::TABLE,
    date::TABLE,
    type_check::TABLE,
    misc::TABLE,
];

/// ArangoDB's functions that this engine refuses with 501/9. Any other name that no table has is an
/// unknown function (1540).
const REFUSED: &[&str] = &["NEAR", "WITHIN", "WITHIN_RECTANGLE", "FULLTEXT", "V8"];

/// Functions that only a build with the feature `conformance` has.
const CONFORMANCE: &[&str] = &[
    "BIT_AND",
    "BIT_CONSTRUCT",
    "BIT_DECONSTRUCT",
    "BIT_FROM_STRING",
    "BIT_NEGATE",
    "BIT_OR",
    "BIT_POPCOUNT",
    "BIT_SHIFT_LEFT",
    "BIT_SHIFT_RIGHT",
    "BIT_TEST",
    "BIT_TO_STRING",
    "BIT_XOR",
    "CRC32",
    "DISTANCE",
    "FNV64",
    "GEO_AREA",
    "GEO_CONTAINS",
    "GEO_DISTANCE",
    "GEO_EQUALS",
    "GEO_INTERSECTS",
    "GEO_IN_RANGE",
    "GEO_LINESTRING",
    "GEO_MULTILINESTRING",
    "GEO_MULTIPOINT",
    "GEO_MULTIPOLYGON",
    "GEO_POINT",
    "GEO_POLYGON",
    "HASH",
    "IS_IN_POLYGON",
    "MD5",
    "MINHASH",
    "MINHASH_COUNT",
    "MINHASH_ERROR",
    "MINHASH_MATCH",
    "OFFSET_INFO",
    "SHA1",
    "SHA512",
    "SOUNDEX",
];

/// Functions that are not in the table, because the running query (its `Host`) evaluates them.
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
    "VERSION",
];

/// Maximum number of arguments of a call, which ArangoDB's error message shows.
const ARGUMENTS_MAX: usize = 65_536;

/// Returns error 1541 unless the number of arguments is within the function's bounds.
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

/// Returns the function with this name (in capitals).
pub fn function(name: &str) -> Option<&'static Function> {
    static BY_NAME: OnceLock<HashMap<&'static str, &'static Function>> = OnceLock::new();
    BY_NAME
        .get_or_init(|| {
            #[cfg(feature = "conformance")]
            let tables = TABLES.iter().chain(&super::conformance::TABLES);
            #[cfg(not(feature = "conformance"))]
            let tables = TABLES.iter();
            tables.copied().flatten().map(|f| (f.name, f)).collect()
        })
        .get(name)
        .copied()
}

/// Whether this build lacks the function because the feature `conformance` is off.
pub fn left_out(name: &str) -> bool {
    !cfg!(feature = "conformance") && CONFORMANCE.contains(&name)
}

/// Whether ArangoDB has this function but the engine refuses it.
pub fn refused(name: &str) -> bool {
    REFUSED.contains(&name)
}

#[cfg(all(test, feature = "conformance"))]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_the_feature_names_its_functions() {
        let tables = super::super::conformance::TABLES;
        let mut names: Vec<_> = tables.iter().copied().flatten().map(|f| f.name).collect();
        names.extend(["MINHASH_MATCH", "OFFSET_INFO"]);
        names.sort_unstable();
        assert_eq!(names, CONFORMANCE);
    }
}
