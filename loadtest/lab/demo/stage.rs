//! Starts, kills and restarts the two processes of the demo, and stops each process by its process
//! id.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tempfile::TempDir;
use tokio::net::UnixStream;
use tokio::process::{Child, Command};

use vctx_base::clock;
use vctx_base::ids::{Ids as _, SystemIds};
use vctx_cli::exit::{Exit, Failure};
use vctx_client::{Client, Settings, paths};
use vctx_core::limits::SOCKET_PATH_BYTES_MAX;
use vctx_server::store::Credentials;

/// Maximum wait for a started process to answer on its socket.
const READY_WAIT_MAX: Duration = Duration::from_secs(60);

/// Pause between two checks of whether a started process answers.
const READY_LOOK: Duration = Duration::from_millis(5);

/// Maximum wait for one answer of the server.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(10);

/// Maximum wait for a killed process to end.
const GONE_WAIT_MAX: Duration = Duration::from_secs(10);

/// Number of bytes at the end of a process log that are shown after a failure.
const LOG_TAIL_BYTES: u64 = 2_000;

/// Longest path that a socket of the demo has below the temporary directory. It is used to check
/// that a socket's path is not too long.
const LONGEST_NAME: &str = "/vctx-demo-XXXXXX/engine-ro.sock";

/// The two processes of the demo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Engine,
    Server,
}

impl Role {
    /// Returns the process's name for messages to people and for file names.
    pub fn name(self) -> &'static str {
        match self {
            Role::Engine => "engine",
            Role::Server => "server",
        }
    }
}

/// The demo's directories, root password and processes.
pub struct Stage {
    /// Directory of sockets and logs, removed at the end of the demo; also contains the data unless
    /// the user keeps the data.
    dir: TempDir,
    data: PathBuf,
    program: PathBuf,
    password: String,
    /// Configuration file of the server; `None` for the defaults.
    config: Option<PathBuf>,
    engine: Option<Child>,
    server: Option<Child>,
}

