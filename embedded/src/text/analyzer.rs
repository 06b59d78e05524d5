//! Finds analyzers by name and compiles their definitions.

use std::sync::{Arc, LazyLock, PoisonError, RwLock, Weak};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::aql::Program;
use super::collation::Collation;
use super::geo::Shapes;
use super::properties::{hex_bytes, number, texts};
use super::remembered::TokenCache;
use super::tokens::{Case, Edge, Kind, Ngram, Norm, Token, Tokens, Words, is_unreadable, stemmer};
use crate::error::{Code, Error, Result};
use crate::schema::{Analyzer, Database};
use crate::value::{Object, Value};

/// Languages of the built-in `text_*` analyzers.
const TEXT_LANGUAGES: [&str; 12] =
    ["de", "en", "es", "fi", "fr", "it", "nl", "no", "pt", "ru", "sv", "zh"];

/// The type of an analyzer's tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "conformance"),
    allow(dead_code, reason = "analyzers of type `aql` return more")
)]
pub(crate) enum Returns {
    /// The tokens are texts.
    Text,
    /// The tokens are numbers.
    Number,
    /// The tokens are bools.
    Bool,
}

/// A compiled analyzer.
#[derive(Debug)]
pub(crate) struct Analysis {
    /// The analyzer's name without a database prefix.
    pub(crate) name: String,
    /// Whether an index stores the frequency of each term in each document.
    pub(crate) frequency: bool,
    /// Whether an index stores the length of the field in each document.
    pub(crate) norm: bool,
    /// Whether an index stores the positions of terms, which phrase searches need.
    pub(crate) position: bool,
    /// Whether the offsets of terms in the text are available for `OFFSET_INFO`.
    #[cfg_attr(not(feature = "conformance"), allow(dead_code, reason = "`OFFSET_INFO` reads it"))]
    pub(crate) offset: bool,
    /// The type of the analyzer's tokens.
    pub(crate) returns: Returns,
    kind: Arc<Kind>,
    /// A cache of recent results of `TOKENS()`.
    remembered: TokenCache,
}

/// Returns the built-in analyzers, which every database has.
pub(crate) fn built_in() -> &'static [Arc<Analyzer>] {
    static BUILT_IN: LazyLock<Vec<Arc<Analyzer>>> = LazyLock::new(make_built_in);
    &BUILT_IN
}

fn make_built_in() -> Vec<Arc<Analyzer>> {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let identity = Analyzer {
        name: "identity".into(),
        kind: "identity".into(),
        properties: Value::object(Object::new()),
        features: words(&["frequency", "norm"]),
    };
    let text = |language: &&str| {
        let mut properties = Object::new();
        properties.push_new("locale", (*language).into());
        properties.push_new("case", "lower".into());
        properties.push_new("stopwords", Value::array(Vec::new()));
        properties.push_new("accent", false.into());
        properties.push_new("stemming", true.into());
        Analyzer {
            name: format!("text_{language}"),
            kind: "text".into(),
            properties: Value::object(properties),
            features: words(&["frequency", "position", "norm"]),
        }
    };
    std::iter::once(identity).chain(TEXT_LANGUAGES.iter().map(text)).map(Arc::new).collect()
}

/// Returns the definition of an analyzer; the name may have a database prefix. Returns error 10 for
/// an unknown analyzer.
pub(super) fn definition<'d>(database: &'d Database, name: &str) -> Result<&'d Arc<Analyzer>> {
    if let Some(found) = built_in().iter().find(|analyzer| analyzer.name == name) {
        return Ok(found);
    }
    let plain = match name.rsplit_once("::") {
        None => Some(name),
        Some(("", plain)) if database.name == "_system" => Some(plain),
        Some((prefix, plain)) => (prefix == database.name).then_some(plain),
    };
    let found = plain.and_then(|plain| database.analyzers.get(plain));
    found.ok_or_else(|| {
        Error::new(Code::BadParameter, format!("unable to load the analyzer '{name}'"))
    })
}

/// Returns the compiled analyzer with the given name. Returns error 10 for an unknown analyzer, or
/// error 9 for an analyzer that the engine cannot run.
pub(crate) fn find(database: &Database, name: &str) -> Result<Arc<Analysis>> {
    ready(definition(database, name)?)
}

/// A cache of compiled analyzers by their definition; the weak pointer becomes invalid when the
/// analyzer is dropped.
type Ready = Vec<(Weak<Analyzer>, Arc<Analysis>)>;

static READY: RwLock<Ready> = RwLock::new(Vec::new());
/// Maximum number of analyzers in the cache.
const READY_MAX: usize = 64;

