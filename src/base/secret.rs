//! The file of the secret with which the servers of a database recognize entries of each other.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::{SecureRandom as _, SystemRandom};

use crate::ids::{Ids as _, SystemIds};
use vctx_core::ledger::Secret;

/// Maximum length of the file of a secret, in bytes.
const SECRET_FILE_BYTES_MAX: u64 = 256;

/// Reads the secret from a file, or makes a secret and the file (mode 0600) if there is none.
/// Two servers that start at the same time get the same secret. An error says what is wrong with
/// the file.
pub fn secret_of(path: &Path) -> Result<Secret, String> {
    let wrong = |what: &dyn std::fmt::Display| format!("{} {what}", path.display());
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make(path).map_err(|error| wrong(&error))?;
            read(path).map_err(|what| wrong(&what))
        }
        Err(error) => Err(wrong(&error)),
        Ok(there) if there.permissions().mode() & 0o077 != 0 => {
            Err(wrong(&"can be read by others: set its mode to 0600"))
        }
        Ok(there) if there.len() > SECRET_FILE_BYTES_MAX => Err(wrong(&"is longer than a secret")),
        Ok(_) => read(path).map_err(|what| wrong(&what)),
    }
}

fn read(path: &Path) -> Result<Secret, String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let bytes = STANDARD.decode(text.trim()).ok();
    let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
    let bytes = bytes.ok_or("is no secret: copy the file of another server of the database")?;
    Ok(Secret::new(&bytes))
}

/// Makes a secret and its file. Returns `false` if another server was faster.
fn make(path: &Path) -> io::Result<bool> {
    let mut bytes = [0; Secret::BYTES];
    SystemRandom::new().fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    // Under its name, the file is whole from the beginning.
    let temporary = path.with_extension(SystemIds.salt());
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(&temporary)?;
    file.write_all(format!("{}\n", STANDARD.encode(bytes)).as_bytes())?;
    file.sync_all()?;
    let linked = fs::hard_link(&temporary, path);
    fs::remove_file(&temporary)?;
    match linked {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        linked => linked.map(|()| true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_made_once_and_only_its_owner_can_read_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        let [first, second] = [(); 2].map(|()| secret_of(&path).unwrap());
        assert_eq!(first.code("ab"), second.code("ab"));
        assert!(!make(&path).unwrap(), "the file stays");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(secret_of(&path).unwrap_err().contains("0600"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "short").unwrap();
        assert!(secret_of(&path).unwrap_err().contains("is no secret"));
    }
}
