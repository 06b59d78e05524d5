//! Vectors out of documents and queries: what is refused, and what becomes of the rest.

use std::fmt;

use crate::error::{Code, Error, Result};
use crate::schema::{Index, Metric, VectorParams};
use crate::value::{Object, Value};

/// Greatest squared length: the distance of two such vectors is still a finite f32.
const SQUARED_LENGTH_MAX: f64 = f32::MAX as f64 / 4.0;

/// Why a value is no vector of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// No list.
    NoList,
    /// A list of another length.
    Length { given: usize, wanted: usize },
    /// An item is no number.
    NoNumber,
    /// It is too long for f32.
    TooLarge,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoList => f.write_str("a vector must be an array of numbers"),
            Self::Length { given, wanted } => {
                write!(f, "the vector has {given} components, the index is for {wanted}")
            }
            Self::NoNumber => f.write_str("a component of the vector is no number"),
            Self::TooLarge => f.write_str("the vector is too long for single precision"),
        }
    }
}

/// The components of a vector in f32, of length one if the metric compares directions (and there is one).
pub(crate) fn components(
    value: &Value,
    params: &VectorParams,
) -> std::result::Result<Vec<f32>, Refused> {
    let items = value.as_array().ok_or(Refused::NoList)?;
    let wanted = params.dimension as usize;
    if items.len() != wanted {
        return Err(Refused::Length { given: items.len(), wanted });
    }
    let mut components = Vec::with_capacity(wanted);
    for item in items {
        // What f32 cannot hold becomes infinite here and is too large below.
        components.push(item.as_f64().ok_or(Refused::NoNumber)? as f32);
    }
    let squared: f64 = components.iter().map(|x| f64::from(*x) * f64::from(*x)).sum();
    if squared > SQUARED_LENGTH_MAX {
        return Err(Refused::TooLarge);
    }
    // A vector of zeros has no direction; as with Faiss it stays what it is, and is as far from everything.
    if params.metric == Metric::Cosine && squared > 0.0 {
        let length = squared.sqrt();
        components.iter_mut().for_each(|x| *x = (f64::from(*x) / length) as f32);
    }
    Ok(components)
}

/// The vector of a document that is about to be written: none if a sparse index may do without it, 10 if it is missing,
/// 17 if it is anything but a vector of the index (null too). `key` is for the message.
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
            Refused::NoList => format!("array expected for vector attribute for document {key}"),
            Refused::Length { given, wanted } => format!(
                "provided vector is not of matching dimension for document {key}, index dimension: {wanted}, document dimension: {given}"
            ),
            Refused::NoNumber => {
                format!("vector contains data not representable as double for document {key}")
            }
            Refused::TooLarge => format!("{why}, document {key}"),
        };
        Error::new(Code::TypeError, text)
    })
}

/// 10: a document that should have a vector and has none.
pub(crate) fn missing(key: &str) -> Error {
    Error::new(Code::BadParameter, format!("vector field not present in document {key}"))
}

/// The key of a document that has it among its attributes.
pub(crate) fn key_of(document: &Object) -> &str {
    document.get("_key").and_then(Value::as_str).unwrap_or_default()
}

/// The value of a path, if each part of it is there; null is a value.
fn at<'a>(document: &'a Object, path: &[String]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    let mut value = document.get(first)?;
    for name in rest {
        value = value.as_object()?.get(name)?;
    }
    Some(value)
}

/// Components as they are stored: four bytes each, the smallest byte first.
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
