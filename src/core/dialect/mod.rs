//! The same memory in other words: names, schemas and formats that models and clients already know, as calls of ours.

mod anthropic;
mod calendar;
mod catalog;
mod format;
mod memgpt;
mod offer;
mod strict;
mod translate;

pub use anthropic::MEMORY;
pub use format::Format;
pub use offer::{ALL_TOOLS, Dialect, Offered, offered};
pub use translate::{Translated, check_tool, translate, understood};
