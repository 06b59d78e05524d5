//! Checks the `properties` of analyzers, adds default values and removes unknown properties, as
//! ArangoDB does.

use crate::error::{Code, Error, Result};
use crate::value::{Object, Value};

/// Analyzer types that other analyzers cannot contain, because they read whole values instead of
/// texts.
const GEO: [&str; 3] = ["geojson", "geopoint", "geo_s2"];
/// Maximum number of analyzers in one pipeline, and maximum nesting depth of analyzers.
const PARTS_MAX: usize = 100;
const DEPTH_MAX: usize = 20;

/// Returns the properties of an analyzer, including default values. Returns error 9 for an unknown
/// analyzer type, or 10 for illegal properties.
pub(crate) fn normalized(kind: &str, given: &Value) -> Result<Value> {
    normalized_at(kind, given, 0)
}

fn normalized_at(kind: &str, given: &Value, depth: usize) -> Result<Value> {
    let mut p = Properties { given, kept: Object::new(), fault: None };
    match kind {
        "identity" => {}
        "delimiter" => p.text("delimiter", None),
        "multi_delimiter" => p.checked("delimiters", delimiters),
        "stem" => p.locale(),
        "norm" => {
            p.locale();
            p.choice("case", &["none", "lower", "upper"], "none");
            p.flag("accent", Some(true));
        }
        "ngram" => ngram(&mut p),
        "text" => text(&mut p),
        "segmentation" => {
            p.choice("case", &["lower", "upper", "none"], "lower");
            p.choice("break", &["alpha", "all", "graphic"], "alpha");
        }
        "stopwords" => {
            p.flag("hex", Some(false));
            let is_hex = given.attribute("hex").is_true();
            p.checked("stopwords", |list| {
                let fits =
                    |word: &Value| word.as_str().is_some_and(|w| !is_hex || hex_bytes(w).is_some());
                list.as_array().is_some_and(|words| words.iter().all(fits))
            });
        }
        "collation" => p.locale(),
        "pipeline" => {
            let list = given.attribute("pipeline");
            let parts =
                list.as_array().filter(|parts| !parts.is_empty() && parts.len() <= PARTS_MAX);
            let Some(parts) = parts else { return Err(rejected("pipeline")) };
            let parts = parts.iter().map(|part| inner(part, depth)).collect::<Result<Vec<_>>>()?;
            p.kept.push_new("pipeline", parts.into());
        }
        "aql" => {
            p.checked("queryString", |text| text.as_str().is_some_and(|text| !text.is_empty()));
            p.flag("collapsePositions", Some(false));
            p.flag("keepNull", Some(true));
            p.number("batchSize", 1..=1000, Some(10));
            p.number("memoryLimit", 1..=33_554_432, Some(1_048_576));
            p.choice("returnType", &["string", "number", "bool"], "string");
        }
        "minhash" => {
            p.kept.push_new("analyzer", inner(&given.attribute("analyzer"), depth)?);
            p.number("numHashes", 1..=u32::MAX as usize, None);
        }
        "wildcard" => {
            p.number("ngramSize", 2..=u32::MAX as usize, None);
            if !given.attribute("analyzer").is_null() {
                p.kept.push_new("analyzer", inner(&given.attribute("analyzer"), depth)?);
            }
        }
        "geojson" => {
            p.choice("type", &["shape", "centroid", "point"], "shape");
            p.geo_options();
            p.flag("legacy", Some(false));
        }
        "geo_s2" => {
            p.choice("type", &["shape", "centroid", "point"], "shape");
            p.choice("format", &["latLngDouble", "latLngInt", "s2Point"], "latLngDouble");
            p.geo_options();
        }
        "geopoint" => {
            p.path("latitude");
            p.path("longitude");
            p.geo_options();
        }
        "classification" | "nearest_neighbors" => {
            return Err(Error::unsupported(format!("an analyzer of type '{kind}'")));
        }
        _ => {
            let text = format!("Not implemented analyzer type '{kind}'.");
            return Err(Error::new(Code::NotImplemented, text));
        }
    }
    match p.fault {
        Some(name) => Err(rejected(name)),
        None => Ok(Value::object(p.kept)),
    }
}

/// Returns the type and complete properties of an analyzer inside another analyzer.
fn inner(part: &Value, depth: usize) -> Result<Value> {
    let kind = part.text_of("type").filter(|kind| !GEO.contains(kind) && depth < DEPTH_MAX);
    let Some(kind) = kind else { return Err(rejected("type")) };
    let properties = normalized_at(kind, &part.attribute("properties"), depth + 1)?;
    let mut out = Object::new();
    out.push_new("type", kind.into());
    out.push_new("properties", properties);
    Ok(Value::object(out))
}

fn ngram(p: &mut Properties<'_>) {
    for name in ["min", "max"] {
        p.number(name, 0..=u32::MAX as usize, None);
    }
    let kept = |p: &Properties<'_>, name: &str| {
        p.kept.get(name).and_then(Value::as_f64).unwrap_or(0.0) as i64
    };
    let min = kept(p, "min").max(1);
    let max = kept(p, "max").max(min);
    p.kept.insert("min", min.into());
    p.kept.insert("max", max.into());
    p.flag("preserveOriginal", None);
    p.choice("streamType", &["binary", "utf8"], "binary");
    p.text("startMarker", Some(""));
    p.text("endMarker", Some(""));
}

