//! Chunks of documents: the evidence that their vectors were made in the light of the whole document.

mod evidence;

pub use evidence::{LateChunking, Mode, Naive, Offered, Pooling, check};
