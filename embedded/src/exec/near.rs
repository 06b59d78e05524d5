//! Finds the nearest documents of a collection with a vector index.

use std::collections::BinaryHeap;
use std::sync::Arc;

use super::executor::{Executor, Flow, Pass};
use crate::error::{Code, Error, Result};
use crate::expr::{Row, eval, truth};
use crate::plan::{NearVector, Node};
use crate::txn::Wanted;
use crate::value::Value;
use crate::vector::{Near, components, similarity};

impl<'q> Executor<'q> {
    /// Sends the documents nearest to the query's vector to the next node, nearest first.
    pub(super) fn near(
        &mut self,
        pass: &mut Pass<'q>,
        at: usize,
        row: &mut Row,
        near: &'q NearVector,
    ) -> Result<Flow> {
        let uncut = near.filters.is_empty() && counts_all(pass, at);
        if uncut && self.is_used_up(pass) {
            return self.count_uncut(near, 0);
        }
        let most = self.near_limit(near, row)?;
        let probes = self.probes(near, row)?;
        let vector = eval(&near.vector, row, self.binds, self)?;
        let query = components(&vector, &near.params).map_err(|why| {
            let name = near.params.metric.function();
            let text = format!("invalid argument type in call to function '{name}()': {why}");
            Error::new(Code::QueryFunctionArgumentTypeMismatch, text)
        })?;
        let before = self.budget.bytes_held();
        let keep = near.filters.is_empty().then_some(most);
        let found = self.nearest(near, &Wanted { query: &query, probes, keep })?;
        let held = self.budget.bytes_held() - before;
        let count = found.len();
        let flow = if near.filters.is_empty() {
            self.send(pass, at, row, near, found)
        } else {
            self.send_filtered(pass, at, row, near, found, most)
        };
        self.budget.let_go(held);
        if flow.is_ok() && uncut && self.is_used_up(pass) {
            return self.count_uncut(near, count);
        }
        flow
    }

    /// Whether the LIMIT that determines `fullCount` has already let through its maximum number of
    /// rows.
    fn is_used_up(&self, pass: &Pass<'q>) -> bool {
        let limit = pass.counting.and_then(|at| pass.limits[at].as_ref());
        limit.is_some_and(|limit| limit.take == 0)
    }

    /// Adds to `fullCount` the rows that a vector search without LIMIT would also find and that are
    /// not counted yet. As in ArangoDB, a search without LIMIT counts as finding every document of
    /// the collection.
    fn count_uncut(&mut self, near: &NearVector, counted: usize) -> Result<Flow> {
        let collection = &*self.plan.collections[near.collection].collection;
        let rest = self.transaction.count(collection)?.saturating_sub(counted as u64);
        self.stats.full_count = Some(self.stats.full_count.unwrap_or(0).saturating_add(rest));
        Ok(Flow::More)
    }

    /// Returns offset plus count of the `LIMIT` after the loop; error 1554 for a count of 0, as in
    /// ArangoDB.
    fn near_limit(&mut self, near: &NearVector, row: &mut Row) -> Result<usize> {
        let (offset, count) = &near.limit;
        let (offset, count) = (self.limit_number(offset, row)?, self.limit_number(count, row)?);
        if count == 0 || count == u64::MAX {
            return Err(Error::new(
                Code::QueryVectorSearchNotApplied,
                "failed vector search: LIMIT has to be a number above 0",
            ));
        }
        Ok(usize::try_from(offset.saturating_add(count)).unwrap_or(usize::MAX))
    }

