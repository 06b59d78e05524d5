//! The compact form of values and stored documents. Integers of stored values stay exact, and
//! attributes keep the order of the document.

use std::sync::Arc;

use crate::error::{Code, Error, Result};
use crate::limits::VALUE_DEPTH_MAX;
use crate::value::{Object, Value, shared_name};

/// First byte of each document record: the format's version, which grows when the format changes.
const RECORD_VERSION: u8 = 1;

pub(super) const NULL: u8 = 0;
pub(super) const FALSE: u8 = 1;
pub(super) const TRUE: u8 = 2;
pub(super) const INT: u8 = 3;
pub(super) const UINT: u8 = 4;
pub(super) const DOUBLE: u8 = 5;
pub(super) const STRING: u8 = 6;
pub(super) const ARRAY: u8 = 7;
pub(super) const OBJECT: u8 = 8;
/// Tag of an array that contains only doubles, stored in eight bytes each; used for vectors.
pub(super) const DOUBLES: u8 = 9;
/// Tag of such an array whose doubles are equal to 32-bit floats, stored in four bytes each. Models
/// return such vectors.
pub(super) const FLOATS: u8 = 10;
/// Tag of a text that consists of pairs of lower-case hexadecimal digits, stored in one byte each;
/// used for digests.
pub(super) const HEX: u8 = 11;
/// Minimum length in bytes of a text that is stored as pairs of hexadecimal digits.
const HEX_BYTES_MIN: usize = 16;

/// A stored document: revision, key, then the document's attributes without `_key`, `_id`, `_rev`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'a> {
    /// `_rev` as a number.
    pub(crate) revision: u64,
    /// `_key`.
    pub(crate) key: &'a str,
    body: &'a [u8],
}

impl<'a> Record<'a> {
    /// Returns the record of a document. `_key`, `_id` and `_rev` of `document` are ignored.
    pub(crate) fn write(revision: u64, key: &str, document: &Object) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + document.len() * 24);
        let own = || document.iter().filter(|(name, _)| !is_head(name));
        Self::begin(revision, key, own().count(), &mut out);
        for (name, value) in own() {
            put_text(name, &mut out);
            put(value, &mut out);
        }
        out
    }

    /// Appends the first bytes of a record: version, revision, key and the number of attributes.
    pub(super) fn begin(revision: u64, key: &str, attributes: usize, out: &mut Vec<u8>) {
        out.push(RECORD_VERSION);
        out.extend_from_slice(&revision.to_be_bytes());
        out.push(u8::try_from(key.len()).expect("a key is at most 254 bytes"));
        out.extend_from_slice(key.as_bytes());
        out.push(OBJECT);
        put_varint(attributes as u64, out);
    }

    /// Reads the revision and key of a record; the body is decoded later.
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Self> {
        let (&version, rest) = bytes.split_first().ok_or_else(damaged)?;
        if version != RECORD_VERSION {
            return Err(damaged());
        }
        let (revision, rest) = rest.split_first_chunk::<8>().ok_or_else(damaged)?;
        let (&length, rest) = rest.split_first().ok_or_else(damaged)?;
        let (key, body) = rest.split_at_checked(usize::from(length)).ok_or_else(damaged)?;
        let key = std::str::from_utf8(key).map_err(|_| damaged())?;
        Ok(Self { revision: u64::from_be_bytes(*revision), key, body })
    }

    /// Returns a reader of the record's body, positioned after the first byte, which marks an
    /// object.
    pub(super) fn body(&self) -> Result<RecordReader<'a>> {
        match self.body.split_first() {
            Some((&OBJECT, bytes)) => Ok(RecordReader { bytes }),
            _ => Err(damaged()),
        }
    }

    /// Adds `_rev` and the stored attributes to `head`, which holds `_key` and `_id`. An edge's
    /// `_from` and `_to`, the first attributes in the edge's record, precede `_rev`.
    pub(crate) fn attributes_into(
        &self,
        head: &mut Object,
        revision: Value,
        is_edge: bool,
    ) -> Result<()> {
        let mut reader = self.body()?;
        let mut left = reader.count()?;
        let mut revision = Some(revision);
        while left > 0 {
            let name = reader.name()?;
            if !(is_edge && is_end(&name))
                && let Some(revision) = revision.take()
            {
                head.push_new("_rev", revision);
            }
            head.push_new(name, reader.value(1)?);
            left -= 1;
        }
        if let Some(revision) = revision {
            head.push_new("_rev", revision);
        }
        Ok(())
    }

    /// Adds the stored attributes named in `wanted` to `head` and skips all other attributes.
    pub(crate) fn wanted_into(&self, wanted: &[String], head: &mut Object) -> Result<()> {
        let mut reader = self.body()?;
        let mut left = wanted.iter().filter(|name| !is_head(name)).count();
        for _ in 0..reader.count()? {
            if left == 0 {
                return Ok(());
            }
            let name = reader.plain()?;
            if wanted.iter().any(|wanted| wanted == name) {
                head.push_new(shared_name(name), reader.value(1)?);
                left -= 1;
            } else {
                reader.skip(1)?;
            }
        }
        Ok(())
    }

    /// Decodes all stored attributes.
    #[cfg(test)]
    pub(crate) fn attributes(&self) -> Result<Object> {
        let mut object = Object::with_capacity(8);
        self.attributes_into(&mut object, Value::Null, false)?;
        object.remove("_rev");
        Ok(object)
    }
}

