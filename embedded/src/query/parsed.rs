//! `/_api/query`: a text is parsed and nothing else.

use std::collections::BTreeSet;

use super::prepared::in_aql;
use crate::error::Result;
use crate::syntax::{Body, Mentions, parse};
use crate::value::{Object, Value};

/// `collections`, `bindVars`, `ast` of a text, or 1501.
pub fn parse_only(text: &str) -> Result<Value> {
    let body = parse(text).map_err(|error| in_aql(error, "while parsing"))?;
    let mut mentions = Mentions::default();
    mentions.read(&body);
    let names = |set: BTreeSet<String>| Value::array(set.into_iter().map(Value::from).collect());
    let mut out = Object::new();
    out.insert("collections", names(mentions.collections));
    out.insert("bindVars", names(mentions.binds));
    out.insert("ast", Value::array(vec![root(&body)]));
    Ok(Value::object(out))
}

/// The statements by name; expressions as text.
fn root(body: &Body) -> Value {
    let statements = body.statements.iter().map(|statement| {
        let text = statement.to_string();
        let word = text.split([' ', '\n']).next().unwrap_or("").to_lowercase();
        let mut out = Object::new();
        out.insert("type", word.into());
        out.insert("text", text.into());
        Value::object(out)
    });
    let mut out = Object::new();
    out.insert("type", "root".into());
    out.insert("subNodes", Value::array(statements.collect()));
    Value::object(out)
}
