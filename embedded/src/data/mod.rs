//! Writes documents together with all their index entries, and builds, fills and trains indexes.

#[cfg(not(feature = "conformance"))]
mod absent;
mod build;
#[cfg(feature = "conformance")]
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

#[cfg(not(feature = "conformance"))]
use absent as computed;

pub(crate) use build::{build_index, clear_range, empty_collection};
pub(crate) use computed::computed_values;
pub(crate) use drafts::{DraftOutcome, takes_drafts};
pub(crate) use filling::begin_filling;
pub(crate) use training::{Trainer, Training, count_up_to, reset_vector_indexes, too_few};
pub(crate) use ttl::Sweeper;
pub(crate) use validate::{check_rule, schema_fault};
pub(crate) use vector_check::vector_faults;
