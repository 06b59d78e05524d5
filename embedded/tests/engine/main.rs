//! The engine as a library: transactions, queries, texts, vectors and what a rewrite leaves.

mod engine;
mod queries;
mod rewrite;
mod scripts;
mod text;
mod transactions;
mod vectors;
