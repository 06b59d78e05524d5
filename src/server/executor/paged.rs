//! Reads a page of rows in steps, so that a page of long texts ends before it needs much memory.

use crate::limits::PAGE_BYTES_MAX;
use vctx_core::error::Result;

/// A step reads at most this many times as many rows as the step before.
const STEP_GROWTH: u64 = 4;

/// A page of rows.
pub(super) struct Page<R> {
    /// The rows.
    pub(super) rows: Vec<R>,
    /// The number with which the next page begins, if there may be one.
    pub(super) next: Option<u64>,
}

/// Reads up to `limit` rows from the number `from` on, `first` of them in the first step. `measure`
/// returns the number of a row and the length of its texts in bytes; `read` gets the first number
/// and the number of rows of a step. The page ends when its texts are longer than
/// [`PAGE_BYTES_MAX`].
pub(super) async fn paged<R, F: Future<Output = Result<Vec<R>>>>(
    mut from: u64,
    limit: u64,
    first: u64,
    measure: impl Fn(&R) -> (u64, usize),
    read: impl Fn(u64, u64) -> F,
) -> Result<Page<R>> {
    let (mut rows, mut used, mut step) = (Vec::new(), 0, first);
    loop {
        let count = step.min(limit - rows.len() as u64);
        let more = read(from, count).await?;
        let full = more.len() as u64 == count;
        for (number, bytes) in more.iter().map(&measure) {
            from = number + 1;
            used += bytes as u64;
        }
        rows.extend(more);
        if !full || rows.len() as u64 == limit || used >= PAGE_BYTES_MAX {
            return Ok(Page { rows, next: full.then_some(from) });
        }
        // The next rows are probably as long as these.
        let average = (used / rows.len() as u64).max(1);
        step = ((PAGE_BYTES_MAX - used) / average).clamp(1, step * STEP_GROWTH);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Reads rows of the given length; returns the steps, the number of rows, and the
    /// beginning of the next page.
    async fn steps(total: u64, length: u64, limit: u64) -> (Vec<u64>, usize, Option<u64>) {
        let steps = RefCell::default();
        let read = |from: u64, count: u64| {
            let rows: Vec<u64> = (from..=total).take(count as usize).collect();
            RefCell::<Vec<u64>>::borrow_mut(&steps).push(rows.len() as u64);
            std::future::ready(Ok(rows))
        };
        let measure = |row: &u64| (*row, length as usize);
        let page = paged(1, limit, 2, measure, read).await.expect("no error");
        (steps.take(), page.rows.len(), page.next)
    }

    #[tokio::test]
    async fn a_page_ends_at_its_limit_at_its_bytes_or_with_the_rows() {
        let long = PAGE_BYTES_MAX;
        for (total, length, limit, expected) in [
            (100, 10, 20, (vec![2, 8, 10], 20, Some(21))),
            (20, 10, 20, (vec![2, 8, 10], 20, Some(21))),
            (19, 10, 20, (vec![2, 8, 9], 19, None)),
            (0, 10, 20, (vec![0], 0, None)),
            (100, 10, 1, (vec![1], 1, Some(2))),
            (100, long, 20, (vec![2], 2, Some(3))),
            (100, long / 3, 20, (vec![2, 1, 1], 4, Some(5))),
            (100, long / 10, 1_000, (vec![2, 8, 1], 11, Some(12))),
        ] {
            let found = steps(total, length, limit).await;
            assert_eq!(found, expected, "{total} rows of {length} bytes, limit {limit}");
        }
    }
}
