//! Encodes values as bytes that sort in the order of AQL values: null < bool < number < string <
//! array < object.
//!
//! Missing array elements and attributes count as null, as in AQL: `[1]` and `[1, null]` have the
//! same bytes.

use crate::value::{Object, Value};

/// Byte at the end of arrays, objects and strings. It is smaller than every type tag, so a list
/// sorts before a longer list with the same beginning.
const END: u8 = 0x00;
const NULL: u8 = 0x10;
const FALSE: u8 = 0x20;
const TRUE: u8 = 0x21;
const NUMBER: u8 = 0x30;
const STRING: u8 = 0x40;
const ARRAY: u8 = 0x50;
const OBJECT: u8 = 0x60;
/// Byte at the start of one attribute of an object.
const ATTRIBUTE: u8 = 0x01;
/// Byte that follows a zero byte of a string, to distinguish this zero byte from the string's end.
const ESCAPED_ZERO: u8 = 0xFF;

/// Appends the ordered form of a value. Equal values (`1` and `1.0`) have equal bytes.
pub fn encode_ordered(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.push(NULL),
        Value::Bool(false) => out.push(FALSE),
        Value::Bool(true) => out.push(TRUE),
        Value::Int(i) => put_integer(i128::from(*i), out),
        Value::UInt(u) => put_integer(i128::from(*u), out),
        Value::Double(d) => put_number(*d, 0, out),
        Value::String(s) => encode_ordered_text(s, out),
        Value::Array(items) => put_array(items, out),
        Value::Object(object) => put_object(object, out),
    }
}

/// Appends the ordered form of a string value.
pub(crate) fn encode_ordered_text(text: &str, out: &mut Vec<u8>) {
    out.push(STRING);
    put_text(text, out);
}

/// Returns the smallest byte string above all byte strings that begin with `prefix`; `None` if no
/// byte string is larger.
pub fn successor(mut prefix: Vec<u8>) -> Option<Vec<u8>> {
    while let Some(last) = prefix.pop() {
        if last < 0xFF {
            prefix.push(last + 1);
            return Some(prefix);
        }
    }
    None
}

fn put_text(text: &str, out: &mut Vec<u8>) {
    for byte in text.bytes() {
        out.push(byte);
        if byte == 0 {
            out.push(ESCAPED_ZERO);
        }
    }
    out.extend_from_slice(&[0, END]);
}

/// Appends a number: eight ordered bytes of the nearest double, then the integer's distance from
/// this double (below 2048 for integers up to 2^64).
fn put_number(double: f64, above: u16, out: &mut Vec<u8>) {
    let bits = (double + 0.0).to_bits();
    let ordered = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
    out.push(NUMBER);
    out.extend_from_slice(&ordered.to_be_bytes());
    out.extend_from_slice(&above.to_be_bytes());
}

fn put_integer(integer: i128, out: &mut Vec<u8>) {
    let mut double = integer as f64;
    if double as i128 > integer {
        double = double.next_down();
    }
    let above =
        u16::try_from(integer - double as i128).expect("doubles below 2^64 are at most 2048 apart");
    put_number(double, above, out);
}

fn put_array(items: &[Value], out: &mut Vec<u8>) {
    out.push(ARRAY);
    let length = items.iter().rposition(|item| !item.is_null()).map_or(0, |last| last + 1);
    for item in &items[..length] {
        encode_ordered(item, out);
    }
    out.push(END);
}

