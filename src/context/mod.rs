//! The assembled window: a pure function of core and queue, with the receipt that proves what was in it.

mod window;

pub use window::{Window, assemble};
