//! Encodes the JSON documents of a request directly as record attributes, without building values
//! in memory.
//!
//! A draft is plain if it is an object with few attributes, distinct attribute names, and a `_key`
//! that is missing or a text. For a draft that is not plain, this module checks only the JSON
//! syntax; the function `insert` parses the text again.

use std::borrow::Cow;
use std::ops::Range;

use super::document::{Record, put_attribute, put_text_attribute};
use crate::error::Result;
use crate::limits::VALUE_DEPTH_MAX;
use crate::value::{JSON_DEPTH_MAX, JsonReader};

/// Maximum number of attributes of a plain draft, small enough for linear search.
const NAMES_MAX: usize = 32;

// The JSON parser's nesting limit ensures that every draft can be stored.
const _: () = assert!(JSON_DEPTH_MAX + 1 < VALUE_DEPTH_MAX);

/// All documents of a request's body.
#[derive(Debug)]
pub(crate) struct Drafts<'a> {
    /// Whether the request's body is a list; any other body is one draft.
    pub(crate) is_list: bool,
    /// The drafts in the order of the request.
    pub(crate) list: Vec<Draft<'a>>,
    text: &'a [u8],
    /// Encoded attributes of all plain drafts.
    bytes: Vec<u8>,
}

/// One document of the request.
#[derive(Debug)]
pub(crate) struct Draft<'a> {
    text: Range<usize>,
    plain: Option<Plain<'a>>,
}

#[derive(Debug)]
struct Plain<'a> {
    key: Option<Cow<'a, str>>,
    attributes: usize,
    bytes: Range<usize>,
}

impl Draft<'_> {
    /// Whether the draft is plain; only a plain draft has encoded attributes.
    pub(crate) fn is_plain(&self) -> bool {
        self.plain.is_some()
    }

    /// The `_key` of a plain draft, if any.
    pub(crate) fn key(&self) -> Option<&str> {
        self.plain.as_ref()?.key.as_deref()
    }
}

impl<'a> Drafts<'a> {
    /// Reads a request body; fails with the same errors as `parse`.
    pub(crate) fn read(text: &'a [u8]) -> Result<Self> {
        let mut reader = JsonReader::new(text)?;
        let is_list = reader.peek() == Some(b'[');
        let (list, bytes) = (Vec::new(), Vec::with_capacity(text.len()));
        let mut drafts = Self { is_list, list, text, bytes };
        let mut names = Vec::new();
        if is_list {
            reader.items(|reader| drafts.take(reader, 1, &mut names))?;
        } else {
            drafts.take(&mut reader, 0, &mut names)?;
        }
        reader.end()?;
        Ok(drafts)
    }

