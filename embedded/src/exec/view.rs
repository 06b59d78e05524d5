//! Runs loops over views: searches the segments and loads the found documents. If the query needs
//! only the best documents, only those are loaded.

use std::collections::BTreeSet;

use super::executor::{Executor, Flow, Pass};
use crate::error::{Code, Error, Result};
use crate::expr::{Expr, Register, Row, eval};
use crate::plan::{BestRows, ScorerKind, UsedView, ViewScorer};
use crate::text::{BM25_DEFAULTS, Hit, Hits, Query, Rule, Scoring, offsets};
use crate::value::Value;

/// Number of found documents in a loop's first batch, small because a query may need few documents.
/// Each further batch is four times as large.
const FIRST_BATCH: usize = 16;
/// Maximum number of found documents in one batch.
const BATCH_MAX: usize = 1024;

/// A loop over a view, with the evaluated SEARCH and the match offsets that the query needs.
struct ViewLoop<'q> {
    used: &'q UsedView,
    query: Query,
    offsets: Vec<(Vec<Rule>, Register)>,
}

impl<'q> Executor<'q> {
    /// Sends each document found by a view to the node that follows the loop in the plan.
    pub(super) fn view(
        &mut self,
        pass: &mut Pass<'q>,
        at: usize,
        row: &mut Row,
        number: usize,
    ) -> Result<Flow> {
        let used = &self.plan.views[number];
        let query = self.query(&used.search, row)?;
        let scorings = used
            .scorers
            .iter()
            .map(|scorer| self.scoring(scorer, row))
            .collect::<Result<Vec<_>>>()?;
        let only = used.only.as_ref().map(|names| self.numbers(used, names));
        if used.wait_for_sync {
            self.transaction.drain_view(&used.stores)?;
        }
        let hits = self.transaction.search_view(&used.stores, &query, &scorings, only)?;
        let offsets = used.offsets.iter().map(|(paths, out)| {
            let paths = eval(paths, row, self.binds, self)?;
            Ok((Rule::all(&paths)?, *out))
        });
        let offsets = offsets.collect::<Result<Vec<_>>>()?;
        let looped = ViewLoop { used, query, offsets };
        match &used.best {
            Some(best) if pass.counting.is_none() => {
                let wanted = self.limit_number(&best.offset, row)?;
                let wanted = wanted.saturating_add(self.limit_number(&best.count, row)?);
                self.best(pass, at, row, &looped, hits, best, wanted)
            }
            _ => self.any(pass, at, row, &looped, hits),
        }
    }

    fn any(
        &mut self,
        pass: &mut Pass<'q>,
        at: usize,
        row: &mut Row,
        looped: &ViewLoop<'q>,
        mut hits: Hits,
    ) -> Result<Flow> {
        let mut batch = FIRST_BATCH;
        loop {
            let page = hits.next(batch)?;
            if page.is_empty() {
                return Ok(Flow::More);
            }
            for hit in page {
                let Some(document) = self.load_hit(looped.used, &hit)? else { continue };
                if self.found(pass, at, row, looped, &hit, document)? == Flow::Enough {
                    return Ok(Flow::Enough);
                }
            }
            batch = (batch * 4).min(BATCH_MAX);
        }
    }

