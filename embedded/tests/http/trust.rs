//! Damaged files: a changed or missing byte is reported with the file's name, or changes no answer.
//! Stores of an older format are upgraded, and stores of a newer format are refused. A full disk
//! and exhausted descriptors lose no data.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

#[path = "../trust/damage.rs"]
mod damage;
#[path = "../trust/formats.rs"]
mod formats;
#[path = "../trust/shortage.rs"]
mod shortage;

/// Copies a directory recursively.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        let place = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy(&entry.path(), &place);
        } else {
            match fs::copy(entry.path(), place) {
                Ok(_) => {}
                // A merge of segments continues for a moment after the engine is closed, so its
                // temporary files may disappear during the copy.
                Err(error)
                    if error.kind() == ErrorKind::NotFound
                        && entry.file_name().as_encoded_bytes().starts_with(b".tmp") => {}
                Err(error) => panic!("{}: {error}", entry.path().display()),
            }
        }
    }
}
