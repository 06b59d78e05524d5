//! The rules of the house, read from its own sources: floors, plates, twins of AQL and functions, bans, crates, golden files.

mod bans;
mod crates;
mod deploy;
mod doctor;
mod floors;
mod golden;
mod layout;
#[path = "../it/needs.rs"]
mod needs;
mod plates;
mod shapes;
mod sources;
mod tree;
mod twins;
mod units;
