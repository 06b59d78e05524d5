//! Writes stored documents as JSON text, and computes the memory size that their values would have,
//! without decoding the documents into values.

use super::document::{
    ARRAY, DOUBLE, DOUBLES, FALSE, FLOATS, HEX, INT, NULL, OBJECT, STRING, TRUE, UINT, hex_text,
};
use super::document::{Record, RecordReader, damaged};
use crate::error::Result;
use crate::limits::VALUE_DEPTH_MAX;
use crate::value::{
    Sink, VALUE_BYTES, Value, write_double, write_escaped, write_escaped_bytes, write_integer,
    write_string,
};

impl Record<'_> {
    /// Checks the whole body of a record. Returns the memory size of the decoded attributes, as
    /// `Value::size_bytes` computes it.
    pub(crate) fn checked_size(&self) -> Result<usize> {
        let mut reader = self.body()?;
        let mut size = 0;
        for _ in 0..reader.count()? {
            size += reader.checked()? + VALUE_BYTES + reader.size(1)?;
        }
        Ok(size)
    }

    /// Decodes one stored attribute.
    pub(crate) fn attribute(&self, name: &str) -> Result<Option<Value>> {
        let mut reader = self.body()?;
        for _ in 0..reader.count()? {
            if reader.raw()? == name.as_bytes() {
                return reader.value(1).map(Some);
            }
            reader.skip(1)?;
        }
        Ok(None)
    }

    /// Appends the document as JSON text: `_key`, `_id`, an edge's ends, `_rev`, then all other
    /// attributes in stored order. The caller must have checked the texts in the record.
    pub(crate) fn write_text(
        &self,
        collection: &str,
        revision: &str,
        is_edge: bool,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        out.put("{\"_key\":");
        write_string(self.key, out);
        out.put(",\"_id\":\"");
        write_escaped(collection, out);
        out.put("/");
        write_escaped(self.key, out);
        out.put("\"");
        let mut reader = self.body()?;
        let mut revision = Some(revision);
        for _ in 0..reader.count()? {
            let name = reader.raw()?;
            if !(is_edge && matches!(name, b"_from" | b"_to")) {
                put_revision(revision.take(), out);
            }
            out.put(",\"");
            write_escaped_bytes(name, out);
            out.put("\":");
            reader.write_text(1, out)?;
        }
        put_revision(revision, out);
        out.put("}");
        Ok(())
    }
}

fn put_revision(revision: Option<&str>, out: &mut Vec<u8>) {
    if let Some(revision) = revision {
        out.put(",\"_rev\":");
        write_string(revision, out);
    }
}

impl RecordReader<'_> {
    /// Skips a text and returns its length in bytes.
    fn checked(&mut self) -> Result<usize> {
        let text = self.raw()?;
        // Most texts are ASCII, and the check for ASCII is faster than the check for UTF-8.
        if !text.is_ascii() {
            std::str::from_utf8(text).map_err(|_| damaged())?;
        }
        Ok(text.len())
    }

    /// Returns the memory size that an encoded value has after it is decoded. Checks the value's
    /// texts and nesting.
    fn size(&mut self, depth: usize) -> Result<usize> {
        if depth > VALUE_DEPTH_MAX {
            return Err(damaged());
        }
        let inner = match self.byte()? {
            NULL | FALSE | TRUE => 0,
            INT => {
                self.varint()?;
                0
            }
            UINT | DOUBLE => {
                self.eight()?;
                0
            }
            STRING => self.checked()?,
            HEX => self.leave(1)? * 2,
            DOUBLES => self.leave(8)? * VALUE_BYTES,
            FLOATS => self.leave(4)? * VALUE_BYTES,
            ARRAY => {
                let mut size = 0;
                for _ in 0..self.count()? {
                    size += self.size(depth + 1)?;
                }
                size
            }
            OBJECT => {
                let mut size = 0;
                for _ in 0..self.count()? {
                    size += self.checked()? + VALUE_BYTES + self.size(depth + 1)?;
                }
                size
            }
            _ => return Err(damaged()),
        };
        Ok(VALUE_BYTES + inner)
    }

    /// Appends an encoded value as JSON text, with the same result as `write_text` for the decoded
    /// value.
    fn write_text(&mut self, depth: usize, out: &mut Vec<u8>) -> Result<()> {
        if depth > VALUE_DEPTH_MAX {
            return Err(damaged());
        }
        match self.byte()? {
            NULL => out.put("null"),
            FALSE => out.put("false"),
            TRUE => out.put("true"),
            INT => {
                let int = self.int()?;
                write_integer(int < 0, int.unsigned_abs(), out);
            }
            UINT => write_integer(false, u64::from_le_bytes(self.eight()?), out),
            DOUBLE => write_double(f64::from_le_bytes(self.eight()?), out),
            STRING => {
                out.put("\"");
                write_escaped_bytes(self.raw()?, out);
                out.put("\"");
            }
            HEX => {
                out.put("\"");
                out.extend(hex_text(self.raw()?));
                out.put("\"");
            }
            DOUBLES => {
                out.put("[");
                for at in 0..self.count()? {
                    separate(at, out);
                    write_double(f64::from_le_bytes(self.eight()?), out);
                }
                out.put("]");
            }
            FLOATS => {
                out.put("[");
                for at in 0..self.count()? {
                    separate(at, out);
                    write_double(f32::from_le_bytes(self.chunk()?).into(), out);
                }
                out.put("]");
            }
            ARRAY => {
                out.put("[");
                for at in 0..self.count()? {
                    separate(at, out);
                    self.write_text(depth + 1, out)?;
                }
                out.put("]");
            }
            OBJECT => {
                out.put("{");
                for at in 0..self.count()? {
                    separate(at, out);
                    out.put("\"");
                    write_escaped_bytes(self.raw()?, out);
                    out.put("\":");
                    self.write_text(depth + 1, out)?;
                }
                out.put("}");
            }
            _ => return Err(damaged()),
        }
        Ok(())
    }
}

