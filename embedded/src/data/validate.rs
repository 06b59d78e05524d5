//! JSON Schema of a collection: a subset of draft 4 that is checked in full; any other keyword is refused when it is set.

use crate::error::{Error, Result};
use crate::schema::Collection;
use crate::value::Object;

/// Refuses (1620) a document that the collection's schema does not allow at its level.
pub(super) fn check(_collection: &Collection, _old: Option<&Object>, _new: &Object) -> Result<()> {
    Ok(())
}

/// Refuses every schema until it can be checked.
pub(crate) fn check_rule(rule: &crate::value::Value) -> Result<()> {
    let _ = rule;
    Err(Error::unsupported("schema validation"))
}
