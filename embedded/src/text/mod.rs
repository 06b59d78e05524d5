//! Text search: computes what a view indexes, maintains the view's segments, and evaluates and
//! scores a SEARCH.

#[cfg(not(feature = "conformance"))]
mod absent;
mod analyzer;
mod best;
#[cfg(feature = "conformance")]
mod conformance;
mod definition;
mod entries;
mod link;
mod matcher;
mod ngram;
mod normal;
mod pending;
mod phrase;
mod properties;
mod query;
mod reader;
mod remembered;
mod score;
mod segments;
mod terms;
mod tokens;
mod view;
mod views;
mod vocabulary;

#[cfg(not(feature = "conformance"))]
use absent::{self as aql, self as collation, self as geo, self as highlight, self as minhash};
#[cfg(feature = "conformance")]
use conformance::{aql, collation, geo, highlight, minhash};

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
