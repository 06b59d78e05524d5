//! Text search: what the views of a database hold, how it is kept in segments, and how a SEARCH finds and scores it.

mod analyzer;
mod aql;
mod best;
mod collation;
mod definition;
mod entries;
mod geo;
mod highlight;
mod link;
mod matcher;
mod minhash;
mod ngram;
mod normal;
mod pending;
mod phrase;
mod properties;
mod query;
mod reader;
mod score;
mod segments;
mod terms;
mod tokens;
mod view;
mod views;

pub(crate) use analyzer::{Analysis, basic, built_in, check_kind, find};
pub(crate) use definition::{check, check_index, definitions};
pub(crate) use geo::GeoTest;
pub(crate) use highlight::{Rule, offsets};
pub(crate) use link::{IndexField, index_fields};
pub(crate) use ngram::{in_order, least};
pub(crate) use properties::normalized;
pub(crate) use query::{Choice, Edits, Field, Part, Query};
pub(crate) use reader::{Hit, Hits};
pub(crate) use score::{BM25_DEFAULTS, Scoring};
pub(crate) use terms::Segment;
pub(crate) use views::Views;
