//! Geo analyzers: shapes of documents are held whole, and a condition measures each of them.

use std::sync::{Arc, Mutex, PoisonError};

use super::properties::texts;
use crate::error::{Code, Error, Result};
use crate::functions::{Call, Function, Warnings, function};
use crate::syntax::Binary;
use crate::value::{Object, Value, compare, parse};

/// How a value becomes a shape.
#[derive(Debug)]
pub(super) struct Shapes {
    /// Paths of latitude and longitude of a geopoint that is an object; None for GeoJSON.
    pair: Option<[Vec<String>; 2]>,
    /// Whether only points are held.
    points: bool,
}

impl Shapes {
    /// Of a `geojson`, `geo_s2` or `geopoint` analyzer; 501 for what needs centroids.
    pub(super) fn new(kind: &str, properties: &Value) -> Result<Self> {
        let pair = (kind == "geopoint")
            .then(|| [texts(properties, "latitude"), texts(properties, "longitude")]);
        match properties.text_of("type") {
            Some("centroid") => Err(Error::unsupported("a geo analyzer of centroids")),
            kind => Ok(Self { pair, points: kind == Some("point") }),
        }
    }

    /// The GeoJSON of a value, if it is a shape.
    pub(super) fn of(&self, value: &Value) -> Option<Value> {
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

/// A condition over a shape: a function of it that is true, or whose answer compares so with a number.
#[derive(Clone, Debug)]
pub(crate) struct GeoTest {
    function: &'static Function,
    arguments: Vec<Value>,
    /// Where among the arguments the shape stands.
    at: usize,
    bound: Option<(Binary, Value)>,
    fault: Arc<Mutex<Option<Error>>>,
}

impl GeoTest {
    /// Of a function in capitals, its arguments with anything where the shape stands, and a bound.
    pub(crate) fn new(
        name: &str,
        arguments: Vec<Value>,
        at: usize,
        bound: Option<(Binary, Value)>,
    ) -> Result<Self> {
        let function = function(name).ok_or_else(|| Error::of(Code::Internal))?;
        Ok(Self { function, arguments, at, bound, fault: Arc::default() })
    }

    /// Whether a shape as it is held fulfils the condition. What cannot be measured does not; [`Self::check`] tells of it.
    pub(super) fn holds(&self, token: &str) -> bool {
        self.measure(token).unwrap_or_else(|error| {
            *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            false
        })
    }

    /// The fault that a measurement met.
    pub(super) fn check(&self) -> Result<()> {
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
