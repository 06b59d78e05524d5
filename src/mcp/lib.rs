//! The tools for MCP clients: JSON-RPC on stdin and stdout or on a Unix socket, bridged to a server's Unix socket; it keeps nothing but what was seen.

mod bridge;
mod catalog;
mod current;
mod listen;
mod needs;
mod prompts;
mod reply;
mod resources;
mod serve;

pub use bridge::{Bridge, Settings};
pub use catalog::listed;
pub use listen::listen;
pub use serve::serve;
