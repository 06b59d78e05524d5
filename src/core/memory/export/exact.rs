//! Parses JSON exactly: duplicate names are refused, and each number becomes the nearest double.

use serde_json::{Number, Value};

use crate::memory::strict_json::StrictJson;

/// Parses a JSON text. `serde_json` may round the last bit of a fraction wrongly, so the standard
/// library parses fractions again. An agent's vectors therefore do not change when the agent is
/// exported and imported. An error states the fault and its position.
pub fn exact(text: &str) -> Result<Value, String> {
    let read = serde_json::from_str::<StrictJson>(text);
    let StrictJson(mut value) = read.map_err(|e| match e.is_data() {
        true => format!("names an attribute twice before column {}", e.column()),
        false => format!("is not JSON at column {}", e.column()),
    })?;
    let mut numbers = Numbers { text: text.as_bytes(), at: 0 };
    mend(&mut value, text, &mut numbers)?;
    Ok(value)
}

/// Replaces each floating-point number in a JSON value by the double that is nearest to the number
/// in `text`. `numbers` yields all numbers in the order of the text.
fn mend(value: &mut Value, text: &str, numbers: &mut Numbers<'_>) -> Result<(), String> {
    match value {
        Value::Number(number) => {
            let (start, end) = numbers.next_number().ok_or("lost a number")?;
            if number.is_f64() {
                let double: f64 = text[start..end].parse().map_err(|_| "has a bad number")?;
                *number = Number::from_f64(double).ok_or("has a number that is too large")?;
            }
            Ok(())
        }
        Value::Array(items) => items.iter_mut().try_for_each(|item| mend(item, text, numbers)),
        Value::Object(map) => map.values_mut().try_for_each(|item| mend(item, text, numbers)),
        Value::Null | Value::Bool(_) | Value::String(_) => Ok(()),
    }
}

/// Finds the numbers in a JSON text, in order.
struct Numbers<'a> {
    text: &'a [u8],
    at: usize,
}

impl Numbers<'_> {
    fn next_number(&mut self) -> Option<(usize, usize)> {
        while let Some(byte) = self.text.get(self.at) {
            match byte {
                b'"' => self.skip_string(),
                b'-' | b'0'..=b'9' => {
                    let start = self.at;
                    let part =
                        |byte: &u8| matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9');
                    while self.text.get(self.at).is_some_and(part) {
                        self.at += 1;
                    }
                    return Some((start, self.at));
                }
                _ => self.at += 1,
            }
        }
        None
    }

    fn skip_string(&mut self) {
        self.at += 1;
        while let Some(byte) = self.text.get(self.at) {
            match byte {
                b'\\' => self.at += 2,
                b'"' => {
                    self.at += 1;
                    return;
                }
                _ => self.at += 1,
            }
        }
    }
}