impl Stage {
    /// Creates the directories and the root password; starts no process.
    pub fn prepare(keep: Option<&Path>) -> Result<Stage, Failure> {
        let program = std::env::current_exe()
            .map_err(|error| Failure::reading("the path of this program", &error))?;
        let dir = tempfile::Builder::new()
            .prefix("vctx-demo-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(short_temporary_dir())
            .map_err(|error| Failure::writing("a temporary directory", &error))?;
        let data = match keep {
            Some(keep) => empty_dir(keep)?,
            None => empty_dir(&dir.path().join("data"))?,
        };
        let password = SystemIds.salt() + &SystemIds.salt();
        write_secret(&data.join("root.password"), &password)?;
        Ok(Stage { dir, data, program, password, config: None, engine: None, server: None })
    }

    /// Sets the server's configuration file; the server's sockets and database stay unchanged.
    pub fn configure(&mut self, config: Option<&Path>) -> Result<(), Failure> {
        let found = config.map(|path| {
            path.canonicalize().map_err(|error| Failure::reading(path.display(), &error))
        });
        self.config = found.transpose()?;
        Ok(())
    }

    /// Returns the path of the server's socket.
    pub fn socket(&self) -> PathBuf {
        self.path("vctx.sock")
    }

    /// Returns the path of the engine's socket for reads and writes.
    pub fn engine(&self) -> PathBuf {
        self.path("engine.sock")
    }

    /// Returns the credentials of the engine's root user, who has all rights.
    pub fn root(&self) -> Credentials {
        Credentials { user: "root".into(), password: self.password.clone() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Returns a client of the server that never retries, because the demo retries calls itself and
    /// counts the retries.
    pub fn client(&self) -> Client {
        Client::new(Settings {
            attempts_max: 1,
            deadline: ANSWER_WAIT_MAX,
            ..Settings::new(self.socket())
        })
    }

    /// Returns a client of the metrics socket.
    pub fn metrics_client(&self) -> Client {
        let socket = paths::metrics_socket(&self.socket());
        Client::new(Settings {
            attempts_max: 1,
            deadline: ANSWER_WAIT_MAX,
            ..Settings::new(socket)
        })
    }

    /// Starts a process, waits until the process answers, and returns the process id.
    pub async fn start(&mut self, role: Role) -> Result<u32, Failure> {
        let child = self.command(role)?.spawn().map_err(|error| {
            Failure::internal(format!("cannot start the {}: {error}", role.name()))
        })?;
        let id = child.id().unwrap_or(0);
        *self.slot(role) = Some(child);
        self.wait_until_ready(role).await?;
        Ok(id)
    }

    fn command(&self, role: Role) -> Result<Command, Failure> {
        let log =
            OpenOptions::new().create(true).append(true).open(self.log(role)).map_err(|error| {
                Failure::writing(format!("the log of the {}", role.name()), &error)
            })?;
        let also = log
            .try_clone()
            .map_err(|error| Failure::writing(format!("the log of the {}", role.name()), &error))?;
        let mut command = Command::new(&self.program);
        for (name, _) in std::env::vars_os() {
            if name.as_bytes().starts_with(b"ARANGO_") || name.as_bytes().starts_with(b"VCTX_") {
                command.env_remove(name);
            }
        }
        match role {
            Role::Engine => {
                command.arg("engine").arg("--socket").arg(self.path("engine.sock"));
                command
                    .arg("--ro-socket")
                    .arg(self.path("engine-ro.sock"))
                    .arg("--data-dir")
                    .arg(&self.data);
                command.env("ARANGO_ROOT_PASSWORD", &self.password);
            }
            Role::Server => {
                command
                    .arg("serve")
                    .arg("--socket")
                    .arg(self.socket())
                    .arg("--data-dir")
                    .arg(self.path("server"));
                if let Some(config) = &self.config {
                    command.arg("--config").arg(config);
                }
                command
                    .env("ARANGO_RW_UDS", self.path("engine.sock"))
                    .env("ARANGO_RO_UDS", self.path("engine-ro.sock"));
                command.env("ARANGO_USER", "root").env("ARANGO_PASSWORD", &self.password);
            }
        }
        command.stdin(Stdio::null()).stdout(log).stderr(also).kill_on_drop(true);
        Ok(command)
    }

    fn log(&self, role: Role) -> PathBuf {
        self.path(&format!("{}.log", role.name()))
    }

    fn slot(&mut self, role: Role) -> &mut Option<Child> {
        match role {
            Role::Engine => &mut self.engine,
            Role::Server => &mut self.server,
        }
    }

    async fn wait_until_ready(&mut self, role: Role) -> Result<(), Failure> {
        let until = clock::now() + READY_WAIT_MAX;
        let mut last = String::from("the process does not listen");
        while clock::now() < until {
            if let Some(status) = self.exited(role)? {
                return Err(Failure::internal(format!(
                    "the {} ended at its start: {status}",
                    role.name()
                )));
            }
            match self.look(role).await {
                Ok(()) => return Ok(()),
                Err(reason) => last = reason,
            }
            tokio::time::sleep(READY_LOOK).await;
        }
        Err(Failure::new(
            Exit::Unavailable,
            "NOT_READY",
            format!("the {} is not ready after {READY_WAIT_MAX:?}: {last}", role.name()),
        ))
    }

    async fn look(&self, role: Role) -> Result<(), String> {
        match role {
            Role::Engine => {
                UnixStream::connect(self.path("engine.sock"))
                    .await
                    .map_err(|error| error.to_string())?;
                UnixStream::connect(self.path("engine-ro.sock"))
                    .await
                    .map_err(|error| error.to_string())?;
                Ok(())
            }
            Role::Server => {
                self.client().ready().await.map(drop).map_err(|problem| problem.to_string())
            }
        }
    }

    fn exited(&mut self, role: Role) -> Result<Option<std::process::ExitStatus>, Failure> {
        match self.slot(role) {
            None => Ok(None),
            Some(child) => child.try_wait().map_err(|error| {
                Failure::internal(format!("cannot wait for the {}: {error}", role.name()))
            }),
        }
    }

    /// Kills a process with SIGKILL, waits until the process has ended, and returns its process id.
    pub async fn kill(&mut self, role: Role) -> Result<u32, Failure> {
        let Some(mut child) = self.slot(role).take() else {
            return Err(Failure::internal(format!("there is no {} to kill", role.name())));
        };
        let id = child.id().unwrap_or(0);
        let gone = tokio::time::timeout(GONE_WAIT_MAX, child.kill()).await;
        match gone {
            Ok(Ok(())) => Ok(id),
            Ok(Err(error)) => {
                Err(Failure::internal(format!("cannot kill the {} ({id}): {error}", role.name())))
            }
            Err(_) => Err(Failure::internal(format!(
                "the {} ({id}) still runs {GONE_WAIT_MAX:?} after SIGKILL",
                role.name()
            ))),
        }
    }

    /// Restarts each process that ended by itself; returns the roles of the restarted processes.
    pub async fn revive(&mut self) -> Result<Vec<Role>, Failure> {
        let mut revived = Vec::new();
        for role in [Role::Engine, Role::Server] {
            if self.slot(role).is_none() || self.exited(role)?.is_some() {
                self.start(role).await?;
                revived.push(role);
            }
        }
        Ok(revived)
    }

    /// Stops both processes. The data of all answered calls is on disk, so SIGKILL loses nothing.
    pub async fn stop(&mut self) -> Result<(), Failure> {
        let mut ended = Ok(());
        for role in [Role::Server, Role::Engine] {
            if self.slot(role).is_some() {
                ended = ended.and(self.kill(role).await.map(drop));
            }
        }
        ended
    }

    /// Appends the last lines of both process logs to the message of a failure that a process may
    /// have caused.
    pub fn explain(&self, failure: Failure) -> Failure {
        if matches!(failure.exit, Exit::Data | Exit::Usage) || failure.code == "INTERRUPTED" {
            return failure;
        }
        let mut message = failure.message.clone();
        for role in [Role::Engine, Role::Server] {
            if let Some(tail) = tail(&self.log(role)) {
                message.push_str(&format!("\n--- the {} said last ---\n{tail}", role.name()));
            }
        }
        Failure { message, ..failure }
    }
}

/// Returns the system's temporary directory, or `/tmp` if that path is too long for a socket.
fn short_temporary_dir() -> PathBuf {
    let stated = std::env::temp_dir();
    match stated.as_os_str().as_bytes().len() + LONGEST_NAME.len() <= SOCKET_PATH_BYTES_MAX {
        true => stated,
        false => PathBuf::from("/tmp"),
    }
}

/// Creates a directory if it does not exist; returns an error if the directory is not empty.
fn empty_dir(path: &Path) -> Result<PathBuf, Failure> {
    std::fs::create_dir_all(path).map_err(|error| Failure::writing(path.display(), &error))?;
    let mut entries = path.read_dir().map_err(|error| Failure::reading(path.display(), &error))?;
    if entries.next().is_some() {
        let message = format!("{} is not empty", path.display());
        return Err(Failure::new(Exit::CannotCreate, "CANNOT_CREATE", message)
            .next("give a directory that is empty or does not exist"));
    }
    path.canonicalize().map_err(|error| Failure::reading(path.display(), &error))
}

/// Writes a file that only the file's owner can read.
fn write_secret(path: &Path, secret: &str) -> Result<(), Failure> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(secret.as_bytes()))
        .map_err(|error| Failure::writing(path.display(), &error))
}

fn tail(path: &Path) -> Option<String> {
    let mut file = File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LOG_TAIL_BYTES))).ok()?;
    let mut bytes = Vec::new();
    file.take(LOG_TAIL_BYTES).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes).trim().to_string();
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_directory_must_be_empty_and_its_password_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let keep = dir.path().join("a/b");
        let stage = Stage::prepare(Some(&keep)).unwrap();
        let password = keep.join("root.password");
        assert_eq!(password.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_to_string(&password).unwrap(), stage.password);
        let again = Stage::prepare(Some(&keep)).err().unwrap();
        assert_eq!(again.exit, Exit::CannotCreate);
        assert!(stage.path("engine-ro.sock").as_os_str().len() <= SOCKET_PATH_BYTES_MAX);
        assert_eq!(stage.dir.path().metadata().unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn the_end_of_a_log_is_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("l");
        assert_eq!(tail(&path), None);
        std::fs::write(&path, format!("{}end\n", "x".repeat(5000))).unwrap();
        let text = tail(&path).unwrap();
        assert!(text.ends_with("xend") && text.len() <= LOG_TAIL_BYTES as usize);
    }
}
