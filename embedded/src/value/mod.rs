//! AQL values: their casts, order, JSON text and stored form.

mod cast;
mod encoded;
mod json;
mod json_reader;
mod names;
mod number;
mod order;
mod path;
mod value;

pub(crate) use cast::VALUE_BYTES;
pub(crate) use json::{write_escaped, write_escaped_bytes, write_integer};
pub(crate) use json_reader::JsonReader;
pub(crate) use names::shared as shared_name;

pub use cast::leading_integer;
pub use encoded::Encoded;
pub use json::{Sink, write_string, write_text};
pub use json_reader::{JSON_DEPTH_MAX, parse};
pub use number::{double_to_string, parse_number, write_double};
pub use order::{Ordered, compare, equal};
pub use value::{Name, Object, Value};
