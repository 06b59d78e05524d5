//! Runs loops over collections and index lookups; documents are read in batches of growing size.

use std::collections::BTreeSet;

use super::executor::{Executor, Flow, Pass};
use crate::error::Result;
use crate::expr::{Expr, Register, Row, eval};
use crate::plan::{Lookup, Node};
use crate::schema::{Collection, IndexKind};
use crate::txn::{IndexRange, Scan};
use crate::value::{Ordered, Value};

/// Number of documents in a loop's first batch, small because a query may need few documents. Each
/// further batch is four times as large.
const FIRST_BATCH: usize = 16;
/// Maximum number of documents in one batch.
const BATCH_MAX: usize = 1024;

impl<'q> Executor<'q> {
    /// Sends each document of a scan to the node that follows the loop in the plan.
    pub(super) fn scan(
        &mut self,
        pass: &mut Pass<'q>,
        at: usize,
        row: &mut Row,
        mut scan: Scan,
        out: Register,
        by_index: bool,
    ) -> Result<Flow> {
        let mut batch = self.first_batch(pass, at, row)?;
        loop {
            let documents = self.transaction.next(&mut scan, batch)?;
            if documents.is_empty() {
                return Ok(Flow::More);
            }
            for document in documents {
                if self.document(pass, at, row, document, out, by_index)? == Flow::Enough {
                    return Ok(Flow::Enough);
                }
            }
            batch = (batch * 4).min(BATCH_MAX);
        }
    }

    /// Returns the size of the first batch: the number of rows that a LIMIT after the loop needs,
    /// or the default.
    fn first_batch(&mut self, pass: &Pass<'q>, at: usize, row: &mut Row) -> Result<usize> {
        let nodes = pass.nodes;
        let mut behind = nodes.iter().enumerate().skip(at + 1);
        let next = behind.find(|(_, node)| !matches!(node, Node::Calculation { .. }));
        let Some((place, Node::Limit { offset, count })) = next else { return Ok(FIRST_BATCH) };
        if pass.counting == Some(place) {
            return Ok(FIRST_BATCH);
        }
        let wanted = self.limit_number(offset, row)?.saturating_add(self.limit_number(count, row)?);
        Ok(usize::try_from(wanted).unwrap_or(BATCH_MAX).clamp(1, BATCH_MAX))
    }

    fn document(
        &mut self,
        pass: &mut Pass<'q>,
        at: usize,
        row: &mut Row,
        document: Value,
        out: Register,
        by_index: bool,
    ) -> Result<Flow> {
        let counter =
            if by_index { &mut self.stats.scanned_index } else { &mut self.stats.scanned_full };
        *counter += 1;
        if by_index && !self.plan.covered.contains(&out) {
            self.stats.document_lookups += 1;
        }
        self.budget.row()?;
        row[out] = document;
        self.push(pass, at + 1, row)
    }

    /// Reads an index; the bounds of the lookup are evaluated for the row.
    pub(super) fn lookup(
        &mut self,
        pass: &mut Pass<'q>,
        at: usize,
        row: &mut Row,
        collection: usize,
        out: Register,
        lookup: &'q Lookup,
    ) -> Result<Flow> {
        let collection = &*self.plan.collections[collection].collection;
        self.count_cursor(out);
        let mut range = IndexRange::default();
        for value in &lookup.equals {
            range.equals.push(eval(value, row, self.binds, self)?);
        }
        range.lower = self.bound(lookup.lower.as_ref(), row)?;
        range.upper = self.bound(lookup.upper.as_ref(), row)?;
        let Some(list) = &lookup.one_of else {
            return self.range(pass, at, row, collection, out, lookup, &range);
        };
        let list = eval(list, row, self.binds, self)?;
        let values: BTreeSet<Ordered> =
            list.as_array().unwrap_or_default().iter().cloned().map(Ordered).collect();
        for value in values {
            range.equals.push(value.0);
            if self.range(pass, at, row, collection, out, lookup, &range)? == Flow::Enough {
                return Ok(Flow::Enough);
            }
            range.equals.pop();
        }
        Ok(Flow::More)
    }

    fn bound(
        &mut self,
        bound: Option<&(Expr, bool)>,
        row: &mut Row,
    ) -> Result<Option<(Value, bool)>> {
        match bound {
            Some((value, inclusive)) => Ok(Some((eval(value, row, self.binds, self)?, *inclusive))),
            None => Ok(None),
        }
    }

    #[allow(clippy::too_many_arguments, reason = "a step of one loop")]
    fn range(
        &mut self,
        pass: &mut Pass<'q>,
        at: usize,
        row: &mut Row,
        collection: &Collection,
        out: Register,
        lookup: &Lookup,
        range: &IndexRange,
    ) -> Result<Flow> {
        if lookup.index.kind == IndexKind::Primary
            && let [key] = range.equals.as_slice()
        {
            let Some(key) = key.as_str().and_then(|text| {
                if lookup.by_id { key_of_id(text, collection) } else { Some(text) }
            }) else {
                return Ok(Flow::More);
            };
            return match self.transaction.get(collection, key)? {
                Some(document) => self.document(pass, at, row, document, out, true),
                None => Ok(Flow::More),
            };
        }
        let scan = self.transaction.index_scan(
            collection,
            &lookup.index,
            lookup.field,
            range,
            lookup.backwards,
        )?;
        self.scan(pass, at, row, scan, out, true)
    }

    /// Counts the use of a loop's index cursor in the statistics: the first use as a created
    /// cursor, each further use as a rearmed cursor.
    pub(super) fn count_cursor(&mut self, out: Register) {
        if self.cursors.insert(out) {
            self.stats.cursors_created += 1;
        } else {
            self.stats.cursors_rearmed += 1;
        }
    }
}

/// Returns the key in an `_id`; `None` if the `_id` belongs to another collection.
fn key_of_id<'a>(id: &'a str, collection: &Collection) -> Option<&'a str> {
    id.strip_prefix(collection.name.as_str())?.strip_prefix('/')
}
