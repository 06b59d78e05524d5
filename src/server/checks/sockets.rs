//! Checks listening TCP sockets, and the file modes of the server's socket and of the socket's
//! directory.

use std::collections::HashSet;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::sentences::TCP_LISTENER;
use super::{Finding, MODES, Profile, TCP};

/// Default port of arangod's TCP endpoint.
const ARANGOD_PORT: u16 = 8529;
/// Code of the listening state in `/proc/net/tcp`.
const LISTENING: &str = "0A";

/// Searches for TCP listeners of this process, and for any listener on ArangoDB's port. Also checks
/// the file modes of the server's socket and its directory.
pub fn check_sockets(socket: &Path, profile: Profile) -> Vec<Finding> {
    vec![check_tcp(profile), check_modes(socket)]
}

/// Searches for TCP listeners of this process, and for any listener on ArangoDB's port.
pub(crate) fn check_tcp(profile: Profile) -> Finding {
    let listeners = tcp_listeners();
    let own = own_sockets();
    let ours = listeners.iter().any(|(_, inode)| own.contains(inode));
    let theirs =
        profile != Profile::Cluster && listeners.iter().any(|(port, _)| *port == ARANGOD_PORT);
    match ours || theirs {
        true => Finding::new(TCP, false, TCP_LISTENER.text),
        false => {
            Finding::new(TCP, true, "no TCP listener; the database is reached over its Unix socket")
        }
    }
}

/// Checks that other users can neither reach nor replace the server's socket. The server makes the
/// socket's directory with mode 0700. An existing directory may have another mode if no other user
/// can write to the directory, or if the directory has the sticky bit, as /tmp has. If even the
/// server may not enter the socket's directory, the service manager created this directory for the
/// server's only caller; the check then passes.
fn check_modes(socket: &Path) -> Finding {
    let mode = |p: &Path| fs::metadata(p).map(|m| m.permissions().mode() & 0o1777);
    let directory = socket.parent().unwrap_or(Path::new("/"));
    let (passed, sentence) = match (mode(directory), mode(socket)) {
        (Ok(d), Err(e)) if e.kind() == ErrorKind::PermissionDenied && d & 0o077 == 0 => {
            (true, format!("the socket is in its only caller's directory, mode {d:o}"))
        }
        (Ok(d), Ok(s)) if s & 0o007 == 0 && (d & 0o022 == 0 || d & 0o1000 != 0) => {
            let private = if d & 0o077 == 0 { "" } else { "; 0700 would be private" };
            (true, format!("socket mode {s:o} in a directory of mode {d:o}{private}"))
        }
        (Ok(d), Ok(s)) => (
            false,
            format!(
                "socket mode {s:o} in a directory of mode {d:o}: other users can reach or replace the socket; chmod 700 {}",
                directory.display()
            ),
        ),
        (Err(e), _) | (_, Err(e)) => (false, format!("the socket's mode cannot be read: {e}")),
    };
    Finding::new(MODES, passed, sentence)
}

/// Returns the port and the inode of each TCP socket in the listening state.
fn tcp_listeners() -> Vec<(u16, String)> {
    let mut found = Vec::new();
    for table in ["/proc/self/net/tcp", "/proc/self/net/tcp6"] {
        for line in fs::read_to_string(table).unwrap_or_default().lines().skip(1) {
            let columns: Vec<&str> = line.split_whitespace().collect();
            let port = columns
                .get(1)
                .and_then(|a| a.rsplit(':').next())
                .and_then(|p| u16::from_str_radix(p, 16).ok());
            if let (Some(port), Some(&LISTENING), Some(inode)) =
                (port, columns.get(3), columns.get(9))
            {
                found.push((port, (*inode).to_owned()));
            }
        }
    }
    found
}

/// Returns the inodes of this process's sockets.
fn own_sockets() -> HashSet<String> {
    let links = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    links
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .filter_map(|link| {
            link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']').map(str::to_owned)
        })
        .collect()
}
