//! Models answer and never decide: here token counts, summaries and vectors.

#[cfg(feature = "local-embedder")]
mod bert;
pub mod chat;
mod composed;
pub mod drift;
mod embedder;
mod endpoint;
mod gateway;
pub mod lexical;
pub mod local;
mod remembered;
mod settings;
mod telegraph;
#[cfg(feature = "local-embedder")]
mod thread;
mod tiktoken;
#[cfg(any(feature = "local-embedder", test))]
mod windows;
mod wire;
mod words;

pub use embedder::{Embedder, Embedders, Kind};
pub use endpoint::EndpointEmbedder;
pub use gateway::{Gateway, GatewaySettings};
pub use remembered::Remembered;
pub use settings::{EmbedderKind, EmbedderSettings};
pub use tiktoken::Tiktoken;
pub use wire::Way;
