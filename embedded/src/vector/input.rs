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
    /// All components are zero, and the metric compares directions.
    NoDirection,
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
            Self::NoDirection => f.write_str("a vector of zeros has no direction to compare"),
        }
    }
}

/// The components of a vector in f32, of length one if the metric compares directions.
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
    if params.metric == Metric::Cosine {
        if squared == 0.0 {
            return Err(Refused::NoDirection);
        }
        let length = squared.sqrt();
        components.iter_mut().for_each(|x| *x = (f64::from(*x) / length) as f32);
    }
    Ok(components)
}

/// The vector of a document that is about to be written: none if a sparse index may do without it, 10 if it is missing,
/// 17 if it is anything but a vector of the index (null too).
pub(crate) fn of_document(
    index: &Index,
    params: &VectorParams,
    document: &Object,
) -> Result<Option<Vec<f32>>> {
    let Some(value) = at(document, index.fields.first().map_or(&[], Vec::as_slice)) else {
        if index.sparse {
            return Ok(None);
        }
        let text = format!("vector field not present in document, index: {}", index.name);
        return Err(Error::new(Code::BadParameter, text));
    };
    let refused =
        |why: Refused| Error::new(Code::TypeError, format!("{why}, index: {}", index.name));
    components(value, params).map(Some).map_err(refused)
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
            ("[1e-300,0]", "NoDirection [0.0, 0.0]"),
            ("[0,0]", "NoDirection [0.0, 0.0]"),
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
