//! Tests the engine as a library: transactions, queries, texts, vectors and rewrites.

mod engine;
mod queries;
mod rewrite;
mod scripts;
mod text;
mod transactions;
mod vectors;
