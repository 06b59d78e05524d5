//! Clients of models, which are asked over a socket for summaries, vectors and answers.

mod cached_embedder;
pub mod chat;
mod endpoint;
mod gateway;
mod limits;
mod settings;
mod wire;

pub use cached_embedder::CachedEmbedder;
pub use endpoint::EndpointEmbedder;
pub use gateway::{Gateway, GatewaySettings, Summarised, echoes};
pub use limits::ALL as LIMITS;
pub use settings::{EmbedderKind, EmbedderSettings};
pub use vctx_base::embedder::{Embedder, Embedders, Kind};
pub use wire::Way;