    /// Returns `nProbe` from the query's options or, if it is missing there, from the vector index.
    /// Returns error 1501, as the parser does, unless `nProbe` is an integer of at least 1.
    fn probes(&mut self, near: &NearVector, row: &mut Row) -> Result<usize> {
        let default = near.params.default_probes as usize;
        let Some(options) = &near.options else { return Ok(default) };
        let options = eval(options, row, self.binds, self)?;
        // If the options of a vector search are not an object, ArangoDB ignores them.
        let Some(object) = options.as_object() else { return Ok(default) };
        let bad = |why: &str| {
            Error::new(Code::QueryParse, format!("error parsing searchParameters: {why}!"))
        };
        if let Some((name, _)) = object.iter().find(|(name, _)| &***name != "nProbe") {
            return Err(bad(&format!("found unexpected attribute '{name}'")));
        }
        match object.get("nProbe") {
            None | Some(Value::Null) => Ok(default),
            Some(Value::Int(probes)) if *probes >= 1 => {
                Ok(usize::try_from(*probes).unwrap_or(usize::MAX))
            }
            Some(Value::Int(_)) => Err(bad("nProbe must be 1 or greater!")),
            Some(_) => Err(bad("nProbe must be an integer")),
        }
    }

    fn nearest(&mut self, near: &NearVector, wanted: &Wanted<'_>) -> Result<Vec<Near>> {
        let collection = &*self.plan.collections[near.collection].collection;
        let budget = &mut self.budget;
        let mut counted = 0;
        let mut look = |held: usize| {
            budget.hold((held - counted) * size_of::<Near>())?;
            counted = held;
            budget.look()
        };
        self.transaction.nearest(collection, &near.index, &near.params, wanted, &mut look)
    }

    fn send(
        &mut self,
        pass: &mut Pass<'q>,
        at: usize,
        row: &mut Row,
        near: &NearVector,
        found: Vec<Near>,
    ) -> Result<Flow> {
        for one in found {
            self.load_near(row, near, one)?;
            if self.push(pass, at + 1, row)? == Flow::Enough {
                return Ok(Flow::Enough);
            }
        }
        Ok(Flow::More)
    }

    /// Reads documents, nearest first, until enough of them fulfil the query's conditions.
    fn send_filtered(
        &mut self,
        pass: &mut Pass<'q>,
        at: usize,
        row: &mut Row,
        near: &NearVector,
        found: Vec<Near>,
        most: usize,
    ) -> Result<Flow> {
        let mut candidates = BinaryHeap::from(found);
        let mut sent = 0;
        while sent < most
            && let Some(one) = candidates.pop()
        {
            self.load_near(row, near, one)?;
            let mut fulfilled = true;
            for condition in &near.filters {
                fulfilled = fulfilled && truth(condition, row, self.binds, self)?;
            }
            if !fulfilled {
                self.stats.filtered += 1;
                continue;
            }
            sent += 1;
            if self.push(pass, at + 1, row)? == Flow::Enough {
                return Ok(Flow::Enough);
            }
        }
        Ok(Flow::More)
    }

    /// Puts a document and its distance into the row.
    fn load_near(&mut self, row: &mut Row, near: &NearVector, one: Near) -> Result<()> {
        let collection = &*self.plan.collections[near.collection].collection;
        self.budget.row()?;
        self.stats.scanned_index += 1;
        let document = match near.attributes.as_deref() {
            Some([only]) if only == "_key" => {
                let key = self.transaction.key_by_local(collection, one.local)?;
                key.map(|key| Value::object([(Arc::from("_key"), key)].into_iter().collect()))
            }
            wanted => {
                self.stats.document_lookups += 1;
                self.transaction.by_local(collection, one.local, wanted)?
            }
        };
        let gone = "a vector index contains a document that does not exist";
        let document = document.ok_or_else(|| Error::new(Code::Internal, gone))?;
        row[near.out] = document;
        let value = similarity(near.params.metric, one.closeness);
        row[near.similarity] = Value::finite(f64::from(value)).unwrap_or_default();
        Ok(())
    }
}

/// Whether the rows that the LIMIT after a search discards are counted.
fn counts_all(pass: &Pass<'_>, at: usize) -> bool {
    let computed = |node: &Node| matches!(node, Node::Calculation { .. });
    pass.counting.is_some_and(|limit| limit > at && pass.nodes[at + 1..limit].iter().all(computed))
}
