//! The thinking half of vctx: values, decisions and texts. It has no clock, socket, file or `async`.

pub mod chunk;
pub mod clock;
pub mod context;
pub mod conveyance;
pub mod dialect;
pub mod error;
pub mod ids;
pub mod limits;
pub mod memory;
pub mod openai;
pub mod policy;
pub mod text;
pub mod tools;
