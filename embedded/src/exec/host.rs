//! What expressions ask of the run: subqueries, documents by id, counts, the session.

use std::sync::Arc;

use super::executor::Executor;
use super::search::{levenshtein_match, min_match};
use crate::error::{Code, Error, Result};
use crate::expr::{DataCall, Host, Row};
use crate::functions::Warnings;
use crate::value::Value;

impl Host for Executor<'_> {
    fn warnings(&mut self) -> &mut Warnings {
        &mut self.warnings
    }

    fn subquery(&mut self, number: usize, row: &mut Row) -> Result<Value> {
        let held = self.budget.held();
        let rows = self.pipeline(&self.plan.subqueries[number], row, None)?;
        // The list is in the caller's hands now; it counts again where a row with it is kept.
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
            DataCall::MinMatch => min_match(arguments),
            DataCall::NgramMatch => self.ngram_match(arguments),
            DataCall::MinhashMatch => self.minhash_match(arguments),
            DataCall::LevenshteinMatch => levenshtein_match(arguments),
            DataCall::Database => Ok(self.database.name.as_str().into()),
            DataCall::User => Ok(self.user.map_or(Value::Null, Value::from)),
            DataCall::Near(metric) => Err(Error::new(
                Code::QueryVectorSearchNotApplied,
                format!("{}() ran without a vector index", metric.function()),
            )),
            DataCall::Document => match arguments {
                [ids] => self.documents(None, ids),
                [Value::String(collection), keys] => self.documents(Some(collection), keys),
                _ => Ok(Value::Null),
            },
        }
    }
}

impl Executor<'_> {
    /// One document, or those of a list without the missing ones.
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
        let Some(collection) = self.database.collections.get(name) else {
            return Err(Error::new(
                Code::DataSourceNotFound,
                format!("collection or view not found: {name}"),
            ));
        };
        Ok(self.transaction.get(collection, key)?.unwrap_or_default())
    }
}
