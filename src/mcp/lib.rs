//! Serves the memory tools to MCP clients (JSON-RPC on stdin and stdout or on a Unix socket), and
//! calls a vctx server on the server's Unix socket.
//!
//! A connection keeps no other state than the revisions that it saw last.

mod bridge;
mod catalog;
mod current;
mod limits;
mod listen;
mod needs;
mod prompts;
mod reply;
mod resources;
mod serve;
mod transport;

pub use bridge::{Bridge, Settings};
pub use catalog::listed;
pub use limits::ALL as LIMITS;
pub use listen::listen;
pub use serve::serve;
