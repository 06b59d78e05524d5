//! Lets the tests run on an external database server (a real arangod): finds its sockets and its
//! user, names a database for each test, and skips the tests that need an engine of their own.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{self, Command};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::home::{Home, PASSWORD};

/// Maximum time until a database is dropped.
const DROP_MAX: Duration = Duration::from_secs(60);

/// The sockets of an external database server, and the database user with which the tests log in.
pub(crate) struct Outside {
    pub(crate) writes: PathBuf,
    pub(crate) reads: PathBuf,
    pub(crate) user: String,
    pub(crate) password: String,
}

/// Returns the external database server that the environment names (`ARANGO_RW_UDS`; optionally
/// `ARANGO_RO_UDS`, `ARANGO_USER`, `ARANGO_PASSWORD`); `None` if every test starts its own engine.
pub(crate) fn outside() -> Option<&'static Outside> {
    static GIVEN: OnceLock<Option<Outside>> = OnceLock::new();
    GIVEN
        .get_or_init(|| {
            let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
            let socket =
                |name| variable(name).map(|path| PathBuf::from(path.trim_start_matches("unix://")));
            let writes = socket("ARANGO_RW_UDS")?;
            Some(Outside {
                reads: socket("ARANGO_RO_UDS").unwrap_or_else(|| writes.clone()),
                writes,
                user: variable("ARANGO_USER").unwrap_or_else(|| "root".into()),
                password: variable("ARANGO_PASSWORD").unwrap_or_default(),
            })
        })
        .as_ref()
}

/// Reports whether a test must be skipped because it needs its own database server.
pub(crate) fn needs_an_engine_of_its_own(why: &str) -> bool {
    if outside().is_some() {
        println!("skipped on a server that runs already: this test {why}");
    }
    outside().is_some()
}

impl Outside {
    /// Returns a name for a test's database that no other test uses.
    pub(crate) fn fresh_database() -> String {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a clock");
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        format!("vctx-it-{:x}-{}-{number}", since.as_millis(), process::id())
    }

    /// Drops a database; a missing database is no error.
    pub(crate) fn drop_database(&self, name: &str) -> std::io::Result<()> {
        let mut stream = UnixStream::connect(&self.writes)?;
        stream.set_read_timeout(Some(DROP_MAX))?;
        let credentials = STANDARD.encode(format!("{}:{}", self.user, self.password));
        write!(
            stream,
            "DELETE /_db/_system/_api/database/{name} HTTP/1.1\r\nhost: localhost\r\nauthorization: Basic {credentials}\r\n\
             content-length: 0\r\nconnection: close\r\n\r\n"
        )?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        let head = String::from_utf8_lossy(&answer);
        match head.split(' ').nth(1) {
            Some("200" | "404") => Ok(()),
            _ => Err(std::io::Error::other(head.lines().next().unwrap_or_default().to_owned())),
        }
    }
}

/// Names of the tests that this file runs on an external database server. They test a restart, lost
/// answers, the creation of an index, and database users.
const TRIED: &[&str] = &[
    "contract::a_restart_changes_nothing",
    "faults::a_lost_answer_to_a_commit_is_neither_lost_nor_doubled",
    "archival::index::the_index_is_made_when_there_is_enough_and_then_serves",
    "setup::the_users_of_setup_do_their_work_and_no_more",
];

#[tokio::test(flavor = "multi_thread")]
async fn the_suite_runs_on_a_server_that_runs_already_and_leaves_no_database_there() {
    if needs_an_engine_of_its_own("stands for that server itself") {
        return;
    }
    let home = Home::new();
    let _engine = home.engine().await;
    let inner = Command::new(std::env::current_exe().expect("this program"))
        .arg("--exact")
        .args(TRIED)
        .env("ARANGO_RW_UDS", home.path("engine.sock"))
        .env("ARANGO_RO_UDS", home.path("engine-ro.sock"))
        .env("ARANGO_PASSWORD", PASSWORD)
        .output()
        .expect("this program runs");
    let said = String::from_utf8_lossy(&inner.stdout);
    assert!(inner.status.success(), "{said}\n{}", String::from_utf8_lossy(&inner.stderr));
    assert!(said.contains(&format!("{} passed", TRIED.len())), "not all were tried: {said}");
    let left = home.database().system("GET", "/_api/database", &Value::Null).await.ok();
    assert_eq!(left["result"], json!(["_system"]));
    // These users exist only if the tests really used the external database server.
    let users = home.database().system("GET", "/_api/user", &Value::Null).await.ok();
    assert!(users["result"].to_string().contains("vctx_rw"), "{users}");
}
