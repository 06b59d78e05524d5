//! Attribute names shared within a thread: documents of one kind repeat the same few names, and each copy would be an allocation.

use std::cell::RefCell;
use std::sync::Arc;

/// Places of the table; a power of two. A name that meets another one in its place takes the place over.
const PLACES: usize = 1024;
/// Longest name that is shared, in bytes; longer ones are rarely repeated.
const NAME_BYTES_MAX: usize = 48;

thread_local! {
    static NAMES: RefCell<Vec<Option<Arc<str>>>> = RefCell::new(vec![None; PLACES]);
}

/// The shared copy of a name.
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

/// FNV-1a (Fowler, Noll, Vo), folded to the table's size; names are short.
fn place_of(name: &str) -> usize {
    let hash = name
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    (hash ^ (hash >> 15)) as usize % PLACES
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
