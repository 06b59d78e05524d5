//! What a function sees of the query around it: where its warnings go, and under which name it was called.

use crate::error::{Code, Error, Result};
use crate::value::Value;

/// Warnings of one query (`extra.warnings`).
#[derive(Debug)]
pub struct Warnings {
    /// Number and text of those kept.
    pub kept: Vec<(u32, String)>,
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
            self.kept.push((code.num(), message));
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
    /// Null with warning 1542.
    pub(super) fn mistyped(&mut self) -> Result<Value> {
        let message = format!("invalid argument type in call to function '{}()'", self.name);
        self.warn(Code::QueryFunctionArgumentTypeMismatch, message)
    }

    /// Null with warning 1572.
    pub(super) fn bad_date(&mut self) -> Result<Value> {
        self.warn(Code::QueryInvalidDateValue, Code::QueryInvalidDateValue.text())
    }

    /// Null with a warning of choice.
    pub(super) fn warn(&mut self, code: Code, message: impl Into<String>) -> Result<Value> {
        self.warnings.raise(code, message)?;
        Ok(Value::Null)
    }

    /// A finite number, or null with warning 1561.
    pub(super) fn number(&mut self, x: f64) -> Result<Value> {
        match Value::finite(x) {
            Some(value) => Ok(value),
            None => self
                .warn(Code::QueryInvalidArithmeticValue, Code::QueryInvalidArithmeticValue.text()),
        }
    }
}
