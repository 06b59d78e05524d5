//! A BERT model in this process as an embedder.

mod bert;
mod thread;
mod windows;

pub use thread::LocalEmbedder;
