//! A document and all its index entries, written together.

mod build;
mod computed;
mod date;
mod drafts;
mod filling;
mod keys;
mod merge;
mod training;
mod ttl;
mod validate;
mod vector_check;
mod vectors;
mod write;

pub(crate) use build::{build_index, clear_range, empty_collection};
pub(crate) use computed::computed_values;
pub(crate) use drafts::{Told, takes_drafts};
pub(crate) use filling::begin_filling;
pub(crate) use training::{Trainer, Training, count_up_to, reset_vector_indexes, too_few};
pub(crate) use ttl::Sweeper;
pub(crate) use validate::{check_rule, schema_fault};
pub(crate) use vector_check::vector_faults;
