//! Finds the server of a data directory by a link that the server keeps there, so that every client
//! finds the same server whatever its environment.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::net::sockopt::socket_peercred;

use super::paths;

/// A server that answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Serving {
    /// Path of the server's socket.
    pub socket: PathBuf,
    /// Process id of the server.
    pub pid: i32,
}

/// Returns the path of the link in a data directory to the socket of its server. Connecting to the
/// link is connecting to the socket.
pub fn link_of(data_dir: &Path) -> PathBuf {
    data_dir.join("server.sock")
}

/// Returns the server that serves the memory in a data directory, if one answers.
pub fn serving(data_dir: &Path) -> Option<Serving> {
    let link = link_of(data_dir);
    let socket = fs::read_link(&link).ok()?;
    let stream = UnixStream::connect(&link).ok()?;
    let pid = socket_peercred(&stream).ok()?.pid.as_raw_nonzero().get();
    Some(Serving { socket, pid })
}

/// Returns the socket of the server that a command should use: that of the server of the default
/// data directory if one answers, and otherwise the default socket. Without a home directory, the
/// link is not used, because another user may have made the directory in its place.
pub fn server_socket() -> PathBuf {
    let found = paths::is_data_dir_stated().then(|| serving(&paths::default_data_dir())).flatten();
    found.map_or_else(paths::default_socket, |found| found.socket)
}

/// A link from a data directory to a server's socket; dropping the value removes the link, unless
/// another server has replaced it.
#[derive(Debug)]
pub struct Link {
    path: PathBuf,
    socket: PathBuf,
}

impl Link {
    /// Makes the link, in place of the link of an earlier server. A relative `socket` is completed
    /// with the current directory.
    pub fn new(data_dir: &Path, socket: &Path) -> io::Result<Self> {
        let (path, socket) = (link_of(data_dir), std::path::absolute(socket)?);
        let unnamed = path.with_extension(std::process::id().to_string());
        match fs::remove_file(&unnamed) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => symlink(&socket, &unnamed)?,
        }
        fs::rename(&unnamed, &path)?;
        Ok(Self { path, socket })
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if fs::read_link(&self.path).is_ok_and(|socket| socket == self.socket) {
            // A link that stays leads nowhere, and the next server replaces it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_link_leads_to_the_server_as_long_as_it_answers() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("a.sock");
        assert_eq!(serving(dir.path()), None);
        let link = Link::new(dir.path(), &socket).unwrap();
        assert_eq!(serving(dir.path()), None, "nothing listens yet");
        let listener = UnixListener::bind(&socket).unwrap();
        let pid = i32::try_from(std::process::id()).unwrap();
        assert_eq!(serving(dir.path()), Some(Serving { socket: socket.clone(), pid }));
        drop(listener);
        assert_eq!(serving(dir.path()), None, "nothing listens any more");
        let other = Link::new(dir.path(), &dir.path().join("b.sock")).unwrap();
        drop(link);
        assert!(fs::read_link(link_of(dir.path())).is_ok(), "the link of another server stays");
        drop(other);
        assert!(fs::read_link(link_of(dir.path())).is_err());
    }
}
