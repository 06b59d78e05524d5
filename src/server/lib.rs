//! The acting half of vctx: it answers calls, keeps memories in ArangoDB, asks models and works in the background.

pub mod agent_loop;
pub mod databases;
pub mod dispatch;
pub mod doctor;
pub mod executor;
pub mod http;
pub mod jobs;
pub mod models;
pub mod pulse;
pub mod startup;
pub mod store;
