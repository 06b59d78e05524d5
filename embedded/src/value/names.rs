//! Shares equal attribute names within a thread, because similar documents repeat a few names, and
//! each copy would be an allocation.

use std::cell::RefCell;
use std::sync::Arc;

/// Number of slots in the table of shared names, which is a power of two. A new name replaces the
/// earlier name in its slot.
const PLACES: usize = 1024;
/// Maximum length of a shared name in bytes; longer names are rarely repeated.
const NAME_BYTES_MAX: usize = 48;

thread_local! {
    static NAMES: RefCell<Vec<Option<Arc<str>>>> = RefCell::new(vec![None; PLACES]);
}

/// Returns the thread's shared copy of a name, or a new copy of a long name.
pub(crate) fn shared(name: &str) -> Arc<str> {
    if name.len() > NAME_BYTES_MAX {
        return Arc::from(name);
    }
    NAMES.with_borrow_mut(|names| {
        let place = &mut names[place_of(name)];
        match place {
            Some(known) if **known == *name => Arc::clone(known),
            _ => Arc::clone(place.insert(Arc::from(name))),
        }
    })
}

/// Returns the slot of a name, computed from its length, beginning and end by a multiplication
/// (Fibonacci hashing, Knuth). This simple hash suffices, because names are short and few.
fn place_of(name: &str) -> usize {
    let bytes = name.as_bytes();
    let ends = match (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        (Some(first), Some(last)) => {
            u64::from_le_bytes(*first) ^ u64::from_le_bytes(*last).rotate_left(23)
        }
        _ => bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
    };
    let mixed = (ends ^ (bytes.len() as u64) << 56).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 40) as usize % PLACES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_shared_and_never_mistaken() {
        assert!(Arc::ptr_eq(&shared("content"), &shared("content")));
        for n in 0..5_000 {
            let name = format!("name{n}");
            assert_eq!(&*shared(&name), name);
        }
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        assert_eq!(&*shared(&long), long);
    }
}
