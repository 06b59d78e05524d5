//! A BERT model in this process as an embedder: the feature `local-embedder` of the program.

mod bert;
mod thread;
mod windows;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use vctx_base::embedder::{Embedder, offer_model};
use vctx_core::error::Result;

/// Loads the model in a directory and starts its thread; a question waits no longer than `limit`.
///
/// Errors: what in the directory is no BERT model that can be run.
pub fn load(directory: &Path, name: &str, limit: Duration) -> Result<Arc<dyn Embedder>> {
    Ok(Arc::new(thread::LocalEmbedder::start(directory, name, limit)?))
}

/// Lets `embedder.kind = "local"` load models by this crate.
pub fn offer() {
    offer_model(load);
}
