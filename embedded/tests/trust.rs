//! Trust in the files: every byte that is damaged or missing is refused by name or changes no answer; stores of an older
//! format are brought up to date, newer ones refused; a full disk and used-up descriptors lose nothing.

#[path = "trust/damage.rs"]
mod damage;
#[path = "trust/formats.rs"]
mod formats;
#[path = "trust/shortage.rs"]
mod shortage;