/// Returns the compiled form of an analyzer definition from the cache, or compiles and caches it.
fn ready(analyzer: &Arc<Analyzer>) -> Result<Arc<Analysis>> {
    let is_it = |(of, _): &&(Weak<Analyzer>, Arc<Analysis>)| of.as_ptr() == Arc::as_ptr(analyzer);
    let known = READY.read().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, found)) = known.iter().find(is_it) {
        return Ok(found.clone());
    }
    drop(known);
    let made = Arc::new(Analysis::new(analyzer)?);
    let mut known = READY.write().unwrap_or_else(PoisonError::into_inner);
    known.retain(|(of, _)| of.strong_count() > 0);
    if known.len() >= READY_MAX {
        known.remove(0);
    }
    known.push((Arc::downgrade(analyzer), made.clone()));
    Ok(made)
}

/// Returns error 10 if an analyzer's type or properties are illegal. An analyzer may be legal even
/// if the engine cannot run it.
pub(crate) fn check_kind(kind: &str, properties: &Value) -> Result<()> {
    match Kind::new(kind, properties) {
        Err(error) if error.code != Code::NotImplemented => Err(error),
        _ => Ok(()),
    }
}

impl Analysis {
    /// Compiles an analyzer's definition, or returns error 9 for an analyzer that the engine cannot
    /// run.
    pub(super) fn new(analyzer: &Analyzer) -> Result<Self> {
        let kind = Kind::new(&analyzer.kind, &analyzer.properties)?;
        Ok(Self::of(analyzer.name.clone(), &analyzer.features, Arc::new(kind)))
    }

    fn of(name: String, features: &[String], kind: Arc<Kind>) -> Self {
        let has = |name: &str| features.iter().any(|feature| feature == name);
        Self {
            name,
            frequency: has("frequency"),
            norm: has("norm"),
            position: has("position"),
            offset: has("offset"),
            returns: kind.returns(),
            kind,
            remembered: TokenCache::default(),
        }
    }

    /// Returns a copy of the analyzer with other features.
    pub(super) fn with_features(&self, features: &[String]) -> Self {
        Self::of(self.name.clone(), features, self.kind.clone())
    }

    /// Splits a text into tokens.
    pub(crate) fn analyze(&self, text: &str) -> Tokens {
        self.kind.tokens(text)
    }

    /// Splits a text into tokens, and returns only the texts of the tokens.
    pub(crate) fn tokens(&self, text: &str) -> Vec<String> {
        self.analyze(text).list.into_iter().map(|token| token.text).collect()
    }

    /// Returns the tokens of a wildcard analyzer before it splits them into n-grams, or `None` for
    /// any other analyzer.
    pub(super) fn wholes(&self, text: &str) -> Option<Vec<Token>> {
        self.kind.wholes(text).map(|tokens| tokens.list)
    }

    /// Returns the shape that a geo analyzer makes of a value. Returns `None` if the value is not a
    /// shape, or if the analyzer is not a geo analyzer.
    pub(super) fn shape(&self, value: &Value) -> Option<Value> {
        match &*self.kind {
            Kind::Geo(shapes) => shapes.of(value),
            _ => None,
        }
    }

    /// Whether the analyzer is a geo analyzer.
    pub(crate) fn is_geo(&self) -> bool {
        matches!(*self.kind, Kind::Geo(_))
    }

    /// Whether the analyzer is a wildcard analyzer.
    pub(crate) fn is_wildcard(&self) -> bool {
        matches!(*self.kind, Kind::Wildcard { .. })
    }

    /// Returns the number of hashes in the signatures of a minhash analyzer, or `None` for any
    /// other analyzer.
    pub(crate) fn hashes(&self) -> Option<usize> {
        match &*self.kind {
            Kind::MinHash { hashes, .. } => Some(*hashes),
            _ => None,
        }
    }

    /// Returns the result of `TOKENS()` for a text.
    pub(crate) fn tokens_value(&self, text: &str) -> Result<Value> {
        if let Kind::Aql(program) = &*self.kind {
            return Ok(Value::array(program.values(text)));
        }
        if let Some(known) = self.remembered.get(text) {
            return Ok(known);
        }
        let tokens = self.analyze(text);
        if tokens.cut {
            return Err(Error::new(Code::ResourceLimit, "TOKENS() of a text with too many tokens"));
        }
        if tokens.list.iter().any(|token| is_unreadable(&token.text)) {
            return Err(Error::new(Code::Internal, "Invalid UTF-8 sequence"));
        }
        let shown = Value::array(tokens.list.into_iter().map(|token| token.text.into()).collect());
        self.remembered.put(text, &shown);
        Ok(shown)
    }
}

/// Returns ArangoDB's tokens of a null, bool or number. A number has four tokens, from the highest
/// precision to the lowest.
pub(crate) fn basic(value: &Value) -> Option<Value> {
    /// The prefix byte of a number's most precise token; tokens of lower precision have larger
    /// prefixes.
    const NUMBER: u8 = 0xA0;
    let shown = |bytes: &[u8]| Value::from(STANDARD.encode(bytes));
    Some(Value::array(match value {
        Value::Null => vec!["".into()],
        Value::Bool(flag) => vec![shown(&[if *flag { 0xFF } else { 0 }])],
        number if number.is_number() => {
            let bits = number.to_f64().to_bits() as i64;
            let sortable = (bits ^ ((bits >> 63) & i64::MAX)) as u64 ^ (1 << 63);
            let step = |step: u8| {
                let bytes = sortable.to_be_bytes();
                let kept = &bytes[..8 - 2 * usize::from(step)];
                shown(&[&[NUMBER + 16 * step], kept].concat())
            };
            (0..4).map(step).collect()
        }
        _ => return None,
    }))
}

