//! Analyzers: how a text becomes tokens. What is not known is refused by name.

use std::collections::BTreeSet;
use std::sync::Arc;

use frostem::{Algorithm, Stemmer};
use unicode_segmentation::UnicodeSegmentation;

use super::normal;
use crate::error::{Code, Error, Result};
use crate::schema::{Analyzer, Database};
use crate::value::{Object, Value};

/// Languages of the built-in `text_*` analyzers; only `en` can be used.
const TEXT_LANGUAGES: [&str; 12] =
    ["de", "en", "es", "fi", "fr", "it", "nl", "no", "pt", "ru", "sv", "zh"];

/// An analyzer ready to run.
#[derive(Debug)]
pub(crate) struct Analysis {
    /// Plain name, without the prefix of its database.
    pub(crate) name: String,
    /// Whether a term knows how often it stands in a document.
    pub(crate) frequency: bool,
    /// Whether a field knows how long it is.
    pub(crate) norm: bool,
    /// Whether a term knows where it stands; phrases need it.
    pub(crate) position: bool,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Identity,
    Delimiter(String),
    Stem,
    Norm(Norm),
    Text { norm: Norm, stopwords: BTreeSet<String>, stem: bool },
}

#[derive(Debug)]
struct Norm {
    case: Case,
    /// Whether accents stay.
    accent: bool,
}

#[derive(Debug)]
enum Case {
    Lower,
    Upper,
    None,
}

/// The analyzers that every database has.
pub(crate) fn built_in() -> Vec<Analyzer> {
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
    std::iter::once(identity).chain(TEXT_LANGUAGES.iter().map(text)).collect()
}

/// The definition behind a name, which may carry the prefix of its database; 10 if there is none.
pub(super) fn definition(database: &Database, name: &str) -> Result<Analyzer> {
    if let Some(found) = built_in().into_iter().find(|analyzer| analyzer.name == name) {
        return Ok(found);
    }
    let plain = match name.rsplit_once("::") {
        None => Some(name),
        Some((prefix, plain)) => (prefix == database.name).then_some(plain),
    };
    let found = plain.and_then(|plain| database.analyzers.get(plain));
    found.map(|found| Analyzer::clone(found)).ok_or_else(|| {
        Error::new(Code::BadParameter, format!("unable to load the analyzer '{name}'"))
    })
}

/// The analyzer of a name; 10 if there is none, 501 if it does what the engine cannot do.
pub(crate) fn find(database: &Database, name: &str) -> Result<Arc<Analysis>> {
    Analysis::new(&definition(database, name)?).map(Arc::new)
}

impl Analysis {
    /// Makes a definition run; 501 if it asks for what the engine cannot do.
    pub(super) fn new(analyzer: &Analyzer) -> Result<Self> {
        let has = |name: &str| analyzer.features.iter().any(|feature| feature == name);
        Ok(Self {
            name: analyzer.name.clone(),
            frequency: has("frequency"),
            norm: has("norm"),
            position: has("position"),
            kind: Kind::new(analyzer)?,
        })
    }

    /// The tokens of a text, in order.
    pub(crate) fn tokens(&self, text: &str) -> Vec<String> {
        match &self.kind {
            Kind::Identity => vec![text.to_owned()],
            Kind::Delimiter(delimiter) => split(text, delimiter),
            Kind::Stem => vec![stemmer().stem(text).into_owned()],
            Kind::Norm(norm) => vec![norm.of(text)],
            Kind::Text { norm, stopwords, stem } => {
                let words = text.unicode_words().map(|word| norm.of(word));
                let words = words.filter(|word| !stopwords.contains(word));
                if *stem {
                    words.map(|word| stemmer().stem(&word).into_owned()).collect()
                } else {
                    words.collect()
                }
            }
        }
    }
}

impl Kind {
    fn new(analyzer: &Analyzer) -> Result<Self> {
        let properties = &analyzer.properties;
        let english = || {
            let locale = properties.text_of("locale").unwrap_or_default();
            if locale.split(['_', '-', '.']).next() == Some("en") {
                return Ok(());
            }
            let name = &analyzer.name;
            Err(Error::unsupported(format!("the locale '{locale}' of the analyzer '{name}'")))
        };
        for name in ["edgeNgram", "stopwordsPath"] {
            if !properties.attribute(name).is_null() {
                let text = format!("'{name}' of the analyzer '{}'", analyzer.name);
                return Err(Error::unsupported(text));
            }
        }
        Ok(match analyzer.kind.as_str() {
            "identity" => Self::Identity,
            "delimiter" => {
                Self::Delimiter(properties.text_of("delimiter").unwrap_or_default().to_owned())
            }
            "stem" => {
                english()?;
                Self::Stem
            }
            "norm" => {
                english()?;
                Self::Norm(Norm::new(properties)?)
            }
            "text" => {
                english()?;
                let stopwords = properties.attribute("stopwords");
                let stopwords = stopwords.as_array().unwrap_or_default().iter();
                Self::Text {
                    norm: Norm::new(properties)?,
                    stopwords: stopwords.filter_map(Value::as_str).map(str::to_owned).collect(),
                    stem: properties.attribute("stemming").is_true(),
                }
            }
            kind => return Err(Error::unsupported(format!("using an analyzer of type '{kind}'"))),
        })
    }
}

impl Norm {
    fn new(properties: &Value) -> Result<Self> {
        let case = match properties.text_of("case") {
            Some("lower") => Case::Lower,
            Some("upper") => Case::Upper,
            Some("none") | None => Case::None,
            Some(other) => {
                let text = format!("'case' of an analyzer is lower, upper or none, not '{other}'");
                return Err(Error::new(Code::BadParameter, text));
            }
        };
        Ok(Self { case, accent: properties.attribute("accent").is_true() })
    }

    fn of(&self, text: &str) -> String {
        let text = normal::composed(text);
        let text = match self.case {
            Case::Lower => text.to_lowercase(),
            Case::Upper => text.to_uppercase(),
            Case::None => text,
        };
        if self.accent { text } else { normal::without_accents(&text) }
    }
}

fn stemmer() -> Stemmer {
    Stemmer::new(Algorithm::English)
}

/// Parts between delimiters; a part in double quotes may hold them, and two quotes in it are one.
fn split(text: &str, delimiter: &str) -> Vec<String> {
    if delimiter.is_empty() {
        return vec![text.to_owned()];
    }
    let mut out = Vec::new();
    let mut rest = text;
    loop {
        if let Some((part, behind)) = quoted(rest, delimiter) {
            out.push(part);
            match behind {
                Some(behind) => rest = behind,
                None => return out,
            }
            continue;
        }
        match rest.split_once(delimiter) {
            Some((part, behind)) => {
                out.push(part.to_owned());
                rest = behind;
            }
            None => {
                out.push(rest.to_owned());
                return out;
            }
        }
    }
}

/// A quoted part that ends at a delimiter or at the end, and what follows the delimiter.
fn quoted<'a>(text: &'a str, delimiter: &str) -> Option<(String, Option<&'a str>)> {
    let mut rest = text.strip_prefix('"')?;
    let mut part = String::new();
    loop {
        let (before, behind) = rest.split_once('"')?;
        part.push_str(before);
        if let Some(behind) = behind.strip_prefix('"') {
            part.push('"');
            rest = behind;
        } else if behind.is_empty() {
            return Some((part, None));
        } else {
            return behind.strip_prefix(delimiter).map(|behind| (part, Some(behind)));
        }
    }
}
