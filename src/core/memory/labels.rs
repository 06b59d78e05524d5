//! Labels of messages and documents: user, session, tags and metadata, by which searches select.
//!
//! A caller gives labels as an object. They are stored as a list of texts, `user=ada`,
//! `session=s1`, `tag=harbour` and `metadata.ticket=42`, so that one condition of a query selects
//! by any of them. The window does not show labels.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::message::or_default;
use crate::error::{Error, Result};
use crate::limits::{
    LABEL_BYTES_MAX, METADATA_KEY_BYTES_MAX, METADATA_PAIRS_MAX, METADATA_VALUE_BYTES_MAX, TAGS_MAX,
};

/// Name of the attribute in a message's `meta` that has the stored labels.
pub const LABELS: &str = "labels";
/// Name of the attribute in a message's `meta` that has the session; an index uses it.
pub const SESSION: &str = "session";

const USER: &str = "user=";
const SESSION_IS: &str = "session=";
const TAG: &str = "tag=";
const METADATA: &str = "metadata.";

/// Labels of a message or document, as a caller gives them; as conditions of a search, all of them
/// must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Labels {
    /// The person whose text this is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The session (thread) to which the text belongs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Tags of the caller's choice.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Up to 16 further attributes, all texts.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

impl JsonSchema for Labels {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Labels".into()
    }

    /// Returns one short schema, since several tools have it. The attributes of `metadata` have any
    /// names; in the strict form of a provider, which forbids this, it has none.
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "properties": {
                "user": {"type": "string"},
                "session": {"type": "string"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "metadata": {"type": "object", "properties": {}, "additionalProperties": {"type": "string"}},
            },
            "additionalProperties": false,
        })
    }
}

impl Labels {
    /// Refuses labels beyond their bounds; `at` names the argument in errors,
    /// and is empty if the labels themselves are the arguments.
    pub fn check(&self, at: &str) -> Result<()> {
        let fault = |field: &str, told: String| {
            let at = if at.is_empty() { field.to_owned() } else { format!("{at}.{field}") };
            Err(Error::argument(&at, told))
        };
        let fits = |text: &str| {
            !text.is_empty() && text.len() <= LABEL_BYTES_MAX && !text.chars().any(char::is_control)
        };
        let told = || format!("use 1 to {LABEL_BYTES_MAX} bytes without control characters");
        for (field, text) in [("user", &self.user), ("session", &self.session)] {
            if text.as_deref().is_some_and(|text| !fits(text)) {
                return fault(field, told());
            }
        }
        if self.tags.len() > TAGS_MAX {
            return fault("tags", format!("more than {TAGS_MAX}"));
        }
        if !self.tags.iter().all(|tag| fits(tag)) {
            return fault("tags", told());
        }
        if self.metadata.len() > METADATA_PAIRS_MAX {
            return fault("metadata", format!("more than {METADATA_PAIRS_MAX} attributes"));
        }
        for (key, value) in &self.metadata {
            let is_name = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
            if key.is_empty() || key.len() > METADATA_KEY_BYTES_MAX || !key.bytes().all(is_name) {
                let told = format!("name: use 1 to {METADATA_KEY_BYTES_MAX} of A-Z a-z 0-9 _ . -");
                return fault("metadata", told);
            }
            if value.len() > METADATA_VALUE_BYTES_MAX {
                let told = format!("longer than {METADATA_VALUE_BYTES_MAX} bytes");
                return fault(&format!("metadata.{key}"), told);
            }
        }
        Ok(())
    }

    /// Returns the labels in the form in which they are stored and searched, without repetition.
    pub fn stored(&self) -> Vec<String> {
        let one = |prefix: &str, text: &String| format!("{prefix}{text}");
        let mut all = Vec::new();
        all.extend(self.user.iter().map(|user| one(USER, user)));
        all.extend(self.session.iter().map(|session| one(SESSION_IS, session)));
        all.extend(self.tags.iter().map(|tag| one(TAG, tag)));
        all.extend(self.metadata.iter().map(|(key, value)| format!("{METADATA}{key}={value}")));
        let mut known = std::collections::BTreeSet::new();
        all.retain(|label| known.insert(label.clone()));
        all
    }