    /// The JSON text of a draft.
    pub(crate) fn text(&self, draft: &Draft<'a>) -> &'a [u8] {
        &self.text[draft.text.clone()]
    }

    /// Writes the record of a plain draft into `out`; returns `false` if the draft is not plain.
    pub(crate) fn record(
        &self,
        draft: &Draft<'a>,
        revision: u64,
        key: &str,
        out: &mut Vec<u8>,
    ) -> bool {
        out.clear();
        let Some(plain) = &draft.plain else { return false };
        Record::begin(revision, key, plain.attributes, out);
        out.extend_from_slice(&self.bytes[plain.bytes.clone()]);
        true
    }

    fn take(
        &mut self,
        reader: &mut JsonReader<'a>,
        depth: usize,
        names: &mut Vec<Cow<'a, str>>,
    ) -> Result<()> {
        let from = reader.at();
        names.clear();
        let plain = match reader.peek() {
            Some(b'{') => self.object(reader, depth, names)?,
            _ => reader.value(depth).map(|_| None)?,
        };
        self.list.push(Draft { text: from..reader.at(), plain });
        Ok(())
    }

    /// Reads a JSON object; returns `None` for an object that is not a plain draft.
    fn object(
        &mut self,
        reader: &mut JsonReader<'a>,
        depth: usize,
        names: &mut Vec<Cow<'a, str>>,
    ) -> Result<Option<Plain<'a>>> {
        let (from, out) = (self.bytes.len(), &mut self.bytes);
        let (mut key, mut attributes, mut is_plain) = (None, 0, true);
        reader.members(|reader, name| {
            is_plain &= names.len() < NAMES_MAX && !names.contains(&name);
            let is_text = reader.peek() == Some(b'"');
            match &*name {
                "_key" if is_text => key = Some(reader.string()?),
                "_key" => {
                    is_plain = false;
                    reader.value(depth + 1)?;
                }
                "_id" | "_rev" => drop(reader.value(depth + 1)?),
                _ if !is_plain => drop(reader.value(depth + 1)?),
                _ => {
                    attributes += 1;
                    if is_text {
                        put_text_attribute(&name, &reader.string()?, out);
                    } else {
                        put_attribute(&name, &reader.value(depth + 1)?, out);
                    }
                }
            }
            if is_plain {
                names.push(name);
            }
            Ok(())
        })?;
        if !is_plain {
            out.truncate(from);
            return Ok(None);
        }
        Ok(Some(Plain { key, attributes, bytes: from..out.len() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::parse;

    fn record_of_value(text: &[u8]) -> Vec<u8> {
        let value = parse(text).unwrap();
        Record::write(7, "k", value.as_object().unwrap())
    }

    #[test]
    fn a_plain_draft_is_the_record_of_its_value() {
        for text in [
            r#"{}"#,
            r#" { "a" : "b\u00e4\n" , "\u0062":[1,-0,2.5e3,null,true,{"c":{"c":1}}], "": "" } "#,
            r#"{"_key":"x\u0079","_id":{"a":1},"_rev":null,"v":[0.5,1.5],"n":18446744073709551615}"#,
        ] {
            let drafts = Drafts::read(text.as_bytes()).unwrap();
            let mut record = Vec::new();
            assert!(!drafts.is_list && drafts.record(&drafts.list[0], 7, "k", &mut record));
            assert_eq!(record, record_of_value(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn a_list_keeps_its_order_and_what_is_not_plain_keeps_its_text() {
        let wide: Vec<String> = (0..=NAMES_MAX).map(|n| format!("\"n{n}\":{n}")).collect();
        let wide = format!("{{{}}}", wide.join(","));
        let odd =
            ["5", "[{}]", r#"{"a":1,"a":2}"#, r#"{"_key":1}"#, r#"{"_key":"a","_key":"b"}"#, &wide];
        let list = odd.map(|odd| format!("{{\"_key\":\"k\"}}, {odd}")).join(" ,");
        let text = format!(" [ {list} ] ");
        let drafts = Drafts::read(text.as_bytes()).unwrap();
        assert!(drafts.is_list && drafts.list.len() == 2 * odd.len());
        for (pair, odd) in drafts.list.chunks(2).zip(odd) {
            assert!(pair[0].is_plain() && pair[0].key() == Some("k"));
            assert!(!pair[1].is_plain() && pair[1].key().is_none());
            assert_eq!(drafts.text(&pair[1]), odd.as_bytes());
            assert!(!drafts.record(&pair[1], 7, "k", &mut Vec::new()));
        }
        assert!(Drafts::read(b"[]").unwrap().list.is_empty());
    }

    #[test]
    fn what_is_no_json_is_refused_in_the_same_words() {
        let deep = format!("[{{\"a\":{}", "[".repeat(JSON_DEPTH_MAX));
        for text in [
            "",
            "[",
            "[{]",
            "[{\"a\"}]",
            "[{\"a\":}]",
            "[{\"a\":1,}]",
            "[{\"a\":\"\\x\"}]",
            "[{\"a\":\"\n\"}]",
            "[{\"a\":1}",
            "[{\"a\":1} {}]",
            "[{}],",
            "{\"a\":1}}",
            "{\"a\":1,\"a\":x}",
            "[{\"_key\":\"]",
            "[{\"_rev\":-}]",
            "[{\"a\":1e999}]",
            "{a:1}",
            "{",
            &deep,
        ] {
            let expected = parse(text.as_bytes()).expect_err(text).message;
            assert_eq!(Drafts::read(text.as_bytes()).expect_err(text).message, expected, "{text}");
        }
        assert!(Drafts::read(&[b'"', 0xff, b'"']).is_err());
    }
}