/// Whether a value is nested too deeply to be stored.
pub(crate) fn is_too_deep(value: &Value) -> bool {
    fn reaches(value: &Value, left: usize) -> bool {
        match value {
            Value::Array(items) => left == 0 || items.iter().any(|item| reaches(item, left - 1)),
            Value::Object(object) => {
                left == 0 || object.iter().any(|(_, value)| reaches(value, left - 1))
            }
            _ => false,
        }
    }
    reaches(value, VALUE_DEPTH_MAX - 1)
}

/// Whether an attribute is in the head of a record instead of its body.
pub(crate) fn is_head(name: &str) -> bool {
    matches!(name, "_key" | "_id" | "_rev")
}

/// Whether an attribute is an end of an edge.
pub(crate) fn is_end(name: &str) -> bool {
    matches!(name, "_from" | "_to")
}

/// Encodes a value.
pub fn encode_value(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    put(value, &mut out);
    out
}

/// Decodes the bytes of a value; fails for bytes that `encode_value` did not write.
pub fn decode_value(bytes: &[u8]) -> Result<Value> {
    let mut reader = RecordReader { bytes };
    let value = reader.value(0)?;
    if reader.bytes.is_empty() { Ok(value) } else { Err(damaged()) }
}

pub(super) fn damaged() -> Error {
    Error::new(Code::Internal, "a stored record is damaged")
}

/// Appends one attribute whose value is a text.
pub(super) fn put_text_attribute(name: &str, text: &str, out: &mut Vec<u8>) {
    put_text(name, out);
    put_string(text, out);
}

/// Appends one attribute.
pub(super) fn put_attribute(name: &str, value: &Value, out: &mut Vec<u8>) {
    put_text(name, out);
    put(value, out);
}

fn put(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.push(NULL),
        Value::Bool(false) => out.push(FALSE),
        Value::Bool(true) => out.push(TRUE),
        Value::Int(i) => {
            out.push(INT);
            put_varint(((i << 1) ^ (i >> 63)).cast_unsigned(), out);
        }
        Value::UInt(u) => {
            out.push(UINT);
            out.extend_from_slice(&u.to_le_bytes());
        }
        Value::Double(d) => {
            out.push(DOUBLE);
            out.extend_from_slice(&d.to_le_bytes());
        }
        Value::String(s) => put_string(s, out),
        Value::Array(items) => put_array(items, out),
        Value::Object(object) => put_object(object, out),
    }
}

fn put_string(text: &str, out: &mut Vec<u8>) {
    let digits = text.as_bytes();
    let is_hex = digits.len() >= HEX_BYTES_MIN
        && digits.len().is_multiple_of(2)
        && digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    if !is_hex {
        out.push(STRING);
        return put_text(text, out);
    }
    out.push(HEX);
    put_varint(digits.len() as u64 / 2, out);
    let value = |digit: u8| if digit <= b'9' { digit - b'0' } else { digit - b'a' + 10 };
    let (pairs, _) = digits.as_chunks::<2>();
    out.extend(pairs.iter().map(|[high, low]| value(*high) << 4 | value(*low)));
}

/// Returns the text of a value with the tag [`HEX`].
pub(super) fn hex_text(bytes: &[u8]) -> impl Iterator<Item = u8> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| DIGITS[usize::from(value)];
    bytes.iter().flat_map(move |byte| [digit(byte >> 4), digit(byte & 15)])
}

