//! The context of a function call: the warnings of the query and the name of the function.

use crate::error::{Code, Error, Result};
use crate::value::Value;

/// Warnings of one query, returned in `extra.warnings`.
#[derive(Debug)]
pub struct Warnings {
    /// The kept warnings, with their texts.
    pub kept: Vec<(Code, String)>,
    /// Maximum number of warnings that are kept.
    pub max: usize,
    /// Whether a warning ends the query (`failOnWarning`).
    pub fail: bool,
}

/// ArangoDB's default `maxWarningCount`.
const WARNINGS_MAX: usize = 10;

impl Default for Warnings {
    fn default() -> Self {
        Self { kept: Vec::new(), max: WARNINGS_MAX, fail: false }
    }
}

impl Warnings {
    /// Records a warning; with `failOnWarning` returns it as an error.
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

/// One function call.
#[derive(Debug)]
pub struct Call<'a> {
    /// The function's name in capitals.
    pub name: &'static str,
    /// The warnings of the query.
    pub warnings: &'a mut Warnings,
}

impl Call<'_> {
    /// The function's name in warnings. For an alias, it is the name of the aliased function.
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

    /// Returns null with warning 1542.
    pub(super) fn mistyped(&mut self) -> Result<Value> {
        let text = self.mistyped_text();
        self.warn(Code::QueryFunctionArgumentTypeMismatch, text)
    }

    /// Error 1542, for calls where ArangoDB returns an error instead of a warning.
    pub(super) fn fails(&self) -> Error {
        Error::new(Code::QueryFunctionArgumentTypeMismatch, self.mistyped_text())
    }

    /// Returns null with warning 1563.
    pub(super) fn no_list(&mut self) -> Result<Value> {
        self.caution(Code::QueryArrayExpected)
    }

    /// Returns null with warning 1572.
    pub(super) fn bad_date(&mut self) -> Result<Value> {
        self.caution(Code::QueryInvalidDateValue)
    }

    /// Returns null with a warning that has ArangoDB's standard text.
    pub(super) fn caution(&mut self, code: Code) -> Result<Value> {
        self.explain(code, code.text())
    }

    /// Returns null with a warning that has the given text.
    pub(super) fn explain(&mut self, code: Code, text: &str) -> Result<Value> {
        let text = format!("in function '{}()': {text}", self.original());
        self.warn(code, text)
    }

    /// Returns null with a warning.
    pub(super) fn warn(&mut self, code: Code, message: impl Into<String>) -> Result<Value> {
        self.warnings.raise(code, message)?;
        Ok(Value::Null)
    }
}

/// Converts a number to a value: an integer if the number is whole and small enough to be exact,
/// null for NaN and infinities.
pub(super) fn number(x: f64) -> Result<Value> {
    let whole = x.fract() == 0.0 && x.abs() < EXACT_MAX && !(x == 0.0 && x.is_sign_negative());
    Ok(if whole { Value::Int(x as i64) } else { Value::finite(x).unwrap_or_default() })
}

/// From this integer on, doubles cannot represent every integer.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
