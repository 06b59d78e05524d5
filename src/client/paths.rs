//! Default paths of the server's socket, data and log, for all commands.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use vctx_core::limits::SOCKET_PATH_BYTES_MAX;

/// Number of bytes for the name of another socket in the default socket's directory, such as
/// `/arangod-ro.sock`. The directory's path is so short that a name of this length fits.
const NEIGHBOUR_BYTES_MAX: usize = 20;

/// Returns the default path of the server's socket: `$XDG_RUNTIME_DIR/vctx/vctx.sock`, or a short
/// path private to the user if the variable is unset or its value is too long.
pub fn default_socket() -> PathBuf {
    runtime_dir(&variable, user_id()).join("vctx.sock")
}

/// Returns the default directory of the server's data: `$XDG_STATE_HOME/vctx`, or otherwise
/// `~/.local/state/vctx` (XDG base directory specification).
pub fn default_data_dir() -> PathBuf {
    state_dir(&variable, user_id())
}

/// Returns whether the environment says where this user's data is. Otherwise the default directory
/// is one that the system may empty, so a server must not use it.
pub fn is_data_dir_stated() -> bool {
    ["XDG_STATE_HOME", "HOME"].iter().any(|name| absolute(variable(name)).is_some())
}

/// Returns the path of the metrics socket, which is next to the server's socket.
pub fn metrics_socket(socket: &Path) -> PathBuf {
    socket.with_file_name("metrics.sock")
}

/// Returns the path of the log of a server that a client starts; it is in the server's data
/// directory.
pub fn server_log(data_dir: &Path) -> PathBuf {
    data_dir.join("server.log")
}

/// Returns the path of the lock file that lets only one client at a time start a server on the
/// socket.
pub fn start_lock(socket: &Path) -> PathBuf {
    let mut name = socket.as_os_str().to_owned();
    name.push(".lock");
    PathBuf::from(name)
}

/// Returns the path of this program's executable file, from which a client starts a server.
pub fn own_program() -> std::io::Result<PathBuf> {
    std::env::current_exe()
}

fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// Returns the user id of this process, which is the owner of `/proc/self`. On systems without
/// `/proc`, returns the owner of the home directory.
pub(super) fn user_id() -> u32 {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let owned = [Some(PathBuf::from("/proc/self")), home];
    owned
        .into_iter()
        .flatten()
        .find_map(|path| std::fs::metadata(path).ok())
        .map_or(0, |meta| meta.uid())
}

/// Returns an absolute path from an environment variable; ignores a relative path, as the XDG
/// specification requires.
fn absolute(value: Option<OsString>) -> Option<PathBuf> {
    value.map(PathBuf::from).filter(|path| path.is_absolute())
}

fn runtime_dir(variable: &dyn Fn(&str) -> Option<OsString>, user: u32) -> PathBuf {
    let stated = absolute(variable("XDG_RUNTIME_DIR")).map(|dir| dir.join("vctx"));
    let fits = |dir: &PathBuf| {
        dir.as_os_str().as_bytes().len() + NEIGHBOUR_BYTES_MAX <= SOCKET_PATH_BYTES_MAX
    };
    let own = PathBuf::from(format!("/run/user/{user}"));
    match stated.filter(fits) {
        Some(dir) => dir,
        None if own.is_dir() => own.join("vctx"),
        None => PathBuf::from(format!("/tmp/vctx-{user}")),
    }
}

fn state_dir(variable: &dyn Fn(&str) -> Option<OsString>, user: u32) -> PathBuf {
    absolute(variable("XDG_STATE_HOME"))
        .or_else(|| absolute(variable("HOME")).map(|home| home.join(".local/state")))
        .map_or_else(|| PathBuf::from(format!("/var/tmp/vctx-{user}")), |dir| dir.join("vctx"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with<'a>(pairs: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<OsString> + 'a {
        move |name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into())
    }

    #[test]
    fn the_runtime_directory_is_the_stated_one_or_a_short_one() {
        let nobody = 4_000_000_001;
        assert_eq!(
            runtime_dir(&with(&[("XDG_RUNTIME_DIR", "/run/user/7")]), nobody),
            Path::new("/run/user/7/vctx")
        );
        let short = Path::new("/tmp/vctx-4000000001");
        assert_eq!(runtime_dir(&with(&[]), nobody), short);
        assert_eq!(runtime_dir(&with(&[("XDG_RUNTIME_DIR", "run")]), nobody), short);
        let long = format!("/{}", "x".repeat(100));
        assert_eq!(runtime_dir(&with(&[("XDG_RUNTIME_DIR", &long)]), nobody), short);
    }

    #[test]
    fn the_longest_stated_directory_leaves_room_for_every_socket() {
        let longest = format!(
            "/{}",
            "x".repeat(SOCKET_PATH_BYTES_MAX - NEIGHBOUR_BYTES_MAX - 1 - "/vctx".len())
        );
        let dir = runtime_dir(&with(&[("XDG_RUNTIME_DIR", &longest)]), 0);
        assert_eq!(dir, Path::new(&longest).join("vctx"));
        let neighbour = dir.join("x".repeat(NEIGHBOUR_BYTES_MAX - 1));
        assert_eq!(neighbour.as_os_str().len(), SOCKET_PATH_BYTES_MAX);
    }

    #[test]
    fn data_lies_in_the_state_home() {
        assert_eq!(
            state_dir(&with(&[("XDG_STATE_HOME", "/s"), ("HOME", "/h")]), 1),
            Path::new("/s/vctx")
        );
        assert_eq!(state_dir(&with(&[("HOME", "/h")]), 1), Path::new("/h/.local/state/vctx"));
        assert_eq!(state_dir(&with(&[]), 1), Path::new("/var/tmp/vctx-1"));
    }
}
