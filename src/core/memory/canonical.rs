//! Writes a value as canonical JSON without a tree of JSON values in between: attributes sorted by
//! name, no spaces, whole numbers without a fraction.

use std::borrow::Cow;
use std::ops::Range;

use serde::ser::{self, Serialize};
use serde_json::{Error, Value};

use super::receipt::{canonical_json, write_text};

/// Returns the canonical JSON of a value: the text that
/// [`canonical_json`] makes of the value's JSON.
///
/// # Errors
/// The value cannot be represented as JSON.
pub fn canonical_of<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, Error> {
    canonical_with(value, &|_, _| true)
}

/// Returns the canonical JSON of a value. `keeps` gets the name and the canonical JSON of each
/// attribute of the outermost object, and returns whether the attribute is written.
///
/// # Errors
/// The value cannot be represented as JSON.
pub fn canonical_with<T: Serialize + ?Sized>(
    value: &T,
    keeps: &dyn Fn(&str, &[u8]) -> bool,
) -> Result<Vec<u8>, Error> {
    let mut writer = Writer { out: Vec::with_capacity(TEXT_BYTES), keeps, depth: 0 };
    value.serialize(&mut writer)?;
    Ok(writer.out)
}

/// Room for a canonical text, in bytes: most rows without long texts fit.
const TEXT_BYTES: usize = 4_096;

struct Writer<'f> {
    out: Vec<u8>,
    keeps: &'f dyn Fn(&str, &[u8]) -> bool,
    /// Number of objects and arrays around the next value.
    depth: usize,
}

impl Writer<'_> {
    fn plain<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        serde_json::to_writer(&mut self.out, value)
    }

    /// Writes the beginning of an enum's variant that has content.
    fn variant(&mut self, name: &str) {
        self.out.push(b'{');
        write_text(name, &mut self.out);
        self.out.push(b':');
        self.depth += 1;
    }

    fn end_variant(&mut self) {
        self.depth -= 1;
        self.out.push(b'}');
    }
}

/// An array that is being written.
struct List<'w, 'f> {
    writer: &'w mut Writer<'f>,
    is_empty: bool,
    is_variant: bool,
}

/// An object whose attributes are being written, one after the other in their own order.
struct Attributes<'w, 'f> {
    writer: &'w mut Writer<'f>,
    start: usize,
    named: Vec<(Cow<'static, str>, Range<usize>)>,
    /// Name of the next attribute of a map.
    name: Option<String>,
    is_variant: bool,
}

impl<'w, 'f> List<'w, 'f> {
    fn begin(writer: &'w mut Writer<'f>, is_variant: bool) -> Self {
        writer.out.push(b'[');
        writer.depth += 1;
        Self { writer, is_empty: true, is_variant }
    }

    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        if !std::mem::take(&mut self.is_empty) {
            self.writer.out.push(b',');
        }
        value.serialize(&mut *self.writer)
    }

    fn finish(self) {
        self.writer.depth -= 1;
        self.writer.out.push(b']');
        if self.is_variant {
            self.writer.end_variant();
        }
    }
}

impl<'w, 'f> Attributes<'w, 'f> {
    fn begin(writer: &'w mut Writer<'f>, most: usize, is_variant: bool) -> Self {
        writer.depth += 1;
        let start = writer.out.len();
        Self { writer, start, named: Vec::with_capacity(most), name: None, is_variant }
    }

    fn attribute<T: Serialize + ?Sized>(
        &mut self,
        name: Cow<'static, str>,
        value: &T,
    ) -> Result<(), Error> {
        let start = self.writer.out.len();
        value.serialize(&mut *self.writer)?;
        self.named.push((name, start..self.writer.out.len()));
        Ok(())
    }

    /// Puts the attributes into the order of their names.
    fn finish(mut self) {
        self.writer.depth -= 1;
        self.named.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        let written = self.writer.out.split_off(self.start);
        self.writer.out.push(b'{');
        let mut is_first = true;
        for (name, at) in self.named {
            let value = &written[at.start - self.start..at.end - self.start];
            if self.writer.depth == 0 && !(self.writer.keeps)(&name, value) {
                continue;
            }
            if !std::mem::take(&mut is_first) {
                self.writer.out.push(b',');
            }
            write_text(&name, &mut self.writer.out);
            self.writer.out.push(b':');
            self.writer.out.extend_from_slice(value);
        }
        self.writer.out.push(b'}');
        if self.is_variant {
            self.writer.end_variant();
        }
    }
}

