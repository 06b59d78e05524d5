//! Trust in the files: every byte that is damaged or missing is refused by name or changes no answer; stores of an older
//! format are brought up to date, newer ones refused; a full disk and used-up descriptors lose nothing.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

#[path = "../trust/damage.rs"]
mod damage;
#[path = "../trust/formats.rs"]
mod formats;
#[path = "../trust/shortage.rs"]
mod shortage;

/// Copies a directory with everything in it.
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
                // A merge of segments goes on for a moment behind a closed engine; what it was writing goes.
                Err(error)
                    if error.kind() == ErrorKind::NotFound
                        && entry.file_name().as_encoded_bytes().starts_with(b".tmp") => {}
                Err(error) => panic!("{}: {error}", entry.path().display()),
            }
        }
    }
}
