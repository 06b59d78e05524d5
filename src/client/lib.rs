//! A client of the vctx API over the server's Unix socket, which the commands, the demo and the
//! load test use.

mod agents;
mod api;
mod connection;
mod documents;
mod exports;
mod feed;
pub mod paths;
mod problem;
mod runs;
pub mod serving;
mod start;
mod traced;

pub use agents::NewAgent;
pub use api::{Appended, Client, MESSAGES_PER_PAGE_MAX, Write};
pub use connection::Settings;
pub use problem::{Fault, Problem};
pub use start::Start;
pub use traced::traced;