fn put_array(items: &[Value], out: &mut Vec<u8>) {
    let double = |item: &Value| match item {
        Value::Double(double) => Some(*double),
        _ => None,
    };
    let is_float = |item: &Value| {
        double(item).is_some_and(|double| f64::from(double as f32).to_bits() == double.to_bits())
    };
    let doubles = || items.iter().filter_map(double);
    let tag = match items {
        [] | [_] => ARRAY,
        _ if items.iter().all(is_float) => FLOATS,
        _ if items.iter().all(|item| double(item).is_some()) => DOUBLES,
        _ => ARRAY,
    };
    out.push(tag);
    put_varint(items.len() as u64, out);
    match tag {
        FLOATS => doubles().for_each(|double| out.extend((double as f32).to_le_bytes())),
        DOUBLES => doubles().for_each(|double| out.extend(double.to_le_bytes())),
        _ => items.iter().for_each(|item| put(item, out)),
    }
}

fn put_object(object: &Object, out: &mut Vec<u8>) {
    out.push(OBJECT);
    put_varint(object.len() as u64, out);
    for (name, value) in object.iter() {
        put_text(name, out);
        put(value, out);
    }
}

fn put_text(text: &str, out: &mut Vec<u8>) {
    put_varint(text.len() as u64, out);
    out.extend_from_slice(text.as_bytes());
}

/// Appends a number in varint format: seven bits per byte, lowest bits first.
fn put_varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Reads a number written by `put_varint` from the front of `bytes`.
fn take_varint(bytes: &mut &[u8]) -> Result<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first().ok_or_else(damaged)?;
        *bytes = rest;
        number |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(damaged())
}

/// The unread part of some stored bytes.
pub(super) struct RecordReader<'a> {
    bytes: &'a [u8],
}

impl<'a> RecordReader<'a> {
    pub(super) fn byte(&mut self) -> Result<u8> {
        let (&byte, rest) = self.bytes.split_first().ok_or_else(damaged)?;
        self.bytes = rest;
        Ok(byte)
    }

    pub(super) fn eight(&mut self) -> Result<[u8; 8]> {
        self.chunk()
    }

