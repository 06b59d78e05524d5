//! Plans `WINDOW`, whose bounds must be known at planning time.

use super::node::{Bounds, Node, Window};
use super::scope::Builder;
use crate::error::{Code, Error, Result};
use crate::expr::Expr;
use crate::functions::{Call, Warnings, function};
use crate::syntax::{self, Key, Name};
use crate::value::Value;

impl Builder<'_> {
    /// Adds the nodes of a `WINDOW`. If the window has a range value, rows are first sorted by that
    /// value.
    pub(super) fn window(&mut self, window: &syntax::Window, nodes: &mut Vec<Node>) -> Result<()> {
        let mut range = None;
        if let Some(written) = &window.range {
            let value = self.expression(written)?;
            let out = self.register("")?;
            nodes.push(Node::Calculation { value, out });
            nodes.push(Node::Sort(vec![(Expr::Register(out), false)]));
            range = Some(Expr::Register(out));
        }
        let (before, behind) =
            (self.bound(&window.bounds, "preceding")?, self.bound(&window.bounds, "following")?);
        let bounds = match range {
            None => Bounds::Rows(rows(before)?, rows(behind)?),
            Some(_) => reach(before, behind)?,
        };
        let mut aggregates = Vec::new();
        for (name, value) in &window.aggregates {
            let (kind, value) = self.aggregate(value)?;
            aggregates.push((kind, value, self.register(name)?));
        }
        for ((name, _), (.., out)) in window.aggregates.iter().zip(&aggregates) {
            self.declare(name, Expr::Register(*out))?;
        }
        nodes.push(Node::Window(Box::new(Window { range, bounds, aggregates })));
        Ok(())
    }

    /// Returns the value of a window's bound, or error 1575 for a bound not known at planning time.
    fn bound(&mut self, bounds: &syntax::Expr, wanted: &str) -> Result<Option<Value>> {
        let syntax::Expr::Object(entries) = bounds else { return Ok(None) };
        let found = entries.iter().find(|(key, _)| *key == Key::Name(Name::from(wanted)));
        let Some((_, value)) = found else { return Ok(None) };
        match self.constant(value) {
            Ok(Expr::Const(value)) => Ok(Some(value)),
            Err(error) if super::options::bind_fault(error.code) => Err(error),
            _ => {
                let message = "WINDOW bounds must be determined at compile time";
                Err(Error::new(Code::QueryCompileTimeOptions, message))
            }
        }
    }
}

fn rows(bound: Option<Value>) -> Result<u64> {
    match bound {
        None => Ok(0),
        Some(Value::String(word)) if matches!(&*word, "unbounded" | "inf") => Ok(u64::MAX),
        Some(value) if value.is_number() && value.to_i64() >= 0 => {
            Ok(value.to_i64().unsigned_abs())
        }
        Some(_) => Err(bad(
            "WINDOW row spec is invalid; bounds must be positive integers or \"unbounded\"",
        )),
    }
}

fn reach(before: Option<Value>, behind: Option<Value>) -> Result<Bounds> {
    let is_text = |bound: &Option<Value>| matches!(bound, Some(Value::String(_)));
    for bound in [&before, &behind].into_iter().flatten() {
        if !bound.is_number() && bound.as_str().is_none() {
            return Err(bad("WINDOW range spec is invalid"));
        }
    }
    if before.is_some() && behind.is_some() && is_text(&before) != is_text(&behind) {
        return Err(bad(
            "WINDOW range spec is invalid; bounds must be of the same type - either both are \
             numeric values, or both are ISO 8601 duration strings",
        ));
    }
    if is_text(&before) || is_text(&behind) {
        return Ok(Bounds::Durations(
            duration(before, "preceding")?,
            duration(behind, "following")?,
        ));
    }
    let number = |bound: Option<Value>| bound.and_then(|bound| bound.as_f64()).unwrap_or(0.0);
    Ok(Bounds::Numbers(number(before), number(behind)))
}

/// Returns a bound that is an ISO 8601 duration, or an error for any other text.
fn duration(bound: Option<Value>, which: &str) -> Result<Option<Name>> {
    let Some(Value::String(text)) = bound else { return Ok(None) };
    let moved = shifted("DATE_ADD", &Value::Int(0), &text, &mut Warnings::default())?;
    if moved.is_none() {
        return Err(bad(format!(
            "WINDOW range spec is invalid; '{which}' is not a valid ISO 8601 duration string"
        )));
    }
    Ok(Some(text))
}

/// Adds a duration to a date or subtracts it; `by` is `DATE_ADD` or `DATE_SUBTRACT`. Returns the
/// new date in milliseconds since 1970, or `None` for an invalid date or duration.
pub fn shifted(
    by: &str,
    date: &Value,
    duration: &Name,
    warnings: &mut Warnings,
) -> Result<Option<f64>> {
    let mut call = |name: &str, arguments: &[Value]| {
        let function = function(name).ok_or_else(|| Error::of(Code::Internal))?;
        (function.run)(&mut Call { name: function.name, warnings }, arguments)
    };
    let moved = call(by, &[date.clone(), Value::String(Name::clone(duration))])?;
    if moved.is_null() {
        return Ok(None);
    }
    Ok(call("DATE_TIMESTAMP", &[moved])?.as_f64())
}

fn bad(message: impl Into<String>) -> Error {
    Error::new(Code::BadParameter, message)
}
