//! Hand-written decoder for arguments that are a text or an object; its errors name the wrong
//! field, while an untagged enum of serde only reports that no variant matches.

use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::{Error as ValueError, MapAccessDeserializer};
use serde::de::{Deserializer, Error, MapAccess, Visitor};

/// Decodes a text with `of_text`, or an object of the type `P`; `expected` describes the accepted
/// forms in errors.
pub(super) fn text_or_object<'de, D: Deserializer<'de>, T, P: Deserialize<'de>>(
    deserializer: D,
    expected: &'static str,
    of_text: fn(&str) -> Result<T, ValueError>,
    of_object: fn(P) -> T,
) -> Result<T, D::Error> {
    deserializer.deserialize_any(Either { expected, of_text, of_object, object: PhantomData })
}

struct Either<T, P> {
    expected: &'static str,
    of_text: fn(&str) -> Result<T, ValueError>,
    of_object: fn(P) -> T,
    object: PhantomData<P>,
}

impl<'de, T, P: Deserialize<'de>> Visitor<'de> for Either<T, P> {
    type Value = T;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        (self.of_text)(text).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        P::deserialize(MapAccessDeserializer::new(map)).map(self.of_object)
    }
}
