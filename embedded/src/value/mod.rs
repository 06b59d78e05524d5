//! AQL values; everything in the engine rests on these.

mod value;

pub use value::{Object, Value};
