//! Finds the documents that contain a text to forget only across the borders of their chunks.

use super::executor::Executor;
use crate::store;
use vctx_core::error::Result;
use vctx_core::search::borders::Borders;
use vctx_core::trust::Scope;

impl Executor {
    /// Returns the names of the documents in which a text begins in one chunk and ends in a later
    /// one.
    pub(super) async fn across_chunks(&self, scope: &Scope, text: &str) -> Result<Vec<String>> {
        let mut borders = Borders::of(text);
        let (mut found, mut after) = (Vec::new(), Some((String::new(), -1)));
        // The loop ends, since each page of chunks begins after the previous page.
        while let Some((doc_id, index)) = after {
            let ends = (borders.head_chars(), borders.tail_chars());
            let page = store::chunk_ends(&self.kernel.ro, scope, (&doc_id, index), ends).await?;
            after = page.next;
            for chunk in page.chunks {
                if borders.take(&chunk) {
                    found.push(chunk.doc_id);
                }
            }
        }
        Ok(found)
    }
}
