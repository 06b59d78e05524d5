//! Checks sort orders, stored values and consolidation policies of views and inverted indexes, and
//! completes them with defaults.

use crate::compat::{Consolidation, Release};
use crate::error::{Code, Error, Result};
use crate::value::{Object, Value};

use super::reply::object;

/// Maximum number of expressions in `optimizeTopK` (ArangoDB's limit).
const TOP_K_MAX: usize = 64;

fn bad(name: &str) -> Error {
    Error::new(Code::BadParameter, format!("error parsing '{name}' of a view or inverted index"))
}

/// Returns the default `consolidationPolicy` of an ArangoDB release.
pub(super) fn consolidation_policy(release: Release) -> Value {
    let segments = |min: i64, max: i64, bytes_max: i64, bytes_floor: i64| {
        object! {
            "type" => "tier",
            "segmentsMin" => min,
            "segmentsMax" => max,
            "segmentsBytesMax" => bytes_max,
            "segmentsBytesFloor" => bytes_floor,
            "minScore" => 0_i64,
        }
    };
    match release.consolidation() {
        Consolidation::Segments => segments(1, 10, 5 << 30, 2 << 20),
        Consolidation::ManySegments => segments(50, 200, 8 << 30, 24 << 20),
        Consolidation::Skew => object! {
            "type" => "tier",
            "segmentsBytesMax" => 8_589_934_592_i64,
            "maxSkewThreshold" => Value::Double(0.4),
            "minDeletionRatio" => Value::Double(0.5),
        },
    }
}

/// Completes a consolidation policy with the defaults of its type. Drops attributes that the
/// emulated ArangoDB release does not have.
pub(super) fn consolidation(given: &Value, release: Release) -> Result<Value> {
    let fault = || bad("consolidationPolicy");
    let object = given.as_object().ok_or_else(fault)?;
    let kind = match object.get("type") {
        None => "tier",
        Some(kind) => kind.as_str().ok_or_else(fault)?,
    };
    let mut policy = match kind {
        "tier" => consolidation_policy(release).as_object().cloned().unwrap_or_default(),
        "bytes_accum" => {
            let mut policy = Object::new();
            policy.push_new("type", "bytes_accum".into());
            policy.push_new("threshold", Value::Double(0.1));
            policy
        }
        _ => return Err(fault()),
    };
    for (name, value) in object.iter().filter(|(name, _)| &***name != "type") {
        if policy.get(name).is_none() {
            continue;
        }
        let number = value.as_f64().filter(|number| *number >= 0.0).ok_or_else(fault)?;
        let is_share = matches!(&**name, "threshold" | "maxSkewThreshold" | "minDeletionRatio");
        if is_share && number > 1.0 {
            return Err(fault());
        }
        policy.insert(name.clone(), value.clone());
    }
    Ok(Value::object(policy))
}

/// Reads `primarySort` of a view: a list of fields, each ascending or descending. In the result,
/// `asc` is true for an ascending field and false for a descending field.
pub(super) fn primary_sort(given: &Value) -> Result<Value> {
    let list = given.as_array().ok_or_else(|| bad("primarySort"))?;
    let fields = list.iter().map(|item| {
        let (field, ascending) = sorted_field(item)?;
        Ok(object! { "field" => field, "asc" => ascending })
    });
    Ok(fields.collect::<Result<Vec<_>>>()?.into())
}

/// Reads `primarySort` of an inverted index: an object with fields and a compression.
pub(super) fn index_sort(given: &Value) -> Result<Value> {
    let fault = || bad("primarySort");
    let list = given.attribute("fields");
    let fields = list.as_array().ok_or_else(fault)?.iter().map(|item| {
        let (field, ascending) = sorted_field(item)?;
        Ok(object! { "field" => field, "asc" => ascending })
    });
    let fields = fields.collect::<Result<Vec<_>>>()?;
    let mut out = Object::new();
    out.push_new("fields", fields.into());
    out.push_new("compression", compression(&given.attribute("compression"))?);
    if given.attribute("cache").is_true() {
        out.push_new("cache", true.into());
    }
    Ok(Value::object(out))
}

fn sorted_field(item: &Value) -> Result<(&str, bool)> {
    let fault = || bad("primarySort");
    let field = item.text_of("field").filter(|field| !field.is_empty()).ok_or_else(fault)?;
    let ascending = match (item.attribute("asc"), item.text_of("direction")) {
        (Value::Bool(ascending), _) => ascending,
        (Value::Null, Some(direction)) => match direction.to_lowercase().as_str() {
            "asc" => true,
            "desc" => false,
            _ => return Err(fault()),
        },
        _ => return Err(fault()),
    };
    Ok((field, ascending))
}

fn compression(given: &Value) -> Result<Value> {
    match given {
        Value::Null => Ok("lz4".into()),
        Value::String(name) if ["lz4", "none"].contains(&&**name) => Ok(given.clone()),
        _ => Err(bad("compression")),
    }
}

/// Reads `storedValues`: a list whose items are attribute names, lists of names, or objects.
/// Returns a list of objects.
pub(super) fn stored_values(given: &Value) -> Result<Value> {
    let fault = || bad("storedValues");
    let texts = |list: &Value| -> Result<Value> {
        let names = list.as_array().filter(|names| !names.is_empty()).ok_or_else(fault)?;
        let fits = |name: &Value| name.as_str().is_some_and(|name| !name.is_empty());
        if names.iter().all(fits) { Ok(list.clone()) } else { Err(fault()) }
    };
    let list = given.as_array().ok_or_else(fault)?;
    let column = |item: &Value| {
        let (fields, of) = match item {
            Value::String(name) if !name.is_empty() => {
                (vec![Value::from(&**name)].into(), Value::Null)
            }
            Value::Array(_) => (texts(item)?, Value::Null),
            Value::Object(_) => (texts(&item.attribute("fields"))?, item.clone()),
            _ => return Err(fault()),
        };
        let mut column = Object::new();
        column.push_new("fields", fields);
        column.push_new("compression", compression(&of.attribute("compression"))?);
        if of.attribute("cache").is_true() {
            column.push_new("cache", true.into());
        }
        Ok(Value::object(column))
    };
    Ok(list.iter().map(column).collect::<Result<Vec<_>>>()?.into())
}

/// Reads `optimizeTopK`: a list of at most 64 texts, each with a scorer call such as `BM25(@doc)`.
pub(super) fn top_k(given: &Value) -> Result<Value> {
    let list = given.as_array().filter(|list| list.len() <= TOP_K_MAX);
    let fits = |item: &Value| {
        item.as_str().is_some_and(|text| {
            let text = text.to_uppercase();
            text.contains("@DOC") && (text.contains("BM25(") || text.contains("TFIDF("))
        })
    };
    match list {
        Some(list) if list.iter().all(fits) => Ok(given.clone()),
        _ => Err(bad("optimizeTopK")),
    }
}
