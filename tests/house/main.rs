//! Tests that check rules about the sources: layers, file headers, AQL texts, banned words,
//! dependencies, golden files, language.

mod bans;
mod crates;
mod deploy;
mod dialects;
mod doctor;
mod golden;
mod language;
mod layers;
mod layout;
#[path = "../it/needs.rs"]
mod needs;
mod plates;
mod shapes;
mod snippets;
mod sources;
mod stored;
mod tools;
mod tree;
mod twins;
mod units;
mod window;