    /// Returns the labels that are stored as a list; ignores texts in another form.
    pub fn read<'a>(stored: impl IntoIterator<Item = &'a str>) -> Self {
        let mut labels = Self::default();
        for label in stored {
            if let Some(user) = label.strip_prefix(USER) {
                labels.user = Some(user.to_owned());
            } else if let Some(session) = label.strip_prefix(SESSION_IS) {
                labels.session = Some(session.to_owned());
            } else if let Some(tag) = label.strip_prefix(TAG) {
                labels.tags.push(tag.to_owned());
            } else if let Some((key, value)) =
                label.strip_prefix(METADATA).and_then(|pair| pair.split_once('='))
            {
                labels.metadata.insert(key.to_owned(), value.to_owned());
            }
        }
        labels
    }

    /// Returns the labels of a message, from its `meta`; `None` if it has none.
    pub fn of_meta(meta: &Map<String, Value>) -> Option<Self> {
        let stored = meta.get(LABELS)?.as_array()?;
        Some(Self::read(stored.iter().filter_map(Value::as_str)))
    }

    /// Stores the labels in a message's `meta`.
    pub fn store(&self, meta: &mut Map<String, Value>) {
        let stored = self.stored();
        if !stored.is_empty() {
            meta.insert(LABELS.into(), stored.into());
        }
        if let Some(session) = &self.session {
            meta.insert(SESSION.into(), session.as_str().into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_labels_are_read_as_they_were_given() {
        let labels = Labels {
            user: Some("tag=ada".into()),
            session: Some("s=1".into()),
            tags: vec!["user=x".into(), "b".into()],
            metadata: BTreeMap::from([("a.b".into(), "c=d".into()), ("e".into(), String::new())]),
        };
        let stored = labels.stored();
        assert_eq!(Labels::read(stored.iter().map(String::as_str)), labels);
        let mut meta = Map::new();
        labels.store(&mut meta);
        assert_eq!(Labels::of_meta(&meta), Some(labels));
        assert_eq!(meta[SESSION], "s=1");
        Labels::default().store(&mut meta);
        assert!(Labels::of_meta(&Map::new()).is_none());
    }

    #[test]
    fn labels_beyond_their_bounds_are_refused_by_name() {
        let long = "x".repeat(LABEL_BYTES_MAX + 1);
        let pairs = (0..=METADATA_PAIRS_MAX).map(|n| (format!("k{n}"), String::new())).collect();
        let pair = |key: &str, value: String| BTreeMap::from([(key.to_owned(), value)]);
        let usual = Labels::default;
        for (labels, field) in [
            (Labels { user: Some(String::new()), ..usual() }, "user"),
            (Labels { user: Some("a\nb".into()), ..usual() }, "user"),
            (Labels { session: Some(long.clone()), ..usual() }, "session"),
            (Labels { tags: vec!["a".into(); TAGS_MAX + 1], ..usual() }, "tags"),
            (Labels { tags: vec![long], ..usual() }, "tags"),
            (Labels { metadata: pairs, ..usual() }, "metadata"),
            (Labels { metadata: pair("a b", String::new()), ..usual() }, "metadata"),
            (Labels { metadata: pair("", String::new()), ..usual() }, "metadata"),
            (
                Labels { metadata: pair("k", "v".repeat(METADATA_VALUE_BYTES_MAX + 1)), ..usual() },
                "metadata.k",
            ),
        ] {
            let error = labels.check("labels").unwrap_err();
            assert_eq!(error.fields["field"], format!("labels.{field}"));
        }
        usual().check("labels").unwrap();
    }
}
