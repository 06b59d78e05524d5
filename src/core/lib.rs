//! The pure logic of vctx (values, decisions and texts), without clock, socket, file or `async`.

pub mod anthropic;
pub mod bound;
pub mod chunk;
pub mod clock;
pub mod context;
pub mod conveyance;
pub mod dialect;
pub mod error;
pub mod ids;
pub mod ledger;
pub mod limits;
pub mod memory;
pub mod model_api;
pub mod openai;
pub mod policy;
pub mod proof;
pub mod search;
pub mod seeded;
pub mod sha;
pub mod text;
pub mod tools;
pub mod trust;
pub mod window;