impl Kind {
    fn returns(&self) -> Returns {
        match self {
            Self::Aql(program) => program.returns(),
            Self::Pipeline(kinds) => kinds.last().map_or(Returns::Text, Self::returns),
            _ => Returns::Text,
        }
    }

    fn new(kind: &str, properties: &Value) -> Result<Self> {
        if kind == "minhash" && !cfg!(feature = "conformance") {
            return Err(Error::unsupported("an analyzer of type 'minhash'"));
        }
        let text = |name: &str| properties.text_of(name).unwrap_or_default().to_owned();
        let texts = |name: &str| texts(properties, name);
        let inner = || {
            let of = properties.attribute("analyzer");
            Self::new(of.text_of("type").unwrap_or("identity"), &of.attribute("properties"))
        };
        Ok(match kind {
            "identity" => Self::Identity,
            "delimiter" => Self::Delimiter(text("delimiter")),
            "multi_delimiter" => Self::MultiDelimiter(texts("delimiters")),
            "stem" => Self::Stem(stemmer(&text("locale"))),
            "norm" => Self::Norm(Norm {
                case: Case::new(&text("case"), Case::None),
                accent: properties.attribute("accent").is_null()
                    || properties.attribute("accent").is_true(),
            }),
            "ngram" => Self::Ngram(Ngram {
                min: number(properties, "min").unwrap_or(1),
                max: number(properties, "max").unwrap_or(1),
                original: properties.attribute("preserveOriginal").is_true(),
                utf8: text("streamType") == "utf8",
                start: text("startMarker"),
                end: text("endMarker"),
            }),
            "text" => {
                if !properties.attribute("stopwordsPath").is_null() {
                    return Err(Error::unsupported("'stopwordsPath' of an analyzer"));
                }
                let edge = properties.attribute("edgeNgram");
                let stem = properties.attribute("stemming");
                let stem = stem.is_null() || stem.is_true();
                Self::Text {
                    norm: Norm {
                        case: Case::new(&text("case"), Case::Lower),
                        accent: properties.attribute("accent").is_true(),
                    },
                    stopwords: texts("stopwords").into_iter().collect(),
                    stem: if stem { stemmer(&text("locale")) } else { None },
                    edge: edge.as_object().filter(|edge| !edge.is_empty()).map(|_| Edge {
                        min: number(&edge, "min").unwrap_or(0),
                        max: number(&edge, "max").filter(|max| *max > 0).unwrap_or(usize::MAX),
                        original: edge.attribute("preserveOriginal").is_true(),
                    }),
                }
            }
            "segmentation" => Self::Segmentation {
                words: match text("break").as_str() {
                    "all" => Words::All,
                    "graphic" => Words::Graphic,
                    _ => Words::Alpha,
                },
                case: Case::new(&text("case"), Case::Lower),
            },
            "stopwords" => {
                let is_hex = properties.attribute("hex").is_true();
                let word = |word: String| {
                    if !is_hex {
                        return Some(word);
                    }
                    String::from_utf8(hex_bytes(&word)?).ok()
                };
                Self::Stopwords(texts("stopwords").into_iter().filter_map(word).collect())
            }
            "pipeline" => {
                let list = properties.attribute("pipeline");
                let parts = list.as_array().unwrap_or_default().iter();
                let part = |part: &Value| {
                    let kind = part.text_of("type").unwrap_or_default();
                    Self::new(kind, &part.attribute("properties"))
                };
                Self::Pipeline(parts.map(part).collect::<Result<_>>()?)
            }
            "aql" => Self::Aql(Box::new(Program::new(properties)?)),
            "minhash" => Self::MinHash {
                of: Box::new(inner()?),
                hashes: number(properties, "numHashes").unwrap_or(1),
            },
            "wildcard" => Self::Wildcard {
                of: Box::new(inner()?),
                size: number(properties, "ngramSize").unwrap_or(3),
            },
            "geojson" | "geo_s2" | "geopoint" => Self::Geo(Shapes::new(kind, properties)?),
            "collation" => Self::Collation(Collation::of(&text("locale"))?),
            kind => return Err(Error::unsupported(format!("using an analyzer of type '{kind}'"))),
        })
    }
}

impl Case {
    fn new(name: &str, default: Self) -> Self {
        match name {
            "lower" => Self::Lower,
            "upper" => Self::Upper,
            "none" => Self::None,
            _ => default,
        }
    }
}
