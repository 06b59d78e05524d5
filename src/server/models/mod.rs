//! Clients of models, which are asked for summaries, vectors and answers at the servers that the
//! configuration names.

mod address;
mod cached_embedder;
pub mod chat;
mod download;
mod endpoint;
mod gateway;
mod limits;
mod outbound;
mod providers;
mod reranker;
mod roles;
mod settings;
mod task_model;
mod tls;
mod wire;

pub use address::{Address, AddressSettings};
pub use cached_embedder::CachedEmbedder;
pub use download::{DownloadFault, download};
pub use endpoint::EndpointEmbedder;
pub use gateway::{Gateway, Summarised, echoes};
pub use limits::ALL as LIMITS;
pub use outbound::{CHAT, EMBEDDER, EMBEDDER_NEXT, ModelServer, SUMMARISER};
pub use providers::{PROVIDERS, Provider};
pub use roles::{RoleModels, RoleSettings, role_key, role_section};
pub use settings::{
    EMBEDDER_KEY, EMBEDDER_NEXT_KEY, EmbedderKind, EmbedderSettings, INSTALLED_MODEL, MODEL_FILES,
    installed_dir,
};
pub use task_model::{SUMMARISER_KEY, TaskModelSettings};
pub use vctx_base::embedder::{Embedder, Embedders, Kind};
pub use wire::{Key, Way};