fn text(p: &mut Properties<'_>) {
    p.locale();
    p.choice("case", &["lower", "upper", "none"], "lower");
    let words = |list: &Value| {
        list.as_array().is_some_and(|words| words.iter().all(|word| word.as_str().is_some()))
    };
    for (name, fits) in [
        ("stopwords", words as fn(&Value) -> bool),
        ("stopwordsPath", |path| path.as_str().is_some()),
    ] {
        if !p.given.attribute(name).is_null() {
            p.checked(name, fits);
        }
    }
    p.flag("accent", Some(false));
    p.flag("stemming", Some(true));
    let given = p.given.attribute("edgeNgram");
    if given.is_null() {
        return;
    }
    let mut edge = Properties { given: &given, kept: Object::new(), fault: None };
    for name in ["min", "max"] {
        if !given.attribute(name).is_null() {
            edge.number(name, 0..=u32::MAX as usize, None);
        }
    }
    if !given.attribute("preserveOriginal").is_null() {
        edge.flag("preserveOriginal", None);
    }
    if edge.fault.is_some() || given.as_object().is_none() {
        p.fault = Some("edgeNgram");
    } else if !edge.kept.is_empty() {
        p.kept.push_new("edgeNgram", Value::object(edge.kept));
    }
}

fn delimiters(list: &Value) -> bool {
    let Some(list) = list.as_array() else { return false };
    let texts: Vec<&str> = list.iter().filter_map(Value::as_str).collect();
    let overlap = (0..texts.len())
        .any(|a| (0..texts.len()).any(|b| a != b && texts[b].starts_with(texts[a])));
    texts.len() == list.len() && !overlap
}

/// The properties in a request, the properties accepted so far, and the name of the first illegal
/// property.
struct Properties<'a> {
    given: &'a Value,
    kept: Object,
    fault: Option<&'static str>,
}

impl Properties<'_> {
    fn keep(&mut self, name: &'static str, value: Option<Value>) {
        match value {
            Some(value) => self.kept.push_new(name, value),
            None => self.fault = self.fault.or(Some(name)),
        }
    }

    fn checked(&mut self, name: &'static str, fits: impl FnOnce(&Value) -> bool) {
        let value = self.given.attribute(name);
        let fits = fits(&value);
        self.keep(name, fits.then_some(value));
    }

    fn text(&mut self, name: &'static str, default: Option<&str>) {
        let value = match (self.given.attribute(name), default) {
            (Value::String(text), _) => Some(Value::String(text)),
            (Value::Null, Some(default)) => Some(default.into()),
            _ => None,
        };
        self.keep(name, value);
    }

    fn flag(&mut self, name: &'static str, default: Option<bool>) {
        let value = match (self.given.attribute(name), default) {
            (Value::Bool(flag), _) => Some(flag.into()),
            (Value::Null, Some(default)) => Some(default.into()),
            _ => None,
        };
        self.keep(name, value);
    }

    fn choice(&mut self, name: &'static str, names: &[&str], default: &str) {
        let value = match self.given.attribute(name) {
            Value::Null => Some(default.into()),
            Value::String(text) => names.contains(&&*text).then_some(Value::String(text)),
            _ => None,
        };
        self.keep(name, value);
    }

    fn number(
        &mut self,
        name: &'static str,
        bounds: std::ops::RangeInclusive<usize>,
        default: Option<usize>,
    ) {
        let found = match self.given.attribute(name) {
            Value::Null => default,
            _ => number(self.given, name).filter(|number| bounds.contains(number)),
        };
        self.keep(name, found.map(|number| (number as i64).into()));
    }

    /// Accepts the property `locale`, and removes the character set from it (`en.utf-8` becomes
    /// `en`).
    fn locale(&mut self) {
        let given = self.given.attribute("locale");
        let locale = given.as_str().map(|text| {
            let (plain, keywords) = match text.split_once('@') {
                Some((plain, keywords)) => (plain, format!("@{keywords}")),
                None => (text, String::new()),
            };
            let plain = plain.split('.').next().unwrap_or_default();
            Value::from(format!("{plain}{keywords}"))
        });
        self.keep("locale", locale);
    }

    fn path(&mut self, name: &'static str) {
        let value = match self.given.attribute(name) {
            Value::Null => Some(Value::array(Vec::new())),
            Value::Array(names) => {
                names.iter().all(|name| name.as_str().is_some()).then_some(Value::Array(names))
            }
            _ => None,
        };
        self.keep(name, value);
    }

    fn geo_options(&mut self) {
        let given = self.given.attribute("options");
        let mut options = Properties { given: &given, kept: Object::new(), fault: None };
        options.number("maxCells", 0..=i32::MAX as usize, Some(20));
        options.number("minLevel", 0..=30, Some(4));
        options.number("maxLevel", 0..=30, Some(23));
        let fits = options.fault.is_none();
        self.keep("options", fits.then(|| Value::object(options.kept)));
    }
}

/// Returns an attribute that is a whole number of at least 0, or `None` for any other value.
pub(super) fn number(of: &Value, name: &str) -> Option<usize> {
    let number = of.attribute(name).as_f64()?;
    (number >= 0.0 && number.fract() == 0.0 && number <= f64::from(u32::MAX))
        .then_some(number as usize)
}

/// Returns the texts in an attribute that is a list.
pub(super) fn texts(of: &Value, name: &str) -> Vec<String> {
    let list = of.attribute(name);
    let items = list.as_array().unwrap_or_default().iter();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Decodes pairs of hex digits to bytes; returns `None` for any other text.
pub(super) fn hex_bytes(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.is_ascii() {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

fn rejected(name: &str) -> Error {
    Error::new(Code::BadParameter, format!("'properties' was rejected by analyzer, see '{name}'"))
}
