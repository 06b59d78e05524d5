//! Text search: what the views of a database hold, how it is kept in segments, and how a SEARCH finds and scores it.

mod analyzer;
mod best;
mod definition;
mod entries;
mod link;
mod matcher;
mod normal;
mod pending;
mod phrase;
mod query;
mod reader;
mod score;
mod segments;
mod terms;
mod view;
mod views;

pub(crate) use analyzer::built_in;
pub(crate) use analyzer::{Analysis, find};
pub(crate) use definition::{check, definitions};
pub(crate) use query::{Choice, Edits, Field, Part, Query};
pub(crate) use reader::{Hit, Hits};
pub(crate) use score::Scoring;
pub(crate) use views::Views;
