//! Signs and verifies notes with Ed25519. Only its owner can read the file of a private key.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};

use crate::ids::{Ids as _, SystemIds};
use vctx_core::ledger::key::{KeyKind, PublicKey};
use vctx_core::ledger::witness::cosigned_text;

/// Beginning of the text of a private key, as in Go's package `sumdb/note`.
const PRIVATE: &str = "PRIVATE+KEY+";
/// Maximum length of the file of a private key, in bytes.
const KEY_FILE_BYTES_MAX: u64 = 4_096;
/// Number of bytes of the seed of an Ed25519 key.
const SEED_BYTES: usize = 32;

/// A private key with its name.
pub struct SigningKey {
    public: PublicKey,
    pair: Ed25519KeyPair,
}

impl SigningKey {
    /// Reads the private key from a file, or makes a key and the file (mode 0600) if there is none.
    /// An error says what is wrong with the file.
    pub fn load_or_make(path: &Path, kind: KeyKind) -> Result<Self, String> {
        let role = match kind {
            KeyKind::Log => "vctx",
            KeyKind::Witness => "vctx-witness",
        };
        match Self::load_if_there(path)? {
            Some(key) if key.public.kind == kind => Ok(key),
            Some(_) => Err(format!("{} is a key for another purpose", path.display())),
            None => Self::make(path, kind, &format!("{role}-{}", &SystemIds.salt()[..16])),
        }
    }

    /// Reads the private key from a file; returns `None` if there is no file. An error says what is
    /// wrong with the file.
    pub fn load_if_there(path: &Path) -> Result<Option<Self>, String> {
        match fs::metadata(path) {
            Ok(there) => Self::load(path, &there).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(format!("{}: {error}", path.display())),
        }
    }

    fn load(path: &Path, there: &fs::Metadata) -> Result<Self, String> {
        let wrong = |what: &str| format!("{} {what}", path.display());
        if there.permissions().mode() & 0o077 != 0 {
            return Err(wrong("can be read by others: set its mode to 0600"));
        }
        if there.len() > KEY_FILE_BYTES_MAX {
            return Err(wrong("is longer than a key"));
        }
        let text = fs::read_to_string(path).map_err(|error| wrong(&format!("{error}")))?;
        Self::parse(text.trim()).ok_or_else(|| wrong("is not a private key of Ed25519"))
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.strip_prefix(PRIVATE)?.splitn(3, '+');
        let (name, id, key) = (parts.next()?, parts.next()?, parts.next()?);
        let key = STANDARD.decode(key).ok()?;
        let (number, seed) = key.split_first()?;
        let kinds = [KeyKind::Log, KeyKind::Witness];
        let kind = kinds.into_iter().find(|kind| *kind as u8 == *number)?;
        let key = Self::of_seed(kind, name, seed)?;
        (key.public.id_text() == id).then_some(key)
    }

    fn of_seed(kind: KeyKind, name: &str, seed: &[u8]) -> Option<Self> {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).ok()?;
        let bytes = pair.public_key().as_ref().to_vec();
        let public = PublicKey { kind, name: name.to_owned(), bytes };
        Some(Self { public, pair })
    }

    /// Makes a key with a name, and its file, which must not exist. The file is on disk when this
    /// function returns.
    pub fn make(path: &Path, kind: KeyKind, name: &str) -> Result<Self, String> {
        let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let mut seed = [0_u8; SEED_BYTES];
        SystemRandom::new().fill(&mut seed).map_err(|error| wrong(&error))?;
        let key = Self::of_seed(kind, name, &seed).ok_or_else(|| wrong(&"no key was made"))?;
        let private = STANDARD.encode([&[kind as u8], &seed[..]].concat());
        let text = format!("{PRIVATE}{name}+{}+{private}\n", key.public.id_text());
        let mut options = fs::OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(path);
        let written = file.and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        });
        match written {
            Ok(()) => Ok(key),
            Err(error) => Err(wrong(&error)),
        }
    }

    /// Returns the public key, with which others verify notes.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// Returns a note: the text, an empty line and the signature.
    pub fn note(&self, text: &str) -> String {
        format!("{text}\n{}", self.signature_line(text))
    }

    /// Returns the line of a note with this key's signature.
    pub fn signature_line(&self, text: &str) -> String {
        self.public.signature_line(self.pair.sign(text.as_bytes()).as_ref())
    }

    /// Returns the line of a note with this key's cosignature, made at a time in seconds since
    /// 1970.
    pub fn cosignature_line(&self, text: &str, at_s: u64) -> String {
        let signature = self.pair.sign(cosigned_text(at_s, text).as_bytes());
        self.public.signature_line(&[&at_s.to_be_bytes()[..], signature.as_ref()].concat())
    }
}

