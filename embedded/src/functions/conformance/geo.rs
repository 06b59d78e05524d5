//! AQL functions that build GeoJSON objects, measure distances between points, and test whether a
//! polygon contains a point. Other geometry is refused.

use crate::error::{Code, Error, Result};
use crate::functions::Call;
use crate::functions::call::number;
use crate::functions::table::{Function, pure};
use crate::value::{Object, Value};

/// The AQL functions that this file implements.
pub(crate) const TABLE: &[Function] = &[
    pure("GEO_POINT", 2, 3, point, "a Point"),
    pure("GEO_MULTIPOINT", 1, 1, |c, a| line(c, a, "MultiPoint"), "a MultiPoint"),
    pure("GEO_LINESTRING", 1, 1, |c, a| line(c, a, "LineString"), "a LineString"),
    pure("GEO_MULTILINESTRING", 1, 1, multi_line, "a MultiLineString"),
    pure("GEO_POLYGON", 1, 1, polygon, "a Polygon"),
    pure("GEO_MULTIPOLYGON", 1, 1, multi_polygon, "a MultiPolygon"),
    pure("DISTANCE", 4, 4, distance, "metres between two pairs of latitude and longitude"),
    pure("GEO_DISTANCE", 2, 3, geo_distance, "metres between two points"),
    pure("GEO_IN_RANGE", 4, 7, geo_in_range, "whether a distance is within bounds"),
    pure("GEO_CONTAINS", 2, 2, |c, a| contains(c, a, true), "whether a polygon holds a point"),
    pure("GEO_INTERSECTS", 2, 2, |c, a| contains(c, a, false), "whether two shapes share a point"),
    pure("IS_IN_POLYGON", 2, 3, in_polygon, "whether a ring holds a point"),
    pure("GEO_EQUALS", 2, 2, |_, _| Err(refused("GEO_EQUALS()")), "refused"),
    pure("GEO_AREA", 1, 2, |_, _| Err(refused("GEO_AREA()")), "refused"),
];

/// Mean radius of the Earth in metres, with ArangoDB's value.
const EARTH_M: f64 = 6_371_000.0;
/// Semi-major axis in metres and flattening of the WGS 84 ellipsoid.
const WGS84: (f64, f64) = (6_378_137.0, 1.0 / 298.257_223_563);
/// Maximum number of iterations for a distance on an ellipsoid; only nearly antipodal points reach
/// it.
const VINCENTY_STEPS_MAX: usize = 1000;

/// Longitude and latitude in degrees.
type Coordinates = (f64, f64);
/// A unit vector.
type Vector = [f64; 3];

fn refused(what: &str) -> Error {
    Error::unsupported(what)
}

fn shape(kind: &str, coordinates: Vec<Value>) -> Value {
    let mut out = Object::new();
    out.insert("type", kind.into());
    out.insert("coordinates", Value::array(coordinates));
    Value::object(out)
}

fn point(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    if a.iter().all(Value::is_number) { Ok(shape("Point", a.to_vec())) } else { call.mistyped() }
}

/// Returns null with warning 1542 and a reason.
fn wrong(call: &mut Call<'_>, reason: &str) -> Result<Value> {
    call.explain(Code::QueryFunctionArgumentTypeMismatch, reason)
}

/// Describes what is wrong with a position, which must be two or three numbers.
fn position_fault(value: &Value) -> Option<&'static str> {
    match value.as_array() {
        None => Some("not an array containing positions"),
        Some(parts) if !(2..=3).contains(&parts.len()) => {
            Some("position definition must contain 2 or 3 components")
        }
        Some(parts) if !parts.iter().all(Value::is_number) => {
            Some("first component is not a numeric value")
        }
        Some(_) => None,
    }
}

fn line(call: &mut Call<'_>, a: &[Value], kind: &str) -> Result<Value> {
    let Some(items) = a[0].as_array() else { return call.no_list() };
    if items.len() < 2 {
        return wrong(call, &format!("a {kind} needs at least two positions"));
    }
    match items.iter().find_map(position_fault) {
        Some(fault) => wrong(call, fault),
        None => Ok(shape(kind, items.to_vec())),
    }
}

