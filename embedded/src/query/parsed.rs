//! Parses a query without running it, for `/_api/query`.

use super::prepared::in_aql;
use crate::error::Result;
use crate::syntax::{Mentions, parse, tree};
use crate::value::{Object, Value};

/// Returns `collections`, `bindVars` and `ast` of a query text, or error 1501.
pub fn parse_only(text: &str) -> Result<Value> {
    let body = parse(text).map_err(|error| in_aql(error, "while parsing"))?;
    let mut mentions = Mentions::default();
    mentions.read(&body);
    let collections = mentions.collections.into_iter().map(Value::from).collect();
    // ArangoDB lists bind parameters in the reverse order of their appearance in the query.
    let binds = mentions.binds.into_iter().rev().map(Value::from).collect();
    let mut out = Object::new();
    out.insert("collections", Value::array(collections));
    out.insert("bindVars", Value::array(binds));
    out.insert("ast", tree(&body));
    Ok(Value::object(out))
}
