//! Geo analyzers, which store whole shapes in segments; a search computes the geo condition for
//! each shape.

use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{Code, Error, Result};
use crate::functions::{Call, Function, Warnings, function};
use crate::syntax::Binary;
use crate::text::properties::texts;
use crate::value::{Object, Value, compare, parse};

/// Converts values to shapes, as a geo analyzer does.
#[derive(Debug)]
pub(in crate::text) struct Shapes {
    /// Paths of latitude and longitude in a value, for analyzers of type `geopoint`; `None` for
    /// GeoJSON.
    pair: Option<[Vec<String>; 2]>,
    /// Whether the geo analyzer indexes only points.
    points: bool,
}

impl Shapes {
    /// Creates the converter of values to shapes for a `geojson`, `geo_s2` or `geopoint` analyzer.
    /// Returns error 9 for an analyzer with the type `centroid`.
    pub(in crate::text) fn new(kind: &str, properties: &Value) -> Result<Self> {
        let pair = (kind == "geopoint")
            .then(|| [texts(properties, "latitude"), texts(properties, "longitude")]);
        match properties.text_of("type") {
            Some("centroid") => Err(Error::unsupported("a geo analyzer of centroids")),
            kind => Ok(Self { pair, points: kind == Some("point") }),
        }
    }

    /// Returns the GeoJSON of a value, if the value is a shape.
    pub(in crate::text) fn of(&self, value: &Value) -> Option<Value> {
        let number = |value: Value| value.is_number().then_some(value);
        let two = |value: &Value| match value.as_array() {
            Some([a, b]) if a.is_number() && b.is_number() => Some((a.clone(), b.clone())),
            _ => None,
        };
        match &self.pair {
            Some([latitude, longitude]) => {
                let (latitude, longitude) = match two(value) {
                    Some(pair) => pair,
                    None if latitude.is_empty() || longitude.is_empty() => return None,
                    None => (number(value.at_path(latitude))?, number(value.at_path(longitude))?),
                };
                Some(point(longitude, latitude))
            }
            None => match two(value) {
                Some((longitude, latitude)) => Some(point(longitude, latitude)),
                None => {
                    let kind = value.text_of("type")?;
                    let held = !value.attribute("coordinates").is_null();
                    (held && (!self.points || kind == "Point")).then(|| value.clone())
                }
            },
        }
    }
}

fn point(longitude: Value, latitude: Value) -> Value {
    let mut out = Object::new();
    out.push_new("type", "Point".into());
    out.push_new("coordinates", vec![longitude, latitude].into());
    Value::object(out)
}

/// A geo condition over a shape: a function whose result must be true, or must fulfil a comparison
/// with a number.
#[derive(Clone, Debug)]
pub(crate) struct GeoTest {
    function: &'static Function,
    arguments: Vec<Value>,
    /// Index of the shape among the function's arguments.
    at: usize,
    bound: Option<(Binary, Value)>,
    fault: Arc<Mutex<Option<Error>>>,
}

impl GeoTest {
    /// Creates a geo condition. `name` is a function name in capitals, and `arguments[at]` is a
    /// placeholder for the shape.
    pub(crate) fn new(
        name: &str,
        arguments: Vec<Value>,
        at: usize,
        bound: Option<(Binary, Value)>,
    ) -> Result<Self> {
        let function = function(name).ok_or_else(|| Error::of(Code::Internal))?;
        Ok(Self { function, arguments, at, bound, fault: Arc::default() })
    }

    /// Whether a stored shape fulfils the condition. If the computation fails, returns false, and
    /// [`Self::check`] returns the error.
    pub(in crate::text) fn holds(&self, token: &str) -> bool {
        self.measure(token).unwrap_or_else(|error| {
            *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            false
        })
    }

    /// Returns the error of the last failed computation of the condition, if any.
    pub(in crate::text) fn check(&self) -> Result<()> {
        let fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner).take();
        fault.map_or(Ok(()), Err)
    }

    fn measure(&self, token: &str) -> Result<bool> {
        let mut arguments = self.arguments.clone();
        arguments[self.at] = parse(token.as_bytes())?;
        let mut warnings = Warnings::default();
        let mut call = Call { name: self.function.name, warnings: &mut warnings };
        let answer = (self.function.run)(&mut call, &arguments)?;
        let Some((operator, bound)) = &self.bound else { return Ok(answer.is_true()) };
        let order = compare(&answer, bound);
        Ok(answer.is_number()
            && match operator {
                Binary::Less => order.is_lt(),
                Binary::LessEqual => order.is_le(),
                Binary::Greater => order.is_gt(),
                Binary::GreaterEqual => order.is_ge(),
                _ => order.is_eq(),
            })
    }
}
