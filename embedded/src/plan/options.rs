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

/// What `OPTIONS` of a loop over a collection may say.
const LOOP_OPTIONS: &[&str] = &[
    "indexHint",
    "forceIndexHint",
    "disableIndex",
    "maxProjections",
    "useCache",
    "lookahead",
    "waitForSync",
];
/// What `OPTIONS` of a modification may say.
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
/// What `OPTIONS` of an `UPSERT` may say beside those.
const UPSERT_OPTIONS: &[&str] =
    &["indexHint", "forceIndexHint", "disableIndex", "useCache", "readOwnWrites"];

impl Builder<'_> {
    /// An object of constants and binds; 1575 for anything else.
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

    /// An expression in which binds count as constants and no variable is in sight.
    pub(super) fn constant(&mut self, expr: &syntax::Expr) -> Result<Expr> {
        let outer = std::mem::replace(&mut self.binds_as_constants, true);
        let hidden = std::mem::take(&mut self.variables);
        let compiled = self.expression(expr);
        self.variables = hidden;
        self.binds_as_constants = outer;
        compiled
    }

    /// A warning for each option that the statement does not know.
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

    /// A warning for an option with a value that it cannot have.
    fn invalid_option(&mut self, given: &Value, name: &str, word: &str) {
        let value = given.attribute(name).to_json();
        let message = format!(
            "usage of invalid value {value} in OPTIONS attribute '{name}' in {word} statement"
        );
        self.warn(Code::QueryInvalidOptionsAttribute, message);
    }

    /// The index hints in the `OPTIONS` of a `FOR`.
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

    /// The `OPTIONS` of a loop over a view.
    pub(super) fn view_options(&mut self, options: Option<&syntax::Expr>) -> Result<Value> {
        self.options(options)
    }

    /// The `OPTIONS` of a modification; `insert` lets `overwriteMode` count.
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
    let set = |name: &str| matches!(options.attribute(name), Value::Bool(true));
    Hint { names, force: set("forceIndexHint"), disable: set("disableIndex") }
}