fn separate(at: usize, out: &mut Vec<u8>) {
    if at > 0 {
        out.put(",");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{Object, parse, write_text};

    const DOCUMENTS: [&str; 7] = [
        "{}",
        r#"{"n":0,"m":-1,"big":18446744073709551615,"low":-9223372036854775808,"t":true,"f":false,"z":null}"#,
        r#"{"text":"plain","quoted \"name\"":"a\\b\"c\nd\re\tf\bg\fh\u0001i\u001f","long":"0123456789abcdef0123456789abcde\"","ä":"😀 é","":""}"#,
        r#"{"v":[0.5,-0.0,1e300,1e-7,9007199254740992],"w":[1,2.5,"x",[],[[{}]]],"one":[0.5]}"#,
        r#"{"hex":"00ff10abcdef0123","odd":"00ff10abcdef012","upper":"00FF10abcdef0123","short":"00ff","v":[0.1,0.5]}"#,
        r#"{"o":{"p":{"q":[{"r":1},{"r":null}]},"s":"t"},"e":{}}"#,
        r#"{"_from":"c/1","_to":"c/2","n":1}"#,
    ];

    fn whole(record: &Record<'_>, is_edge: bool) -> Value {
        let mut object = Object::new();
        object.push_new("_key", record.key.into());
        object.push_new("_id", format!("c/{}", record.key).into());
        record.attributes_into(&mut object, "_rev-".into(), is_edge).unwrap();
        Value::object(object)
    }

    fn text(record: &Record<'_>, is_edge: bool) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        record.write_text("c", "_rev-", is_edge, &mut out).map(|()| out)
    }

    #[test]
    fn text_size_and_attributes_are_those_of_the_decoded_document() {
        for document in DOCUMENTS {
            let given = parse(document.as_bytes()).unwrap();
            let given = given.as_object().unwrap();
            let bytes = Record::write(7, "k", given);
            let record = Record::read(&bytes).unwrap();
            for is_edge in [false, true] {
                let decoded = whole(&record, is_edge);
                assert_eq!(
                    String::from_utf8(text(&record, is_edge).unwrap()).unwrap(),
                    decoded.to_json()
                );
                let mut bytes = Vec::new();
                write_text(&decoded, &mut bytes);
                assert_eq!(bytes, decoded.to_json().as_bytes());
            }
            let own = Value::object(given.clone()).size_bytes() - VALUE_BYTES;
            assert_eq!(record.checked_size().unwrap(), own, "{document}");
            for (name, value) in given.iter() {
                let found = record.attribute(name).unwrap();
                assert_eq!(format!("{found:?}"), format!("{:?}", Some(value)));
            }
            assert!(record.attribute("missing").unwrap().is_none());
        }
    }

    #[test]
    fn what_passes_the_check_never_fails_later() {
        let mut refused = 0;
        for document in DOCUMENTS {
            let given = parse(document.as_bytes()).unwrap();
            let bytes = Record::write(7, "k", given.as_object().unwrap());
            for at in 0..bytes.len() {
                for change in [1, 0x80, 0xff] {
                    let mut bytes = bytes.clone();
                    bytes[at] ^= change;
                    let Ok(record) = Record::read(&bytes) else { continue };
                    if record.checked_size().is_err() {
                        refused += 1;
                        continue;
                    }
                    let text = text(&record, true).expect("was checked");
                    assert!(String::from_utf8(text).is_ok(), "{document} at {at}");
                    whole(&record, true);
                    record.attribute("none").expect("was checked");
                }
                let cut = Record::read(&bytes[..at]).and_then(|record| record.checked_size());
                assert!(cut.is_err(), "{document} cut at {at}");
            }
        }
        assert!(refused > 100, "{refused}");
    }
}
