//! Encodes values and keys as bytes.
//!
//! The public functions are those that `fuzz/` calls.

#[cfg(test)]
mod bent;
mod document;
mod draft;
mod key;
mod space;
mod text;

pub(crate) use document::{Record, is_end, is_head, is_too_deep};
pub use document::{decode_value, encode_value};
pub(crate) use draft::{Draft, Drafts};
pub(crate) use key::encode_ordered_text;
pub use key::{encode_ordered, successor};
pub(crate) use space::{
    Key, Mark, Space, document_key, list_of_key, list_of_value, local_id_of_key, local_id_of_value,
    vector_list_of_key,
};