/// AQL compares two objects attribute by attribute, in the sorted union of their attribute names.
/// If only one object has an attribute, that object is greater, because the attribute counts as
/// null in the other. Keys therefore contain attribute names with inverted bytes, and omit null
/// attributes.
fn put_object(object: &Object, out: &mut Vec<u8>) {
    let mut entries: Vec<_> = object.iter().filter(|(_, value)| !value.is_null()).collect();
    entries.sort_by(|a, b| a.0.cmp(b.0));
    out.push(OBJECT);
    for (name, value) in entries {
        out.push(ATTRIBUTE);
        let start = out.len();
        put_text(name, out);
        out[start..].iter_mut().for_each(|byte| *byte = !*byte);
        encode_ordered(value, out);
    }
    out.push(END);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::value::compare;

    fn bytes(value: &Value) -> Vec<u8> {
        let mut out = Vec::new();
        encode_ordered(value, &mut out);
        out
    }

    fn object(entries: &[(&str, Value)]) -> Value {
        Value::object(entries.iter().map(|(n, v)| ((*n).into(), v.clone())).collect())
    }

    #[test]
    fn a_rising_list_of_values_gives_rising_bytes() {
        let rising = [
            Value::Null,
            false.into(),
            true.into(),
            Value::Double(-1e300),
            i64::MIN.into(),
            (i64::MIN + 1).into(),
            (-1i64).into(),
            Value::Double(-0.5),
            0i64.into(),
            Value::Double(1e-300),
            1i64.into(),
            Value::Double(1.5),
            2i64.into(),
            ((1i64 << 53) - 1).into(),
            (1i64 << 53).into(),
            ((1i64 << 53) + 1).into(),
            ((1i64 << 53) + 2).into(),
            (i64::MAX - 1).into(),
            i64::MAX.into(),
            Value::Double(9_223_372_036_854_775_808.0),
            Value::UInt((1 << 63) + 1),
            Value::UInt(u64::MAX),
            Value::Double(18_446_744_073_709_551_616.0),
            Value::Double(1e300),
            "".into(),
            "\0".into(),
            "\0a".into(),
            "\u{1}".into(),
            "a".into(),
            "a\0".into(),
            "aa".into(),
            "b".into(),
            "ä".into(),
            vec![].into(),
            vec![Value::Null, false.into()].into(),
            vec![1i64.into()].into(),
            vec![1i64.into(), Value::Null, 2i64.into()].into(),
            vec![1i64.into(), 0i64.into()].into(),
            vec![vec![].into()].into(),
            object(&[]),
            object(&[("b", 1i64.into())]),
            object(&[("ab", 1i64.into())]),
            object(&[("a\0", 1i64.into())]),
            object(&[("a", 1i64.into())]),
            object(&[("a", 1i64.into()), ("b", 1i64.into())]),
            object(&[("a", 1i64.into()), ("b", 2i64.into())]),
            object(&[("a", 2i64.into())]),
        ];
        for pair in rising.windows(2) {
            assert!(bytes(&pair[0]) < bytes(&pair[1]), "{:?} < {:?}", pair[0], pair[1]);
        }
    }

    #[test]
    fn equal_values_give_equal_bytes() {
        let equal = [
            (1i64.into(), Value::Double(1.0)),
            (Value::Double(0.0), Value::Double(-0.0)),
            (vec![1i64.into()].into(), vec![1i64.into(), Value::Null].into()),
            (object(&[]), object(&[("a", Value::Null)])),
            (
                object(&[("a", 1i64.into()), ("b", 2i64.into())]),
                object(&[("b", 2i64.into()), ("a", 1i64.into())]),
            ),
        ];
        for (a, b) in equal {
            assert_eq!(bytes(&a), bytes(&b), "{a:?} == {b:?}");
        }
    }

    #[test]
    fn the_successor_skips_everything_with_the_prefix() {
        assert_eq!(successor(vec![1, 2]), Some(vec![1, 3]));
        assert_eq!(successor(vec![1, 0xFF]), Some(vec![2]));
        assert_eq!(successor(vec![0xFF]), None);
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (-3i64..3).prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            prop::num::f64::NORMAL.prop_map(Value::Double),
            // Doubles close to large integers, where a rounding error would change the order.
            any::<i64>().prop_map(|integer| Value::Double(integer as f64)),
            "[\\x00ab\u{7f}\u{80}]{0,3}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 20, 4, |inner| {
            let name = prop_oneof![Just("a"), Just("b"), Just("ab"), Just("a\0"), Just("")];
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((name, inner), 0..4).prop_map(|entries| Value::object(
                    entries.into_iter().map(|(n, v)| (n.into(), v)).collect()
                )),
            ]
        })
    }

    proptest! {
        #[test]
        fn key_order_is_value_order(a in any_value(), b in any_value()) {
            prop_assert_eq!(bytes(&a).cmp(&bytes(&b)), compare(&a, &b));
            // The order must not change when more bytes follow, as in a compound key.
            let (mut longer, mut other) = (bytes(&a), bytes(&b));
            longer.push(0xFE);
            other.push(0x01);
            if compare(&a, &b).is_ne() {
                prop_assert_eq!(longer.cmp(&other), compare(&a, &b));
            }
        }

        #[test]
        fn stored_values_come_back(value in any_value()) {
            let back = crate::encode::decode_value(&crate::encode::encode_value(&value)).unwrap();
            prop_assert_eq!(format!("{value:?}"), format!("{back:?}"));
        }
    }
}
