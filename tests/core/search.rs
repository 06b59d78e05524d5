//! Tests of search: parsed queries, lists of vector indexes, pages, and the ranking of results.

mod archive;
mod lists;
mod nearest;
mod page;
mod query;
mod rank;
mod recall;
mod values;