fn multi_line(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let Some(lines) = a[0].as_array() else { return call.no_list() };
    if lines.is_empty() {
        return wrong(call, "a MultiLineString needs at least one array of linestrings");
    }
    for line in lines {
        let Some(items) = line.as_array() else {
            return wrong(call, "not an array containing positions");
        };
        if items.len() < 2 {
            return wrong(call, "not an array containing linestrings");
        }
        if let Some(fault) = items.iter().find_map(position_fault) {
            return wrong(call, fault);
        }
    }
    Ok(shape("MultiLineString", lines.to_vec()))
}

/// Returns the rings of a polygon (the argument may also be one ring, not in a list), or a text
/// that says what is wrong.
fn rings(value: &Value) -> std::result::Result<Vec<Value>, &'static str> {
    let items = value.as_array().ok_or("Polygon needs to be an array of positions.")?;
    let bare = items.iter().any(|v| v.as_array().is_some_and(|v| v.len() == 2 && v[0].is_number()));
    let rings = if bare { vec![value.clone()] } else { items.to_vec() };
    for ring in &rings {
        let places = ring.as_array().ok_or("not an array containing positions")?;
        if places.len() < 3 {
            return Err("a Polygon needs at least three positions");
        }
        let numeric = |v: &Value| {
            v.as_array().is_some_and(|v| v.len() >= 2 && v.iter().all(Value::is_number))
        };
        if !places.iter().all(numeric) {
            return Err("not an array containing positions");
        }
        if places.len() < 4 {
            return Err("Invalid loop in polygon, must have at least 4 vertices");
        }
        if places.first() != places.last() {
            return Err("Loop not closed");
        }
    }
    Ok(rings)
}

fn polygon(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    if a[0].as_array().is_none() {
        return call.no_list();
    }
    match rings(&a[0]) {
        Ok(rings) => Ok(shape("Polygon", rings)),
        Err(fault) => wrong(call, fault),
    }
}

fn multi_polygon(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let Some(polygons) = a[0].as_array() else { return call.no_list() };
    if polygons.len() < 2 || polygons.iter().any(|p| p.as_array().is_none()) {
        return wrong(call, "a MultiPolygon needs at least two Polygons inside.");
    }
    let made: std::result::Result<Vec<Vec<Value>>, _> = polygons.iter().map(rings).collect();
    match made {
        Ok(made) => Ok(shape("MultiPolygon", made.into_iter().map(Value::array).collect())),
        Err(fault) => wrong(call, fault),
    }
}

fn distance(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let numbers: Option<Vec<f64>> = a.iter().map(Value::as_f64).collect();
    let Some([lat1, lon1, lat2, lon2]) = numbers.as_deref() else { return call.mistyped() };
    let (height, width) = ((lat2 - lat1).to_radians() / 2.0, (lon2 - lon1).to_radians() / 2.0);
    let (low, high) = (lat1.to_radians(), lat2.to_radians());
    let part = height.sin() * height.sin() + low.cos() * high.cos() * width.sin() * width.sin();
    number(EARTH_M * 2.0 * part.sqrt().atan2((1.0 - part).sqrt()))
}

/// Reads a point from a coordinate pair or a GeoJSON Point; returns a text that says what is wrong
/// if the point is malformed. Other shapes are refused.
fn place(value: &Value) -> Result<std::result::Result<Coordinates, &'static str>> {
    let coordinates = match value {
        Value::Array(_) => value.clone(),
        Value::Object(_) => match value.text_of("type") {
            Some(kind) if kind.eq_ignore_ascii_case("Point") => value.attribute("coordinates"),
            Some(kind) => return Err(refused(&format!("the distance of a {kind}"))),
            None => return Ok(Err("GeoJSON object does not have a type.")),
        },
        _ => return Ok(Err("Invalid GeoJSON Geometry Object.")),
    };
    Ok(match coordinates.as_array() {
        Some([lon, lat, ..]) => match (lon.as_f64(), lat.as_f64()) {
            (Some(lon), Some(lat)) => Ok((lon, lat)),
            _ => Err("Bad coordinates, should be numbers."),
        },
        _ => Err("Require array with at least two elements."),
    })
}

fn vector((lon, lat): Coordinates) -> Vector {
    let (lon, lat) = (lon.to_radians(), lat.to_radians());
    [lat.cos() * lon.cos(), lat.cos() * lon.sin(), lat.sin()]
}

