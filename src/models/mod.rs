//! Models answer and never decide: here token counts, summaries and vectors.

pub mod drift;
mod embedder;
mod gateway;
pub mod lexical;
pub mod local;
mod telegraph;
mod tiktoken;
mod words;

pub use embedder::{Embedder, Embedders, Kind};
pub use gateway::{Gateway, GatewaySettings};
pub use tiktoken::Tiktoken;
