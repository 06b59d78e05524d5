//! The arithmetic of vector indexes: distances, cells and the way to the nearest ones; it knows no store and no clock.

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
pub(crate) use kmeans::{Chance, train};
pub(crate) use model::Model;
pub(crate) use standing::{Stage, Standing};
pub(crate) use top::{Near, Top};