/// Writes scalars as JSON.
macro_rules! plain {
    ($($method:ident($kind:ty))*) => {$(
        fn $method(self, value: $kind) -> Result<(), Error> {
            self.plain(&value)
        }
    )*};
}

impl<'w, 'f> ser::Serializer for &'w mut Writer<'f> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = List<'w, 'f>;
    type SerializeTuple = List<'w, 'f>;
    type SerializeTupleStruct = List<'w, 'f>;
    type SerializeTupleVariant = List<'w, 'f>;
    type SerializeMap = Attributes<'w, 'f>;
    type SerializeStruct = Attributes<'w, 'f>;
    type SerializeStructVariant = Attributes<'w, 'f>;

    plain! {
        serialize_bool(bool) serialize_i8(i8) serialize_i16(i16) serialize_i32(i32)
        serialize_i64(i64) serialize_u8(u8) serialize_u16(u16) serialize_u32(u32)
        serialize_u64(u64) serialize_char(char)
    }

    fn serialize_f32(self, value: f32) -> Result<(), Error> {
        self.serialize_f64(value.into())
    }

    fn serialize_f64(self, value: f64) -> Result<(), Error> {
        self.out.extend_from_slice(canonical_json(&Value::from(value)).as_bytes());
        Ok(())
    }

    fn serialize_str(self, text: &str) -> Result<(), Error> {
        write_text(text, &mut self.out);
        Ok(())
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_none(self) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Error> {
        self.out.extend_from_slice(b"null");
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<(), Error> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        self.variant(variant);
        value.serialize(&mut *self)?;
        self.end_variant();
        Ok(())
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<List<'w, 'f>, Error> {
        Ok(List::begin(self, false))
    }

    fn serialize_tuple(self, _: usize) -> Result<List<'w, 'f>, Error> {
        Ok(List::begin(self, false))
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<List<'w, 'f>, Error> {
        Ok(List::begin(self, false))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<List<'w, 'f>, Error> {
        self.variant(variant);
        Ok(List::begin(self, true))
    }

    fn serialize_map(self, len: Option<usize>) -> Result<Attributes<'w, 'f>, Error> {
        Ok(Attributes::begin(self, len.unwrap_or(0), false))
    }

    fn serialize_struct(self, _: &'static str, len: usize) -> Result<Attributes<'w, 'f>, Error> {
        Ok(Attributes::begin(self, len, false))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        len: usize,
    ) -> Result<Attributes<'w, 'f>, Error> {
        self.variant(variant);
        Ok(Attributes::begin(self, len, true))
    }
}

/// Implements the traits of lists, which differ in names only.
macro_rules! lists {
    ($($of:ident $method:ident)*) => {$(
        impl ser::$of for List<'_, '_> {
            type Ok = ();
            type Error = Error;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
                self.item(value)
            }

            fn end(self) -> Result<(), Error> {
                self.finish();
                Ok(())
            }
        }
    )*};
}

lists! {
    SerializeSeq serialize_element
    SerializeTuple serialize_element
    SerializeTupleStruct serialize_field
    SerializeTupleVariant serialize_field
}

/// Implements the traits of objects with fixed names.
macro_rules! structs {
    ($($of:ident)*) => {$(
        impl ser::$of for Attributes<'_, '_> {
            type Ok = ();
            type Error = Error;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                name: &'static str,
                value: &T,
            ) -> Result<(), Error> {
                self.attribute(Cow::Borrowed(name), value)
            }

            fn end(self) -> Result<(), Error> {
                self.finish();
                Ok(())
            }
        }
    )*};
}

structs! { SerializeStruct SerializeStructVariant }

impl ser::SerializeMap for Attributes<'_, '_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.name = match serde_json::to_value(key)? {
            Value::String(name) => Some(name),
            other @ (Value::Number(_) | Value::Bool(_)) => Some(other.to_string()),
            _ => return Err(ser::Error::custom("a name must be a text")),
        };
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        let name = self.name.take().unwrap_or_default();
        self.attribute(Cow::Owned(name), value)
    }

    fn end(self) -> Result<(), Error> {
        self.finish();
        Ok(())
    }
}
