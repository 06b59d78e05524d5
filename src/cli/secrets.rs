//! Reads passwords and keys from environment variables, files and the service manager.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::config::Faults;

/// Reads an environment variable.
pub fn variable_of(name: &str) -> Option<String> {
    #[allow(clippy::disallowed_methods, reason = "this file reads the environment")]
    std::env::var(name).ok()
}

/// Reads a password from `NAME`, from the file named in `NAME_FILE`, or from the service manager's
/// directory of credentials (`$CREDENTIALS_DIRECTORY`, systemd.exec(5)). In this directory, the
/// file for `ARANGO_RO_PASSWORD` is named `arango-ro-password`.
pub fn password_of(name: &str) -> Result<Option<String>, Faults> {
    if let Some(password) = variable_of(name) {
        return Ok(Some(password));
    }
    if let Some(path) = variable_of(&format!("{name}_FILE")) {
        return secret_file(Path::new(&path)).map(Some);
    }
    match variable_of("CREDENTIALS_DIRECTORY") {
        Some(directory) => credential(Path::new(&directory), name),
        None => Ok(None),
    }
}

/// Where a secret comes from. Never contains the secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The variable of the secret's name.
    Environment,
    /// The file that the variable `NAME_FILE` names.
    File(PathBuf),
    /// The file in the service manager's directory of credentials.
    Credential(PathBuf),
}

/// Returns where a secret comes from, without reading the secret; `None` if there is no secret.
pub fn origin_of(name: &str) -> Option<Origin> {
    if variable_of(name).is_some() {
        return Some(Origin::Environment);
    }
    if let Some(path) = variable_of(&format!("{name}_FILE")) {
        return Some(Origin::File(path.into()));
    }
    let path = credential_path(Path::new(&variable_of("CREDENTIALS_DIRECTORY")?), name);
    path.exists().then_some(Origin::Credential(path))
}

fn credential_path(directory: &Path, name: &str) -> PathBuf {
    directory.join(name.to_lowercase().replace('_', "-"))
}

/// Reads a credential from the service manager's directory, if the directory contains it.
fn credential(directory: &Path, name: &str) -> Result<Option<String>, Faults> {
    let path = credential_path(directory, name);
    // The group bits of the mode may be set. The service manager grants access by an access control
    // list, and the group bits show the mask of this list.
    match path.try_exists() {
        Ok(true) => secret_within(&path, 0o007).map(Some),
        Ok(false) => Ok(None),
        Err(error) => Err(Faults(vec![format!("{}: {error}", path.display())])),
    }
}

/// Reads a secret from a file that no other user may read.
pub fn secret_file(path: &Path) -> Result<String, Faults> {
    secret_within(path, 0o077)
}

/// Reads a secret from a file; refuses a file whose mode has at least one of the bits in `open`.
fn secret_within(path: &Path, open: u32) -> Result<String, Faults> {
    let fault = |text: String| Faults(vec![format!("{}: {text}", path.display())]);
    let mode = fs::metadata(path).map_err(|e| fault(e.to_string()))?.permissions().mode();
    if mode & open != 0 {
        return Err(fault(format!(
            "mode {:o} lets others read a password: chmod 600 it",
            mode & 0o777
        )));
    }
    let text = fs::read_to_string(path).map_err(|e| fault(e.to_string()))?;
    Ok(text.trim_end_matches(['\n', '\r']).to_owned())
}

/// Reads a secret from a file, or creates the file with a random secret. A new file has mode 0600
/// from the start, and gets its final name only when its content is on disk. If two processes
/// create the file at the same time, both use the secret of the process that finishes first.
pub fn secret_or_new(path: &Path, fresh: impl FnOnce() -> String) -> Result<String, Faults> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let fault = |e: std::io::Error| Faults(vec![format!("{}: {e}", path.display())]);
    if !path.exists() {
        let mut unnamed = path.as_os_str().to_owned();
        unnamed.push(format!(".{}", std::process::id()));
        let unnamed = Path::new(&unnamed);
        let make = || {
            absent(fs::remove_file(unnamed))?;
            let mut file =
                fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(unnamed)?;
            file.write_all(fresh().as_bytes())?;
            file.sync_all()?;
            match fs::hard_link(unnamed, path) {
                Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => return Err(e),
                _ => fs::remove_file(unnamed)?,
            }
            fs::File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
        };
        make().map_err(fault)?;
    }
    match secret_file(path)? {
        secret if secret.is_empty() => {
            Err(Faults(vec![format!("{}: empty: remove it", path.display())]))
        }
        secret => Ok(secret),
    }
}

/// Converts the result of removing a file: the error for a missing file becomes a success.
fn absent(removed: std::io::Result<()>) -> std::io::Result<()> {
    match removed {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_made_once_and_an_empty_one_is_refused() {
        let directory = std::env::temp_dir().join(format!("vctx-secret-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join("root.password");
        assert_eq!(secret_or_new(&path, || "one".into()).unwrap(), "one");
        assert_eq!(secret_or_new(&path, || "two".into()).unwrap(), "one");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
        fs::write(&path, "").unwrap();
        assert!(secret_or_new(&path, || "two".into()).is_err());
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_credential_is_read_by_its_name_and_not_from_a_file_that_all_may_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("arango-ro-password");
        let read = || credential(directory.path(), "ARANGO_RO_PASSWORD");
        assert_eq!(read().unwrap(), None);
        fs::write(&path, "quiet\n").unwrap();
        for (mode, given) in [(0o400, true), (0o440, true), (0o444, false), (0o604, false)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(read().ok().flatten().as_deref(), given.then_some("quiet"), "{mode:o}");
        }
        assert_eq!(credential(directory.path(), "ARANGO_PASSWORD").unwrap(), None);
    }
}
