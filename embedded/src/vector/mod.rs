//! The arithmetic of vector indexes: distances, centroids and the search for the nearest vectors,
//! without access to the store or the clock.

mod cell;
mod distance;
mod factory;
mod input;
mod kmeans;
mod model;
mod standing;
mod top;

pub(crate) use cell::Cell;
pub(crate) use distance::{closeness, similarity};
pub(crate) use factory::Factory;
pub(crate) use input::{bytes_of, components, key_of, missing, of_document};
pub(crate) use kmeans::train;
pub(crate) use model::Model;
pub(crate) use standing::{Stage, Standing};
pub(crate) use top::{Near, Top};
