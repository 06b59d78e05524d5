//! Checks document keys and generates missing keys.

use std::fmt::Write;

use crate::encode::{Key, Space, local_id_of_value};
use crate::error::{Code, Error, Result};
use crate::functions::random_uuid;
use crate::limits::DOCUMENT_KEY_BYTES_MAX;
use crate::schema::{Collection, KeyGenerator};
use crate::txn::{Resources, State};
use crate::value::{Object, Value};

/// Whether ArangoDB accepts this text as a `_key`.
pub(super) fn is_legal(key: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"_-:.@()+,=;$!*'%".contains(&byte);
    !key.is_empty() && key.len() <= DOCUMENT_KEY_BYTES_MAX && key.bytes().all(legal)
}

/// Returns the `_key` of a new document, or a generated key if the document has none. Errors: 1221
/// for an illegal key, 1222 if the collection does not allow keys from users.
pub(super) fn key_of(
    resources: &Resources,
    state: &mut State,
    collection: &Collection,
    document: &Object,
) -> Result<String> {
    let given = match document.get("_key") {
        None => None,
        Some(Value::String(key)) => Some(&**key),
        Some(_) => return Err(Error::of(Code::DocumentKeyBad)),
    };
    let mut key = String::new();
    put_key(resources, state, collection, given, &mut key)?;
    Ok(key)
}

/// Appends the key of a new document to `out`: the given text, or a generated key. Errors are those
/// of `key_of`.
pub(super) fn put_key(
    resources: &Resources,
    state: &mut State,
    collection: &Collection,
    given: Option<&str>,
    out: &mut String,
) -> Result<()> {
    match given {
        None => generate(resources, state, collection, out),
        Some(_) if !collection.key_options.allow_user_keys => {
            Err(Error::of(Code::DocumentKeyUnexpected))
        }
        Some(key) if is_legal(key) => {
            remember(resources, state, collection, key)?;
            out.push_str(key);
            Ok(())
        }
        Some(_) => Err(Error::of(Code::DocumentKeyBad)),
    }
}

/// Makes later generated keys larger than a numeric key that a user chose.
fn remember(
    resources: &Resources,
    state: &mut State,
    collection: &Collection,
    key: &str,
) -> Result<()> {
    let counts = matches!(
        collection.key_options.generator,
        KeyGenerator::Traditional | KeyGenerator::Autoincrement
    );
    let digits = key.bytes().all(|byte| byte.is_ascii_digit());
    let Some(number) = key.parse::<u64>().ok().filter(|_| counts && digits) else { return Ok(()) };
    let mut last_keys = resources.last_keys.lock().expect("only moves inside");
    let last = last_key(&mut last_keys, state, collection.id)?;
    if number > *last {
        *last = number;
        state.last_keys.insert(collection.id, number);
    }
    Ok(())
}

fn generate(
    resources: &Resources,
    state: &mut State,
    collection: &Collection,
    out: &mut String,
) -> Result<()> {
    let mut put = |key: std::fmt::Arguments<'_>| {
        out.write_fmt(key).expect("a String takes everything");
        Ok(())
    };
    let options = &collection.key_options;
    let least = match options.generator {
        KeyGenerator::Padded => return put(format_args!("{:016x}", resources.clock.revision())),
        KeyGenerator::Uuid => return put(format_args!("{}", random_uuid()?)),
        KeyGenerator::Traditional => resources.clock.id(),
        KeyGenerator::Autoincrement => 0,
    };
    let mut last_keys = resources.last_keys.lock().expect("only moves inside");
    let last = last_key(&mut last_keys, state, collection.id)?;
    let next = match options.generator {
        KeyGenerator::Autoincrement => next_step(*last, options.offset, options.increment.max(1)),
        _ if least > *last => {
            *last = least; // for `lastValue`; the server-wide counter keeps it rising, so that it is not stored
            return put(format_args!("{least}"));
        }
        _ => last.checked_add(1),
    };
    let next = next.ok_or_else(|| Error::new(Code::Internal, "the collection is out of keys"))?;
    *last = next;
    state.last_keys.insert(collection.id, next);
    put(format_args!("{next}"))
}

fn next_step(last: u64, offset: u64, increment: u64) -> Option<u64> {
    match last.checked_sub(offset.max(1)) {
        None => Some(offset.max(1)),
        Some(above) => {
            (above / increment).checked_add(1)?.checked_mul(increment)?.checked_add(offset.max(1))
        }
    }
}

fn last_key<'a>(
    last_keys: &'a mut std::collections::HashMap<u64, u64>,
    state: &State,
    collection: u64,
) -> Result<&'a mut u64> {
    use std::collections::hash_map::Entry;
    Ok(match last_keys.entry(collection) {
        Entry::Occupied(entry) => entry.into_mut(),
        Entry::Vacant(entry) => {
            // The last numeric key is stored only when a transaction commits.
            let stored = state.snapshot.get(Space::Meta, &Key::LastKey(collection).bytes())?;
            entry.insert(stored.map_or(Ok(0), |value| local_id_of_value(&value))?)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_follow_arangodbs_alphabet() {
        let long = "k".repeat(254);
        for key in ["a", "0", "A-Za-z_-:.@()+,=;$!*'%", &long] {
            assert!(is_legal(key), "{key}");
        }
        for key in ["", "a/b", "ä", "a b", "a#", &format!("{long}k")] {
            assert!(!is_legal(key), "{key}");
        }
    }

    #[test]
    fn autoincrement_keeps_to_its_steps() {
        let steps = [
            (0, 1, 1, 1),
            (1, 1, 1, 2),
            (0, 5, 10, 5),
            (5, 5, 10, 15),
            (17, 5, 10, 25),
            (15, 5, 10, 25),
        ];
        for (last, offset, increment, next) in steps {
            assert_eq!(next_step(last, offset, increment), Some(next), "after {last}");
        }
        assert_eq!(next_step(u64::MAX, 1, 1), None);
    }
}
