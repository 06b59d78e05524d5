//! Loops over views: what the segments find is loaded through the transaction, the best first where that is enough.

use std::collections::BTreeSet;

use super::executor::{Executor, Flow, Pass};
use crate::error::{Code, Error, Result};
use crate::expr::{Expr, Register, Row, eval};
use crate::plan::{BestRows, ScorerKind, UsedView, ViewScorer};
use crate::text::{BM25_DEFAULTS, Hit, Hits, Query, Rule, Scoring, Segment, offsets};
use crate::value::Value;

/// Hits read at first, so that an early end costs little; each further batch is four times as large.
const FIRST_BATCH: usize = 16;
/// Hits read at once.
const BATCH_MAX: usize = 1024;

/// A loop with its values: what it looks for, and which offsets are asked for.
struct Looped<'q> {
    used: &'q UsedView,
    query: Query,
    offsets: Vec<(Vec<Rule>, Register)>,
}

impl<'q> Executor<'q> {
    /// Sends each document that a view finds down from behind the loop.
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
            Ok((rules(&paths)?, *out))
        });
        let offsets = offsets.collect::<Result<Vec<_>>>()?;
        let looped = Looped { used, query, offsets };
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
        looped: &Looped<'q>,
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

    /// The rows that a SORT by the score with a LIMIT behind it can want: so many, and where the SORT has more keys all that
    /// score as the last one.
    #[allow(clippy::too_many_arguments, reason = "a step of one loop")]
    fn best(
        &mut self,
        pass: &mut Pass<'q>,
        at: usize,
        row: &mut Row,
        looped: &Looped<'q>,
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

    /// The document of a hit, unless it is gone or another one by now.
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
        looped: &Looped<'q>,
        hit: &Hit,
        document: Value,
    ) -> Result<Flow> {
        let used = looped.used;
        for (rules, out) in &looped.offsets {
            row[*out] = offsets(&looped.query, &document, rules);
        }
        row[used.out] = document;
        for (scorer, score) in used.scorers.iter().zip(&hit.scores) {
            // A boost beyond single precision leaves no number.
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

/// What `OFFSET_INFO` is asked for: a path, several, or objects with a path and bounds.
fn rules(given: &Value) -> Result<Vec<Rule>> {
    /// Offsets of one path unless the call says otherwise (ArangoDB).
    const OFFSETS: usize = 10;
    let items = match given {
        Value::Array(items) => items.to_vec(),
        one => vec![one.clone()],
    };
    let rule = |item: &Value| {
        let name = item.as_str().or_else(|| item.text_of("name"));
        let path = name.and_then(path_of).ok_or_else(|| bad_argument("OFFSET_INFO", item))?;
        let options = item.attribute("options");
        let limits = options.attribute("limits");
        let bound = |of: &Value, name: &str, default: usize| match of.attribute(name) {
            Value::Null => Ok(default),
            value => value
                .as_f64()
                .filter(|number| *number >= 0.0)
                .map(|number| number as usize)
                .ok_or_else(|| bad_argument("OFFSET_INFO", item)),
        };
        Ok(Rule {
            path,
            max: bound(&options, "maxOffsets", OFFSETS)?,
            terms_max: bound(&limits, "term", usize::MAX)?,
            phrases_max: bound(&limits, "phrase", usize::MAX)?,
            ngrams_max: bound(&limits, "ngram", usize::MAX)?,
        })
    };
    items.iter().map(rule).collect()
}

/// `a.b[1].c`
fn path_of(text: &str) -> Option<Vec<Segment>> {
    let mut path = Vec::new();
    for part in text.split('.') {
        let (name, items) = match part.find('[') {
            Some(at) => part.split_at(at),
            None => (part, ""),
        };
        if name.is_empty() {
            return None;
        }
        path.push(Segment::Name(name.into()));
        for item in items.split_inclusive(']') {
            let place = item.strip_prefix('[')?.strip_suffix(']')?;
            path.push(Segment::Item(place.parse().ok()?));
        }
    }
    Some(path)
}

fn bad_argument(function: &str, value: &Value) -> Error {
    let text = format!("{function}() cannot be called with {}", value.to_json());
    Error::new(Code::BadParameter, text)
}
