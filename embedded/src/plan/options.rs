//! Reads `OPTIONS` of statements, which are objects of constants and bind parameters known at
//! planning time.

use super::node::Hint;
use super::scope::Builder;
use crate::error::{Code, Error, Result};
use crate::expr::Expr;
use crate::syntax;
use crate::txn::{OverwriteMode, WriteOptions};
use crate::value::Value;

/// The options of a modification.
pub(super) struct Modification {
    pub write: WriteOptions,
    pub ignore_errors: bool,
    pub exclusive: bool,
    pub wait_for_sync: bool,
    pub hint: Hint,
}

/// Options that a loop over a collection allows.
const LOOP_OPTIONS: &[&str] = &[
    "indexHint",
    "forceIndexHint",
    "disableIndex",
    "maxProjections",
    "useCache",
    "lookahead",
    "waitForSync",
];
/// Options that a modification allows.
const MODIFICATION_OPTIONS: &[&str] = &[
    "waitForSync",
    "skipDocumentValidation",
    "ignoreErrors",
    "keepNull",
    "mergeObjects",
    "exclusive",
    "overwrite",
    "overwriteMode",
    "ignoreRevs",
    "refillIndexCaches",
    "versionAttribute",
];
/// Options that an `UPSERT` allows in addition to those of a modification.
const UPSERT_OPTIONS: &[&str] =
    &["indexHint", "forceIndexHint", "disableIndex", "useCache", "readOwnWrites"];

impl Builder<'_> {
    /// Evaluates an object of constants and bind parameters, and returns error 1575 for any other
    /// expression.
    pub(super) fn options(&mut self, options: Option<&syntax::Expr>) -> Result<Value> {
        let Some(options) = options else { return Ok(Value::Null) };
        match self.constant(options) {
            Ok(Expr::Const(value)) => Ok(value),
            Err(error) if bind_fault(error.code) => Err(error),
            _ => {
                let message = "'OPTIONS' have to be known at query compile time";
                Err(Error::new(Code::QueryCompileTimeOptions, message))
            }
        }
    }

    /// Compiles an expression in which bind parameters are constants and no variables are allowed.
    pub(super) fn constant(&mut self, expr: &syntax::Expr) -> Result<Expr> {
        let outer = std::mem::replace(&mut self.binds_as_constants, true);
        let hidden = std::mem::take(&mut self.variables);
        let compiled = self.expression(expr);
        self.variables = hidden;
        self.binds_as_constants = outer;
        compiled
    }

    /// Records a warning for each unknown option of the statement.
    pub(super) fn known_options(&mut self, given: &Value, word: &str, known: &[&str]) {
        let Value::Object(given) = given else { return };
        for (name, _) in given.iter() {
            let upsert = word == "UPSERT" && UPSERT_OPTIONS.contains(&&**name);
            if !upsert && !known.contains(&&**name) {
                let message =
                    format!("usage of unknown OPTIONS attribute '{name}' in {word} statement");
                self.warn(Code::QueryInvalidOptionsAttribute, message);
            }
        }
    }

    /// Records a warning for an option with an invalid value.
    fn invalid_option(&mut self, given: &Value, name: &str, word: &str) {
        let value = given.attribute(name).to_json();
        let message = format!(
            "usage of invalid value {value} in OPTIONS attribute '{name}' in {word} statement"
        );
        self.warn(Code::QueryInvalidOptionsAttribute, message);
    }

    /// Returns the index hints in the `OPTIONS` of a `FOR`.
    pub(super) fn hint(&mut self, options: Option<&syntax::Expr>) -> Result<Hint> {
        let options = self.options(options)?;
        self.known_options(&options, "FOR", LOOP_OPTIONS);
        let flags = ["forceIndexHint", "disableIndex", "useCache"];
        for name in flags {
            let value = options.attribute(name);
            if !value.is_null() && !matches!(value, Value::Bool(_)) {
                self.invalid_option(&options, name, "FOR");
            }
        }
        Ok(hint_of(&options))
    }

    /// Returns the `OPTIONS` of a loop over a view.
    pub(super) fn view_options(&mut self, options: Option<&syntax::Expr>) -> Result<Value> {
        self.options(options)
    }

    /// Returns the `OPTIONS` of a modification. Reads `overwriteMode` only if the statement's
    /// keyword `word` is `INSERT`.
    pub(super) fn modification(
        &mut self,
        options: Option<&syntax::Expr>,
        word: &'static str,
    ) -> Result<Modification> {
        let insert = word == "INSERT";
        let given = self.options(options)?;
        self.known_options(&given, word, MODIFICATION_OPTIONS);
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
                Some(_) => {
                    self.invalid_option(&given, "overwriteMode", word);
                    OverwriteMode::Conflict
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

/// Whether an error code means a missing or invalid bind parameter.
pub(super) fn bind_fault(code: Code) -> bool {
    matches!(code, Code::QueryBindParameterMissing | Code::QueryBindParameterType)
}

fn hint_of(options: &Value) -> Hint {
    let names = match options.attribute("indexHint") {
        Value::String(name) => vec![name.to_string()],
        Value::Array(names) => names.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    let set = |name: &str| matches!(options.attribute(name), Value::Bool(true));
    Hint { names, force: set("forceIndexHint"), disable: set("disableIndex") }
}
