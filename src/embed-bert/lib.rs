//! Runs a BERT model in this process as an embedder. The program contains this module only if it is
//! built with the feature `local-embedder`.

mod bert;
mod thread;
mod windows;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use vctx_base::embedder::{Embedder, offer_model};
use vctx_core::error::Result;

/// Loads the model in a directory and starts the model's thread; a query waits no longer than
/// `limit` for its vector.
///
/// Fails if the directory contains no usable BERT model; the error says why.
pub fn load(directory: &Path, name: &str, limit: Duration) -> Result<Arc<dyn Embedder>> {
    Ok(Arc::new(thread::LocalEmbedder::start(directory, name, limit)?))
}

/// Registers `load` as the function that loads models for `embedder.kind = "local"`.
pub fn offer() {
    offer_model(load);
}
