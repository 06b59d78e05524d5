//! AQL functions for bits, geometry and hashes, which no query of this repository calls.

mod bits;
mod geo;
mod hash;

use super::Function;

/// The function tables of this module.
pub(super) const TABLES: [&[Function]; 3] = [bits::TABLE, geo::TABLE, hash::TABLE];