    /// Sends only the rows that a SORT by score with a LIMIT needs: those with the best scores. If
    /// the SORT has further keys, also sends the rows whose score equals that of the last needed
    /// row.
    #[allow(clippy::too_many_arguments, reason = "a step of one loop")]
    fn best(
        &mut self,
        pass: &mut Pass<'q>,
        at: usize,
        row: &mut Row,
        looped: &ViewLoop<'q>,
        mut hits: Hits,
        rows: &BestRows,
        wanted: u64,
    ) -> Result<Flow> {
        if wanted == 0 {
            return Ok(Flow::More);
        }
        let mut held = 0;
        let mut left = wanted;
        let mut last = f32::INFINITY;
        let scorer = rows.scorer;
        let mut batch = usize::try_from(wanted).unwrap_or(BATCH_MAX).min(BATCH_MAX);
        loop {
            let budget = &mut self.budget;
            let page = hits.next_best(scorer, batch, rows.ties, &mut |bytes| {
                budget.look()?;
                held += bytes as u64;
                budget.hold(bytes)
            })?;
            if page.is_empty() {
                self.budget.let_go(held);
                return Ok(Flow::More);
            }
            for hit in page {
                let score = hit.scores[scorer];
                if left == 0 && score < last {
                    self.budget.let_go(held);
                    return Ok(Flow::More);
                }
                let Some(document) = self.load_hit(looped.used, &hit)? else { continue };
                if left > 0 {
                    left -= 1;
                    last = score;
                }
                if self.found(pass, at, row, looped, &hit, document)? == Flow::Enough {
                    self.budget.let_go(held);
                    return Ok(Flow::Enough);
                }
                if left == 0 && !rows.ties {
                    self.budget.let_go(held);
                    return Ok(Flow::More);
                }
            }
            batch = (batch * 4).clamp(FIRST_BATCH, BATCH_MAX);
        }
    }

    /// Loads a document that the search found; returns `None` if the document was removed or
    /// changed after the view indexed it.
    fn load_hit(&mut self, used: &UsedView, hit: &Hit) -> Result<Option<Value>> {
        self.stats.scanned_index += 1;
        self.stats.document_lookups += 1;
        self.budget.row()?;
        let collections = used.collections.iter().map(|at| &self.plan.collections[*at].collection);
        let mut collections = collections;
        let Some(collection) = collections.find(|collection| collection.id == hit.collection)
        else {
            return Ok(None);
        };
        self.transaction.get_found(collection, hit.local, hit.revision)
    }

    fn found(
        &mut self,
        pass: &mut Pass<'q>,
        at: usize,
        row: &mut Row,
        looped: &ViewLoop<'q>,
        hit: &Hit,
        document: Value,
    ) -> Result<Flow> {
        let used = looped.used;
        for (rules, out) in &looped.offsets {
            row[*out] = offsets(&looped.query, &document, rules);
        }
        row[used.out] = document;
        for (scorer, score) in used.scorers.iter().zip(&hit.scores) {
            // The score is null if a boost makes it exceed the range of single precision.
            row[scorer.out] = Value::finite(f64::from(*score)).unwrap_or_default();
        }
        self.push(pass, at + 1, row)
    }

    fn numbers(&self, used: &UsedView, names: &[String]) -> BTreeSet<u64> {
        let collections = used.collections.iter().map(|at| &self.plan.collections[*at].collection);
        collections
            .filter(|collection| names.contains(&collection.name))
            .map(|collection| collection.id)
            .collect()
    }

    fn scoring(&mut self, scorer: &ViewScorer, row: &mut Row) -> Result<Scoring> {
        let arguments = &scorer.arguments;
        match scorer.kind {
            ScorerKind::Bm25 => {
                let k = self.factor(arguments.first(), BM25_DEFAULTS.0, row)?;
                Ok(Scoring::Bm25 { k, b: self.factor(arguments.get(1), BM25_DEFAULTS.1, row)? })
            }
            ScorerKind::Tfidf => {
                let normalize = match arguments.first() {
                    None => false,
                    Some(value) => match eval(value, row, self.binds, self)? {
                        Value::Bool(normalize) => normalize,
                        other => return Err(bad_argument("TFIDF", &other)),
                    },
                };
                Ok(Scoring::Tfidf { normalize })
            }
        }
    }

    fn factor(&mut self, value: Option<&Expr>, default: f32, row: &mut Row) -> Result<f32> {
        let Some(value) = value else { return Ok(default) };
        let value = eval(value, row, self.binds, self)?;
        match value.as_f64() {
            Some(number) if number >= 0.0 => Ok(number as f32),
            _ => Err(bad_argument("BM25", &value)),
        }
    }
}

fn bad_argument(function: &str, value: &Value) -> Error {
    let text = format!("{function}() cannot be called with {}", value.to_json());
    Error::new(Code::BadParameter, text)
}