/// Returns when a witness cosigned a note, in seconds since 1970. An error says what is wrong.
pub fn cosigned(note: &str, key: &PublicKey) -> Result<u64, String> {
    let (text, signature) = key.split(note)?;
    let (at, signature) =
        signature.split_first_chunk().ok_or("has a cosignature without a time")?;
    let at_s = u64::from_be_bytes(*at);
    UnparsedPublicKey::new(&ED25519, &key.bytes)
        .verify(cosigned_text(at_s, &text).as_bytes(), signature)
        .map_err(|_| "has a cosignature that does not hold")?;
    Ok(at_s)
}

/// Returns the text of a note with a valid signature of the given key. An error says what is wrong.
pub fn verified(note: &str, key: &PublicKey) -> Result<String, String> {
    let (text, signature) = key.split(note)?;
    UnparsedPublicKey::new(&ED25519, &key.bytes)
        .verify(text.as_bytes(), &signature)
        .map_err(|_| "has a signature that does not hold")?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_of_another_program_is_verified() {
        // The example in the documentation of Go's package `sumdb/note`.
        let key = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";
        let note = "If you think cryptography is the answer to your problem,\n\
            then you don't know what your problem is.\n\n\
            \u{2014} PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n";
        let key = PublicKey::parse(key, KeyKind::Log).unwrap();
        assert!(verified(note, &key).unwrap().starts_with("If you think"));
        let forged = note.replace("answer", "cause");
        assert!(verified(&forged, &key).unwrap_err().contains("does not hold"));
    }

    #[test]
    fn a_key_is_made_once_and_kept_from_others() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        let made = SigningKey::load_or_make(&path, KeyKind::Log).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let again = SigningKey::load_or_make(&path, KeyKind::Log).unwrap();
        assert_eq!(again.public(), made.public());
        assert_eq!(verified(&made.note("text\n"), again.public()), Ok("text\n".into()));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(SigningKey::load_or_make(&path, KeyKind::Log).err().unwrap().contains("0600"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "PRIVATE+KEY+x+00000000+AQ==\n").unwrap();
        assert!(SigningKey::load_or_make(&path, KeyKind::Log).is_err());
    }

    #[test]
    fn a_cosignature_covers_time_and_text() {
        let dir = tempfile::tempdir().unwrap();
        let witness = SigningKey::load_or_make(&dir.path().join("w"), KeyKind::Witness).unwrap();
        let again = SigningKey::load_or_make(&dir.path().join("w"), KeyKind::Witness).unwrap();
        let log = SigningKey::load_or_make(&dir.path().join("l"), KeyKind::Log).unwrap();
        let note = log.note("text\n") + &again.cosignature_line("text\n", 1_700_000_000);
        assert_eq!(cosigned(&note, witness.public()), Ok(1_700_000_000));
        assert_eq!(verified(&note, log.public()), Ok("text\n".into()));
        assert!(cosigned(&note, log.public()).is_err());
        let other = log.note("other\n") + &again.cosignature_line("text\n", 1_700_000_000);
        assert!(cosigned(&other, witness.public()).unwrap_err().contains("does not hold"));
        assert!(SigningKey::load_or_make(&dir.path().join("l"), KeyKind::Witness).is_err());
    }
}
