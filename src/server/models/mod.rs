//! Models answer and never decide: here summaries, vectors and chat over a socket.

pub mod chat;
mod endpoint;
mod gateway;
mod remembered;
mod settings;
mod wire;

pub use endpoint::EndpointEmbedder;
pub use gateway::{Gateway, GatewaySettings};
pub use remembered::Remembered;
pub use settings::{EmbedderKind, EmbedderSettings};
pub use vctx_base::embedder::{Embedder, Embedders, Kind};
pub use wire::Way;
