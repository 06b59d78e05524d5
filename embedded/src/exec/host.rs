//! Evaluates the parts of expressions that need stored data, or the query's database or user:
//! subqueries, documents by id, counts.

use std::sync::Arc;

use super::executor::Executor;
use crate::data::schema_fault;
use crate::error::{Code, Error, Result};
use crate::expr::{DataCall, Host, Memory, Row};
use crate::functions::Warnings;
use crate::schema::Collection;
use crate::value::{Object, Value};

impl Host for Executor<'_> {
    fn warnings(&mut self) -> &mut Warnings {
        &mut self.warnings
    }

    fn memory(&mut self) -> &mut Memory {
        &mut self.budget
    }

    fn step(&mut self) -> Result<()> {
        self.budget.row()
    }

    fn subquery(&mut self, number: usize, row: &mut Row) -> Result<Value> {
        let held = self.budget.bytes_held();
        let rows = self.pipeline(&self.plan.subqueries[number], row, None)?;
        // The subquery's rows are no longer counted, because the bytes of the resulting list are
        // counted when a row that contains the list is kept.
        self.budget.release_to(held);
        Ok(Value::array(rows))
    }

    fn data(&mut self, call: DataCall, arguments: &[Value]) -> Result<Value> {
        match call {
            DataCall::Count(number) => {
                let collection = &self.plan.collections[number].collection;
                Ok(Value::from(self.transaction.count(collection)?))
            }
            DataCall::Tokens => self.tokens(arguments),
            DataCall::NgramMatch => self.ngram_match(arguments),
            DataCall::MinhashMatch => self.minhash_match(arguments),
            DataCall::Database => Ok(self.database.name.as_str().into()),
            DataCall::User => Ok(self.user.map_or(Value::Null, Value::from)),
            DataCall::CountOf => {
                let Some(name) = arguments[0].as_str() else {
                    return Err(mistyped("COLLECTION_COUNT"));
                };
                Ok(Value::from(self.transaction.count(self.named(name)?)?))
            }
            DataCall::Collections => Ok(self.collections()),
            DataCall::SchemaGet => self.schema(&arguments[0]),
            DataCall::SchemaValidate => self.validated(&arguments[0], &arguments[1]),
            DataCall::ShardId => match (&arguments[0], &arguments[1]) {
                (Value::String(name), Value::Object(_)) => {
                    self.named(name)?;
                    Ok(arguments[0].clone())
                }
                (Value::String(_), _) => Err(bad("second parameter to SHARD_ID must be an object")),
                _ => Err(bad("first parameter to SHARD_ID must be a string")),
            },
            DataCall::Sleep => self.sleep(&arguments[0]),
            DataCall::Near(metric) => Err(Error::new(
                Code::QueryVectorSearchNotApplied,
                format!(
                    "{}: {}() ran without a vector index; it has to be all of the only sort key of \
                     FOR … [FILTER …] SORT … LIMIT, sorted so that the nearest come first",
                    Code::QueryVectorSearchNotApplied.text(),
                    metric.function()
                ),
            )),
            DataCall::Document => match arguments {
                [ids] => self.documents(None, ids),
                [Value::String(collection), keys] => self.documents(Some(collection), keys),
                _ => Ok(Value::Null),
            },
        }
    }
}

fn bad(text: impl Into<String>) -> Error {
    Error::new(Code::BadParameter, text)
}

fn mistyped(name: &str) -> Error {
    let text = format!("invalid argument type in call to function '{name}()'");
    Error::new(Code::QueryFunctionArgumentTypeMismatch, text)
}

impl Executor<'_> {
    /// Returns a collection of the database, or error 1203.
    fn named(&self, name: &str) -> Result<&Arc<Collection>> {
        self.database.collections.get(name).ok_or_else(|| {
            let text = format!("collection or view not found: {name}");
            Error::new(Code::DataSourceNotFound, text)
        })
    }

    /// Returns the id and name of each collection.
    fn collections(&self) -> Value {
        let entry = |collection: &Arc<Collection>| {
            let mut out = Object::new();
            out.insert("_id", collection.id.to_string().into());
            out.insert("name", collection.name.as_str().into());
            Value::object(out)
        };
        Value::array(self.database.collections.values().map(entry).collect())
    }

    /// Returns the rule, level and message of a collection's schema; null for a collection without
    /// a schema.
    fn schema(&self, collection: &Value) -> Result<Value> {
        let text = collection.as_str().or_else(|| collection.text_of("_id")).unwrap_or_default();
        let name = text.split('/').next().unwrap_or_default();
        if name.is_empty() {
            return Err(bad("could not extract collection name from parameters"));
        }
        let Some(validation) = &self.named(name)?.validation else { return Ok(Value::Null) };
        let mut out = Object::new();
        out.insert("level", validation.level.name().into());
        out.insert("message", validation.message.as_str().into());
        out.insert("rule", validation.rule.clone());
        out.insert("type", "json".into());
        Ok(Value::object(out))
    }

    /// Returns whether a document conforms to a schema, and the schema's message if it does not.
    fn validated(&mut self, document: &Value, schema: &Value) -> Result<Value> {
        let Some(object) = document.as_object() else {
            let text = "in function 'SCHEMA_VALIDATE()': expecting document object";
            self.warnings.raise(Code::QueryFunctionArgumentTypeMismatch, text)?;
            return Ok(Value::Null);
        };
        let mut out = Object::new();
        let fault = match schema {
            Value::Null => None,
            Value::Object(rules) if rules.is_empty() => None,
            Value::Object(_) => schema_fault(schema, object)?,
            other => {
                let text = format!("second parameter is not a schema object: {}", other.to_json());
                return Err(bad(text));
            }
        };
        out.insert("valid", Value::Bool(fault.is_none()));
        if let Some(fault) = fault {
            out.insert("errorMessage", fault.into());
        }
        Ok(Value::object(out))
    }

    fn sleep(&mut self, seconds: &Value) -> Result<Value> {
        let Some(seconds) = seconds.as_f64().filter(|s| *s >= 0.0) else {
            let text = "invalid argument type in call to function 'SLEEP()'";
            self.warnings.raise(Code::QueryFunctionArgumentTypeMismatch, text)?;
            return Ok(Value::Null);
        };
        self.budget.sleep(seconds)?;
        Ok(Value::Null)
    }

    /// Returns one document, or the existing documents of a list of ids.
    fn documents(&self, collection: Option<&Arc<str>>, ids: &Value) -> Result<Value> {
        match ids {
            Value::Array(ids) => {
                let mut out = Vec::new();
                for id in ids.iter() {
                    out.extend(
                        Some(self.document_of(collection, id)?).filter(|found| !found.is_null()),
                    );
                }
                Ok(Value::array(out))
            }
            one => self.document_of(collection, one),
        }
    }

    fn document_of(&self, collection: Option<&Arc<str>>, id: &Value) -> Result<Value> {
        let text = match id {
            Value::Object(object) => object.get("_id").and_then(Value::as_str),
            other => other.as_str(),
        };
        let Some(text) = text else { return Ok(Value::Null) };
        let (name, key) = match (text.split_once('/'), collection) {
            (Some((name, key)), _) => (name, key),
            (None, Some(collection)) => (&**collection, text),
            (None, None) => return Ok(Value::Null),
        };
        if collection.is_some_and(|wanted| **wanted != *name) {
            return Ok(Value::Null);
        }
        let Some(collection) = self.database.collections.get(name) else { return Ok(Value::Null) };
        Ok(self.transaction.get(collection, key)?.unwrap_or_default())
    }
}