    /// Reads a fixed number of bytes.
    pub(super) fn chunk<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (chunk, rest) = self.bytes.split_first_chunk::<N>().ok_or_else(damaged)?;
        self.bytes = rest;
        Ok(*chunk)
    }

    /// Reads an item count. Refuses a count larger than the number of remaining bytes, so that
    /// damaged data cannot cause a large allocation.
    pub(super) fn count(&mut self) -> Result<usize> {
        let count = usize::try_from(take_varint(&mut self.bytes)?).map_err(|_| damaged())?;
        if count > self.bytes.len() { Err(damaged()) } else { Ok(count) }
    }

    pub(super) fn varint(&mut self) -> Result<u64> {
        take_varint(&mut self.bytes)
    }

    pub(super) fn int(&mut self) -> Result<i64> {
        let zigzag = self.varint()?;
        Ok((zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed())
    }

    /// Reads the bytes of a text.
    pub(super) fn raw(&mut self) -> Result<&'a [u8]> {
        let length = self.count()?;
        let (text, rest) = self.bytes.split_at(length);
        self.bytes = rest;
        Ok(text)
    }

    pub(super) fn plain(&mut self) -> Result<&'a str> {
        std::str::from_utf8(self.raw()?).map_err(|_| damaged())
    }

    fn text(&mut self) -> Result<Arc<str>> {
        self.plain().map(Arc::from)
    }

    fn name(&mut self) -> Result<Arc<str>> {
        self.plain().map(shared_name)
    }

    /// Skips a value.
    pub(super) fn skip(&mut self, depth: usize) -> Result<()> {
        if depth > VALUE_DEPTH_MAX {
            return Err(damaged());
        }
        match self.byte()? {
            NULL | FALSE | TRUE => {}
            INT => drop(take_varint(&mut self.bytes)?),
            UINT | DOUBLE => drop(self.eight()?),
            STRING | HEX => drop(self.leave(1)?),
            DOUBLES => drop(self.leave(8)?),
            FLOATS => drop(self.leave(4)?),
            ARRAY => {
                for _ in 0..self.count()? {
                    self.skip(depth + 1)?;
                }
            }
            OBJECT => {
                for _ in 0..self.count()? {
                    self.leave(1)?;
                    self.skip(depth + 1)?;
                }
            }
            _ => return Err(damaged()),
        }
        Ok(())
    }

    /// Skips an item count and that number of items of a fixed size. Returns the count.
    pub(super) fn leave(&mut self, size: usize) -> Result<usize> {
        Ok(self.fixed(size)?.len() / size)
    }

    /// Reads an item count and that number of items of a fixed size. Returns the items' bytes.
    fn fixed(&mut self, size: usize) -> Result<&'a [u8]> {
        let count = self.count()?;
        let bytes = count.checked_mul(size).ok_or_else(damaged)?;
        let (items, rest) = self.bytes.split_at_checked(bytes).ok_or_else(damaged)?;
        self.bytes = rest;
        Ok(items)
    }

    pub(super) fn value(&mut self, depth: usize) -> Result<Value> {
        if depth > VALUE_DEPTH_MAX {
            return Err(damaged());
        }
        Ok(match self.byte()? {
            NULL => Value::Null,
            FALSE => Value::Bool(false),
            TRUE => Value::Bool(true),
            INT => Value::Int(self.int()?),
            UINT => Value::UInt(u64::from_le_bytes(self.eight()?)),
            DOUBLE => Value::Double(f64::from_le_bytes(self.eight()?)),
            STRING => Value::String(self.text()?),
            HEX => {
                let text = hex_text(self.raw()?).collect();
                Value::String(String::from_utf8(text).map_err(|_| damaged())?.into())
            }
            ARRAY => {
                let count = self.count()?;
                let items = (0..count).map(|_| self.value(depth + 1));
                Value::array(items.collect::<Result<_>>()?)
            }
            DOUBLES => {
                // All bytes are there, so the list is made in one piece: a vector has hundreds.
                let (doubles, _) = self.fixed(8)?.as_chunks::<8>();
                let doubles = doubles.iter().map(|one| Value::Double(f64::from_le_bytes(*one)));
                Value::array(doubles.collect())
            }
            FLOATS => {
                let (floats, _) = self.fixed(4)?.as_chunks::<4>();
                let floats = floats.iter().map(|one| f64::from(f32::from_le_bytes(*one)));
                Value::array(floats.map(Value::Double).collect())
            }
            OBJECT => {
                let count = self.count()?;
                let mut object = Object::with_capacity(count);
                for _ in 0..count {
                    let name = self.name()?;
                    let value = self.value(depth + 1)?;
                    object.push_new(name, value);
                }
                Value::object(object)
            }
            _ => return Err(damaged()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_as_they_were() {
        let mut object = Object::new();
        object.insert("z", Value::Int(i64::MIN));
        object.insert("a", Value::array(vec![Value::Double(0.5), Value::Double(-0.0)]));
        object.insert(
            "",
            Value::array(vec![Value::Null, true.into(), Value::UInt(u64::MAX), "ä\0".into()]),
        );
        let value = Value::object(object);
        let back = decode_value(&encode_value(&value)).unwrap();
        assert_eq!(format!("{value:?}"), format!("{back:?}"));
    }

    #[test]
    fn what_is_not_wanted_is_stepped_over() {
        let text = br#"{"a":null,"b":[1,-2,"x",[true,{"c":2.5}]],"v":[0.5,1.5,2.5],"o":{"p":{"q":18446744073709551615}},"s":"text","z":7}"#;
        let all = crate::value::parse(text).unwrap();
        let all = all.as_object().unwrap();
        let bytes = Record::write(1, "k", all);
        let record = Record::read(&bytes).unwrap();
        for (name, value) in all.iter() {
            for also in ["_key", "missing"] {
                let mut found = Object::new();
                record.wanted_into(&[name.to_string(), also.to_owned()], &mut found).unwrap();
                assert_eq!((found.len(), found.get(name)), (1, Some(value)), "{name}");
            }
        }
        for end in bytes.len() - 20..bytes.len() {
            let cut = Record::read(&bytes[..end]).unwrap();
            assert!(
                cut.wanted_into(&["none".to_owned()], &mut Object::new()).is_err(),
                "cut at {end}"
            );
        }
    }

    #[test]
    fn a_value_that_is_not_too_deep_comes_back() {
        let nested = |depth| (0..depth).fold(Value::Null, |value, _| Value::array(vec![value]));
        let deepest = (0..).find(|depth| is_too_deep(&nested(*depth))).unwrap() - 1;
        let mut body = Object::new();
        body.insert("a", nested(deepest));
        let bytes = Record::write(1, "k", &body);
        assert_eq!(Record::read(&bytes).unwrap().attributes().unwrap().len(), 1);
    }

    #[test]
    fn each_cut_of_a_record_is_an_error_and_not_a_panic() {
        let mut body = Object::new();
        body.insert("text", "hello".into());
        body.insert("list", vec![1i64.into(), Value::Double(2.5)].into());
        let bytes = Record::write(7, "k", &body);
        assert_eq!(Record::read(&bytes).unwrap().attributes().unwrap().len(), 2);
        for end in 0..bytes.len() {
            assert!(
                Record::read(&bytes[..end]).and_then(|r| r.attributes()).is_err(),
                "cut at {end}"
            );
        }
    }
}