fn cross(a: Vector, b: Vector) -> Vector {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

fn dot(a: Vector, b: Vector) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The distance on the sphere in metres.
fn on_sphere(from: Coordinates, to: Coordinates) -> f64 {
    let (a, b) = (vector(from), vector(to));
    let side = cross(a, b);
    EARTH_M * dot(side, side).sqrt().atan2(dot(a, b))
}

/// The distance on the ellipsoid in metres (T. Vincenty, "Direct and inverse solutions of geodesics
/// on the ellipsoid", 1975).
fn on_ellipsoid(from: Coordinates, to: Coordinates) -> f64 {
    let (a, f) = WGS84;
    let b = a * (1.0 - f);
    let reduced = |lat: f64| ((1.0 - f) * lat.to_radians().tan()).atan().sin_cos();
    let ((sin1, cos1), (sin2, cos2)) = (reduced(from.1), reduced(to.1));
    let width = (to.0 - from.0).to_radians();
    let mut lambda = width;
    for _ in 0..VINCENTY_STEPS_MAX {
        let (sin, cos) = lambda.sin_cos();
        let sin_sigma = (cos2 * sin).hypot(cos1 * sin2 - sin1 * cos2 * cos);
        if sin_sigma == 0.0 {
            return 0.0;
        }
        let cos_sigma = sin1 * sin2 + cos1 * cos2 * cos;
        let sigma = sin_sigma.atan2(cos_sigma);
        let sin_alpha = cos1 * cos2 * sin / sin_sigma;
        let cos2_alpha = 1.0 - sin_alpha * sin_alpha;
        let middle =
            if cos2_alpha == 0.0 { 0.0 } else { cos_sigma - 2.0 * sin1 * sin2 / cos2_alpha };
        let c = f / 16.0 * cos2_alpha * (4.0 + f * (4.0 - 3.0 * cos2_alpha));
        let turn = middle + c * cos_sigma * (2.0 * middle * middle - 1.0);
        let next = width + (1.0 - c) * f * sin_alpha * (sigma + c * sin_sigma * turn);
        if (next - lambda).abs() < 1e-13 {
            let u = cos2_alpha * (a * a - b * b) / (b * b);
            let large = 1.0 + u / 16384.0 * (4096.0 + u * (u * (320.0 - 175.0 * u) - 768.0));
            let small = u / 1024.0 * (256.0 + u * (u * (74.0 - 47.0 * u) - 128.0));
            let edge = small / 6.0
                * middle
                * (4.0 * sin_sigma * sin_sigma - 3.0)
                * (4.0 * middle * middle - 3.0);
            let change = small
                * sin_sigma
                * (middle + small / 4.0 * (cos_sigma * (2.0 * middle * middle - 1.0) - edge));
            return b * large * (sigma - change);
        }
        lambda = next;
    }
    // The iteration did not converge: the points are nearly antipodal, and the distance is about
    // half of a meridian ellipse.
    std::f64::consts::PI * b
}

/// Returns the distance between the first two arguments in metres; `None` after a warning.
fn measured(call: &mut Call<'_>, a: &[Value], ellipsoid: Option<&Value>) -> Result<Option<f64>> {
    let mut places = Vec::new();
    for shape in &a[..2] {
        match place(shape)? {
            Ok(place) => places.push(place),
            Err(fault) => {
                call.explain(Code::BadParameter, fault)?;
                return Ok(None);
            }
        }
    }
    let measure = match ellipsoid.map(|v| v.as_str()) {
        None | Some(Some("sphere")) => on_sphere,
        Some(Some("wgs84")) => on_ellipsoid,
        Some(Some(other)) => {
            let text = format!("invalid ellipsoid {other} specified, falling back to \"sphere\"");
            call.explain(Code::BadParameter, &text)?;
            on_sphere
        }
        Some(None) => {
            let text = "invalid value for ellipsoid specified, falling back to \"sphere\"";
            call.explain(Code::BadParameter, text)?;
            on_sphere
        }
    };
    Ok(Some(measure(places[0], places[1])))
}

fn geo_distance(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    measured(call, a, a.get(2))?.map_or(Ok(Value::Null), number)
}

fn geo_in_range(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let Some(metres) = measured(call, a, a.get(6))? else { return Ok(Value::Null) };
    let (Some(low), Some(high)) = (a[2].as_f64(), a[3].as_f64()) else {
        let which = if a[2].is_number() { "4th" } else { "3rd" };
        return call.explain(Code::BadParameter, &format!("{which} argument requires a number"));
    };
    let mut includes = [true, true];
    for (at, include) in includes.iter_mut().enumerate() {
        match a.get(4 + at) {
            None => {}
            Some(Value::Bool(flag)) => *include = *flag,
            Some(_) => {
                let text = format!("{}th argument requires a bool", 5 + at);
                return call.explain(Code::BadParameter, &text);
            }
        }
    }
    let above = metres > low || includes[0] && metres == low;
    let below = metres < high || includes[1] && metres == high;
    Ok(Value::Bool(above && below))
}

/// Whether a ring of great circles surrounds a point. Seen from a point inside the ring, the angles
/// of the ring's edges add up to a full turn.
fn goes_round(ring: &[Coordinates], at: Coordinates) -> bool {
    let up = vector(at);
    let seen = |place: &Coordinates| {
        let there = vector(*place);
        let height = dot(there, up);
        std::array::from_fn::<f64, 3, _>(|i| there[i] - height * up[i])
    };
    let spokes: Vec<Vector> = ring.iter().map(seen).collect();
    let turn: f64 = spokes
        .windows(2)
        .map(|edge| dot(cross(edge[0], edge[1]), up).atan2(dot(edge[0], edge[1])))
        .sum();
    turn.abs() > std::f64::consts::PI
}

/// The polygons of a shape, each a list of rings; `None` for other shapes.
fn polygons(shape: &Value) -> Option<Vec<Vec<Vec<Coordinates>>>> {
    let pair = |v: &Value| match v.as_array()? {
        [lon, lat, ..] => Some((lon.as_f64()?, lat.as_f64()?)),
        _ => None,
    };
    let ring = |v: &Value| v.as_array()?.iter().map(pair).collect::<Option<Vec<Coordinates>>>();
    let rings = |v: &Value| v.as_array()?.iter().map(ring).collect::<Option<Vec<_>>>();
    let coordinates = shape.attribute("coordinates");
    match shape.text_of("type")?.to_ascii_lowercase().as_str() {
        "polygon" => Some(vec![rings(&coordinates)?]),
        "multipolygon" => coordinates.as_array()?.iter().map(rings).collect(),
        _ => None,
    }
}

/// Evaluates GEO_CONTAINS and GEO_INTERSECTS for polygons and points.
fn contains(call: &mut Call<'_>, a: &[Value], within: bool) -> Result<Value> {
    if a[0].as_object().is_none() {
        return wrong(call, "Expecting GeoJSON object");
    }
    let (area, other) = match (polygons(&a[0]), polygons(&a[1])) {
        (Some(area), None) => (area, &a[1]),
        (None, Some(area)) if !within => (area, &a[0]),
        (None, _) if within => {
            let text = "Only Polygon and MultiPolygon types are valid as first argument";
            return wrong(call, text);
        }
        _ => {
            return Err(refused(
                "GEO_CONTAINS() and GEO_INTERSECTS() of shapes other than a polygon and a point",
            ));
        }
    };
    match place(other)? {
        Ok(at) => Ok(Value::Bool(area.iter().any(|rings| match rings.as_slice() {
            [outer, holes @ ..] => {
                goes_round(outer, at) && !holes.iter().any(|hole| goes_round(hole, at))
            }
            [] => false,
        }))),
        Err(fault) => call.explain(Code::BadParameter, fault),
    }
}

/// Evaluates `IS_IN_POLYGON(ring, latitude, longitude)` or
/// `IS_IN_POLYGON(ring, pair, longitude first)`.
fn in_polygon(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let pair = |v: &Value, lon_first: bool| match v.as_array()? {
        [x, y, ..] if lon_first => Some((x.as_f64()?, y.as_f64()?)),
        [x, y, ..] => Some((y.as_f64()?, x.as_f64()?)),
        _ => None,
    };
    let lon_first = a[1].as_array().is_some() && a.get(2).is_some_and(Value::is_true);
    let at = match (&a[1], a.get(2)) {
        (Value::Array(_), _) => pair(&a[1], lon_first),
        (lat, Some(lon)) => lat.as_f64().zip(lon.as_f64()).map(|(lat, lon)| (lon, lat)),
        _ => None,
    };
    let ring = a[0].as_array().filter(|ring| ring.len() >= 2);
    let ring = ring.map(|ring| ring.iter().map(|v| pair(v, lon_first)).collect());
    let (Some(at), Some(Some(mut ring))) = (at, ring) else { return call.mistyped() };
    let ring: &mut Vec<Coordinates> = &mut ring;
    ring.extend(ring.first().copied());
    Ok(Value::Bool(goes_round(ring, at)))
}
