//! What a function sees of the query around it: where its warnings go, and under which name it was called.

use crate::error::{Code, Error, Result};
use crate::value::Value;

/// Warnings of one query (`extra.warnings`).
#[derive(Debug)]
pub struct Warnings {
    /// Those kept, with their texts.
    pub kept: Vec<(Code, String)>,
    /// How many are kept at most.
    pub max: usize,
    /// Whether the first one ends the query.
    pub fail: bool,
}

/// `maxWarningCount` of the server.
const WARNINGS_MAX: usize = 10;

impl Default for Warnings {
    fn default() -> Self {
        Self { kept: Vec::new(), max: WARNINGS_MAX, fail: false }
    }
}

impl Warnings {
    /// Notes a warning, or fails with it under `failOnWarning`.
    pub fn raise(&mut self, code: Code, message: impl Into<String>) -> Result<()> {
        let message = message.into();
        if self.fail {
            return Err(Error::new(code, message));
        }
        if self.kept.len() < self.max {
            self.kept.push((code, message));
        }
        Ok(())
    }
}

/// One call of a function.
#[derive(Debug)]
pub struct Call<'a> {
    /// Name in capitals.
    pub name: &'static str,
    /// Where warnings go.
    pub warnings: &'a mut Warnings,
}

impl Call<'_> {
    /// The name in warnings: an alias speaks for the function that it stands for.
    fn original(&self) -> &'static str {
        match self.name {
            "AVG" => "AVERAGE",
            "CONTAINS_ARRAY" => "POSITION",
            "COUNT_UNIQUE" => "COUNT_DISTINCT",
            "KEYS" => "ATTRIBUTES",
            "STDDEV" => "STDDEV_POPULATION",
            "VARIANCE" => "VARIANCE_POPULATION",
            name => name,
        }
    }

    /// The text of error 1542.
    fn mistyped_text(&self) -> String {
        format!("invalid argument type in call to function '{}()'", self.original())
    }

    /// Null with warning 1542.
    pub(super) fn mistyped(&mut self) -> Result<Value> {
        let text = self.mistyped_text();
        self.warn(Code::QueryFunctionArgumentTypeMismatch, text)
    }

    /// Error 1542: what the server does not only warn of.
    pub(super) fn fails(&self) -> Error {
        Error::new(Code::QueryFunctionArgumentTypeMismatch, self.mistyped_text())
    }

    /// Null with warning 1563.
    pub(super) fn no_list(&mut self) -> Result<Value> {
        self.caution(Code::QueryArrayExpected)
    }

    /// Null with warning 1572.
    pub(super) fn bad_date(&mut self) -> Result<Value> {
        self.caution(Code::QueryInvalidDateValue)
    }

    /// Null with a warning and its standard text.
    pub(super) fn caution(&mut self, code: Code) -> Result<Value> {
        self.explain(code, code.text())
    }

    /// Null with a warning and a text of its own.
    pub(super) fn explain(&mut self, code: Code, text: &str) -> Result<Value> {
        let text = format!("in function '{}()': {text}", self.original());
        self.warn(code, text)
    }

    /// Null with a warning of choice.
    pub(super) fn warn(&mut self, code: Code, message: impl Into<String>) -> Result<Value> {
        self.warnings.raise(code, message)?;
        Ok(Value::Null)
    }
}

/// A number as a value, an integer where it is exactly one; null for NaN and infinities.
pub(super) fn number(x: f64) -> Result<Value> {
    let whole = x.fract() == 0.0 && x.abs() < EXACT_MAX && !(x == 0.0 && x.is_sign_negative());
    Ok(if whole { Value::Int(x as i64) } else { Value::finite(x).unwrap_or_default() })
}

/// From here on a double is no longer every integer.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
