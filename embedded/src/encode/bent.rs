//! Tests that damaged bytes cause no panic, decoded values equal the encoded ones, and keys sort as
//! their values do.

use super::{
    Mark, Record, decode_value, encode_ordered, encode_value, list_of_key, list_of_value,
    local_id_of_key, local_id_of_value, successor, vector_list_of_key,
};
use crate::mutator::{bend, corpus};
use crate::value::{Value, compare, parse};

/// Returns the values of the valid texts in the corpus of JSON texts.
fn values() -> Vec<Value> {
    let texts = corpus(include_str!("../../tests/fuzz/json.txt"));
    texts.iter().filter_map(|text| parse(text).ok()).collect()
}

fn key(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    encode_ordered(value, &mut out);
    out
}

#[test]
fn bent_values_come_back_and_their_keys_keep_their_order() {
    let mut before = Value::Null;
    bend(&corpus(include_str!("../../tests/fuzz/json.txt")), |input| {
        let Ok(value) = parse(input) else { return };
        let back = decode_value(&encode_value(&value)).expect("an encoded value is readable");
        assert_eq!(format!("{back:?}"), format!("{value:?}"));
        assert_eq!(
            key(&value).cmp(&key(&before)),
            compare(&value, &before),
            "{value:?} {before:?}"
        );
        // Every key with this prefix must sort before the prefix's successor.
        let mut longer = key(&value);
        longer.push(0xFF);
        assert!(successor(key(&value)).is_none_or(|end| longer < end));
        before = value;
    });
}

#[test]
fn bent_values_in_bytes_are_read_or_refused() {
    let values: Vec<Vec<u8>> = values().iter().map(encode_value).collect();
    assert!(!values.is_empty(), "the corpus has values");
    bend(&values, |bytes| {
        let Ok(value) = decode_value(bytes) else { return };
        let again = decode_value(&encode_value(&value)).expect("an encoded value is readable");
        assert_eq!(format!("{again:?}"), format!("{value:?}"));
    });
}

#[test]
fn bent_documents_in_bytes_are_read_or_refused() {
    let objects = values().into_iter().filter_map(|value| match value {
        Value::Object(object) => Some(Record::write(7, "key", &object)),
        _ => None,
    });
    let records: Vec<Vec<u8>> = objects.collect();
    assert!(!records.is_empty(), "the corpus has objects");
    bend(&records, |bytes| {
        let Ok(record) = Record::read(bytes) else { return };
        let Ok(attributes) = record.attributes() else { return };
        let written = Record::write(record.revision, record.key, &attributes);
        let again = Record::read(&written).expect("a written record is readable");
        assert_eq!((again.revision, again.key), (record.revision, record.key));
    });
}

#[test]
fn bent_keys_are_read_or_refused() {
    let keys: Vec<Vec<u8>> = values().iter().map(key).collect();
    bend(&keys, |bytes| {
        let _ = (Mark::read(bytes), vector_list_of_key(bytes));
        let _ = (list_of_key(bytes), list_of_value(bytes));
        let _ = (local_id_of_key(bytes), local_id_of_value(bytes));
        assert!(successor(bytes.to_vec()).is_none_or(|end| bytes < end.as_slice()));
    });
}
