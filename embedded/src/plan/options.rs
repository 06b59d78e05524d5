//! `OPTIONS`: objects that must be known when a query is planned; binds are allowed in them.

use super::node::Hint;
use super::scope::Builder;
use crate::error::{Code, Error, Result};
use crate::expr::Expr;
use crate::syntax;
use crate::txn::{OverwriteMode, WriteOptions};
use crate::value::Value;

/// What `OPTIONS` of a modification say.
pub(super) struct Modification {
    pub write: WriteOptions,
    pub ignore_errors: bool,
    pub exclusive: bool,
    pub wait_for_sync: bool,
    pub hint: Hint,
}

impl Builder<'_> {
    /// An object of constants and binds; 1575 for anything else.
    pub(super) fn options(&mut self, options: Option<&syntax::Expr>) -> Result<Value> {
        let Some(options) = options else { return Ok(Value::Null) };
        match self.constant(options) {
            Ok(Expr::Const(value)) => Ok(value),
            Err(error) if bind_fault(error.code) => Err(error),
            _ => Err(Error::of(Code::QueryCompileTimeOptions)),
        }
    }

    /// An expression in which binds count as constants and no variable is in sight.
    pub(super) fn constant(&mut self, expr: &syntax::Expr) -> Result<Expr> {
        let outer = std::mem::replace(&mut self.binds_as_constants, true);
        let hidden = std::mem::take(&mut self.variables);
        let compiled = self.expression(expr);
        self.variables = hidden;
        self.binds_as_constants = outer;
        compiled
    }

    /// The index hints in the `OPTIONS` of a `FOR`.
    pub(super) fn hint(&mut self, options: Option<&syntax::Expr>) -> Result<Hint> {
        let options = self.options(options)?;
        Ok(hint_of(&options))
    }

    /// The `OPTIONS` of a loop over a view.
    pub(super) fn view_options(&mut self, options: Option<&syntax::Expr>) -> Result<Value> {
        self.options(options)
    }

    /// The `OPTIONS` of a modification; `insert` lets `overwriteMode` count.
    pub(super) fn modification(
        &mut self,
        options: Option<&syntax::Expr>,
        insert: bool,
    ) -> Result<Modification> {
        let given = self.options(options)?;
        let flag = |name: &str, default: bool| match given.attribute(name) {
            Value::Null => default,
            value => value.is_true(),
        };
        let mut write = WriteOptions {
            lock_wait_ms: crate::limits::KEY_LOCK_WAIT_MS,
            ignore_revs: flag("ignoreRevs", true),
            keep_null: flag("keepNull", true),
            merge_objects: flag("mergeObjects", true),
            version_attribute: given.text_of("versionAttribute").map(str::to_owned),
            ..WriteOptions::default()
        };
        if insert {
            write.overwrite = match given.text_of("overwriteMode") {
                Some("ignore") => OverwriteMode::Ignore,
                Some("replace") => OverwriteMode::Replace,
                Some("update") => OverwriteMode::Update,
                Some("conflict") => OverwriteMode::Conflict,
                Some(other) => {
                    let message = format!("unknown overwriteMode '{other}'");
                    return Err(Error::new(Code::BadParameter, message));
                }
                None if flag("overwrite", false) => OverwriteMode::Replace,
                None => OverwriteMode::Conflict,
            };
        }
        Ok(Modification {
            write,
            ignore_errors: flag("ignoreErrors", false),
            exclusive: flag("exclusive", false),
            wait_for_sync: flag("waitForSync", false),
            hint: hint_of(&given),
        })
    }
}

/// Whether the fault lies in a bind, not in the place it stands in.
pub(super) fn bind_fault(code: Code) -> bool {
    matches!(code, Code::QueryBindParameterMissing | Code::QueryBindParameterType)
}

fn hint_of(options: &Value) -> Hint {
    let names = match options.attribute("indexHint") {
        Value::String(name) => vec![name.to_string()],
        Value::Array(names) => names.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    let set = |name: &str| options.attribute(name).is_true();
    Hint { names, force: set("forceIndexHint"), disable: set("disableIndex") }
}
