//! Reply texts for calls that use a dialect (other names and forms of the same tools).

use std::fmt::Debug;

use serde_json::{Map, Value};

use crate::error::Error;

/// The attribute of a result or error that contains the reply text.
pub const TEXT: &str = "text";

/// The reply texts of a dialect for one call. The texts depend only on the call and its result, so
/// that a repeated call gets an equal text.
pub trait Wording: Debug + Send + Sync {
    /// Returns the name of the called tool in its dialect.
    fn name(&self) -> &'static str;

    /// Returns whether the call requests another inference.
    fn beats(&self) -> bool;

    /// Returns the reply text for a result.
    fn answer_text(&self, result: &Map<String, Value>) -> String;

    /// Returns the reply text for an error.
    fn refused(&self, error: &Error) -> String;
}
