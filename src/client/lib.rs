//! Our own API from the outside: one client over the server's Unix socket, used by the commands, the demo and the load test.

mod api;
mod connection;
mod exports;
pub mod paths;
mod problem;
mod runs;
mod start;

pub use api::{Appended, Client, MESSAGES_PER_PAGE_MAX, NewAgent, Write};
pub use connection::Settings;
pub use problem::{Fault, Problem};
pub use start::Start;
