//! Dialects: other names, schemas and formats for this server's tools.

mod anthropic;
mod calendar;
mod format;
mod memgpt;
mod offer;
mod strict;
mod translate;
mod ues;

pub use anthropic::MEMORY;
pub use format::{Format, Profile};
pub use offer::{ALL_TOOLS, Dialect, OfferedTool, offered, without_descriptions};
pub use translate::{Translated, check_tool, translate, understood};
