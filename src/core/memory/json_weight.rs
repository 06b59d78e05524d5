//! Estimates the memory of the values of a JSON text, before the text is parsed.

/// Memory of a value in an array or object, in bytes: 72 for the value, twice that while the list
/// grows.
const VALUE_BYTES: u64 = 144;
/// Memory of an array besides its values, in bytes: the first value reserves room for four.
const ARRAY_BYTES: u64 = 320;
/// Memory of an object besides its values, in bytes.
const OBJECT_BYTES: u64 = 96;
/// Memory of the name of a value, in bytes: the text and the entry in the object's table.
const NAME_BYTES: u64 = 320;

/// The values of a JSON text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JsonWeight {
    /// Number of arrays, objects and commas outside of texts. A text has at most one value more
    /// than twice this number.
    pub values: u64,
    /// Estimate of the memory that the values take besides their texts, in bytes. The estimate is
    /// rather too large than too small.
    pub bytes: u64,
}

impl JsonWeight {
    /// Returns the weight of a text, which need not be JSON.
    pub fn of(text: &[u8]) -> Self {
        let mut weight = Self::default();
        let mut rest = text;
        while let Some((byte, after)) = rest.split_first() {
            rest = after;
            match byte {
                b'"' => rest = after_string(after),
                b'[' => weight.add(1, ARRAY_BYTES),
                b'{' => weight.add(1, OBJECT_BYTES),
                b',' => weight.add(1, VALUE_BYTES),
                b':' => weight.add(0, NAME_BYTES),
                _ => {}
            }
        }
        weight
    }

    fn add(&mut self, values: u64, bytes: u64) {
        self.values += values;
        self.bytes += bytes;
    }
}

/// Returns the rest of the text after the end of a string whose first quotation mark was read.
fn after_string(mut rest: &[u8]) -> &[u8] {
    loop {
        let Some(at) = rest.iter().position(|byte| matches!(byte, b'"' | b'\\')) else {
            return &[];
        };
        match rest[at] {
            b'"' => return &rest[at + 1..],
            // The character after a backslash does not end the string.
            _ => rest = rest.get(at + 2..).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_outside_of_strings() {
        for (text, values) in [
            ("", 0),
            ("7", 0),
            ("[]", 1),
            ("[[],[],[]]", 6),
            (r#"{"a":[1,2],"b":{}}"#, 5),
            (r#"{"a":"[[,,{{","b":"\"[,","c":"\\"}"#, 3),
            (r#"["an open text [,,"#, 1),
            (r#"["\"#, 1),
        ] {
            assert_eq!(JsonWeight::of(text.as_bytes()).values, values, "{text}");
        }
    }

    #[test]
    fn an_array_of_empty_arrays_weighs_more_than_its_values() {
        let text = format!("[{}[]]", "[],".repeat(1_000));
        let needed = 1_001 * size_of::<serde_json::Value>() as u64;
        assert!(JsonWeight::of(text.as_bytes()).bytes >= needed);
    }
}
