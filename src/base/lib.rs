//! What every acting crate needs from the machine: clock, random ids, Unix sockets, logs, metrics, the service manager.

pub mod clock;
pub mod embedder;
pub mod endpoint;
pub mod ids;
pub mod metric;
pub mod socket;
pub mod sse;
pub mod systemd;
pub mod telemetry;
mod unread;
