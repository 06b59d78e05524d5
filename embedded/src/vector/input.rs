//! Checks vectors of documents and queries, and converts them to f32.

use std::fmt;

use crate::error::{Code, Error, Result};
use crate::schema::{Index, Metric, VectorParams};
use crate::value::{Object, Value};

/// Maximum squared norm of a vector, so that the squared distance of two vectors is a finite f32.
const SQUARED_LENGTH_MAX: f64 = f32::MAX as f64 / 4.0;

/// The reason why a value is not a valid vector for an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VectorFault {
    /// The value is not a list.
    NoList,
    /// The list does not have as many items as the index's vectors.
    Length { given: usize, wanted: usize },
    /// An item of the list is not a number.
    NoNumber,
    /// The vector's norm is too large for single precision.
    TooLarge,
}

impl fmt::Display for VectorFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoList => f.write_str("a vector must be an array of numbers"),
            Self::Length { given, wanted } => {
                write!(f, "the vector has {given} components, the index is for {wanted}")
            }
            Self::NoNumber => f.write_str("a component of the vector is not a number"),
            Self::TooLarge => f.write_str("the vector's norm is too large for single precision"),
        }
    }
}

/// Returns the components of a vector as f32; for the metric cosine, the vector is normalised to
/// the norm 1.
pub(crate) fn components(
    value: &Value,
    params: &VectorParams,
) -> std::result::Result<Vec<f32>, VectorFault> {
    let items = value.as_array().ok_or(VectorFault::NoList)?;
    let wanted = params.dimension as usize;
    if items.len() != wanted {
        return Err(VectorFault::Length { given: items.len(), wanted });
    }
    let mut components = Vec::with_capacity(wanted);
    for item in items {
        // A number too large for f32 becomes infinite; the check of the norm below then refuses the
        // vector.
        components.push(item.as_f64().ok_or(VectorFault::NoNumber)? as f32);
    }
    let squared: f64 = components.iter().map(|x| f64::from(*x) * f64::from(*x)).sum();
    if squared > SQUARED_LENGTH_MAX {
        return Err(VectorFault::TooLarge);
    }
    // A zero vector has no direction. As in Faiss, it stays unchanged, and has the same closeness
    // to every vector.
    if params.metric == Metric::Cosine && squared > 0.0 {
        let length = squared.sqrt();
        components.iter_mut().for_each(|x| *x = (f64::from(*x) / length) as f32);
    }
    Ok(components)
}

/// Returns the vector of a written document, or `None` if it has none and the index is sparse.
/// Returns error 10 if a vector is missing, or 17 for a value (also null) that is not a valid
/// vector. The document key `key` is used in the error message.
pub(crate) fn of_document(
    index: &Index,
    params: &VectorParams,
    key: &str,
    document: &Object,
) -> Result<Option<Vec<f32>>> {
    let Some(value) = at(document, index.fields.first().map_or(&[], Vec::as_slice)) else {
        if index.sparse {
            return Ok(None);
        }
        return Err(missing(key));
    };
    components(value, params).map(Some).map_err(|why| {
        let text = match why {
            VectorFault::NoList => format!("array expected for vector attribute for document {key}"),
            VectorFault::Length { given, wanted } => format!(
                "provided vector is not of matching dimension for document {key}, index dimension: {wanted}, document dimension: {given}"
            ),
            VectorFault::NoNumber => {
                format!("vector contains data not representable as double for document {key}")
            }
            VectorFault::TooLarge => format!("{why}, document {key}"),
        };
        Error::new(Code::TypeError, text)
    })
}

/// Returns error 10 for a document without the required vector.
pub(crate) fn missing(key: &str) -> Error {
    Error::new(Code::BadParameter, format!("vector field not present in document {key}"))
}

/// Returns the document key from a document's attributes.
pub(crate) fn key_of(document: &Object) -> &str {
    document.get("_key").and_then(Value::as_str).unwrap_or_default()
}

/// Returns the value at a path, which may be null, or `None` if an attribute of the path is
/// missing.
fn at<'a>(document: &'a Object, path: &[String]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    let mut value = document.get(first)?;
    for name in rest {
        value = value.as_object()?.get(name)?;
    }
    Some(value)
}

/// Encodes components as four bytes each, little-endian.
pub(crate) fn bytes_of(components: &[f32]) -> Vec<u8> {
    components.iter().flat_map(|x| x.to_le_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::parse;

    #[test]
    fn only_vectors_of_the_index_are_taken() {
        let table = [
            ("[3,4]", "[0.6, 0.8] [3.0, 4.0]"),
            ("[3e30,4e30]", "TooLarge TooLarge"),
            ("[1e300,0]", "TooLarge TooLarge"),
            ("[1e-30,0]", "[1.0, 0.0] [1e-30, 0.0]"),
            ("[1e-300,0]", "[0.0, 0.0] [0.0, 0.0]"),
            ("[0,0]", "[0.0, 0.0] [0.0, 0.0]"),
            ("[1]", "Length { given: 1, wanted: 2 } Length { given: 1, wanted: 2 }"),
            ("[1,2,3]", "Length { given: 3, wanted: 2 } Length { given: 3, wanted: 2 }"),
            (r#"[1,"2"]"#, "NoNumber NoNumber"),
            ("[1,null]", "NoNumber NoNumber"),
            ("null", "NoList NoList"),
            (r#"{"0":1}"#, "NoList NoList"),
        ];
        for (text, expected) in table {
            let value = parse(text.as_bytes()).expect(text);
            let shown = |metric| {
                let params = VectorParams { metric, dimension: 2, ..VectorParams::of_cells(1) };
                components(&value, &params)
                    .map_or_else(|why| format!("{why:?}"), |made| format!("{made:?}"))
            };
            assert_eq!(
                format!("{} {}", shown(Metric::Cosine), shown(Metric::L2)),
                expected,
                "{text}"
            );
        }
    }
}
