//! A call that came under another name than ours: how its caller is told what came of it.

use std::fmt::Debug;

use serde_json::{Map, Value};

use crate::error::Error;

/// The attribute of a result, and of a refusal, that tells it as text in the words of the caller.
pub const TEXT: &str = "text";

/// What a caller who speaks another dialect expects to be told. It is a function of the call and of its result alone, so that a repeated
/// call is told the same.
pub trait Wording: Debug + Send + Sync {
    /// The name under which the call came.
    fn name(&self) -> &'static str;

    /// Whether the caller asks to be called again at once.
    fn beats(&self) -> bool;

    /// What came of it.
    fn told(&self, result: &Map<String, Value>) -> String;

    /// Why nothing came of it.
    fn refused(&self, error: &Error) -> String;
}
