//! Creates and removes scratch: the doctor's temporary database, or temporary collections in the
//! configured database.
//!
//! Scratch of earlier runs is recognised by name.

use http::Method;
use serde_json::{Value, json};

use super::report::Rows;
use crate::checks;
use crate::store::{self, Admin, Answer, Credentials, Endpoint, FaultKind};
use vctx_base::clock::{Clock as _, SystemClock};
use vctx_base::ids::{Ids as _, SystemIds};

/// Prefix of the name of every scratch object.
const PREFIX: &str = "vctx_doctor_";
/// Number of hexadecimal digits for the time in a scratch name, in milliseconds; enough until the
/// year 2527.
const MOMENT_DIGITS: usize = 11;
/// Number of random hexadecimal digits in a scratch name.
const CHANCE_DIGITS: usize = 8;
/// Suffixes of scratch names, one for each kind of object. The name of a scratch database has no
/// suffix.
const ENDINGS: &[&str] = &["docs", "vectors", "empty", "mine", "view", "rw", "ro"];
/// Age in seconds at which scratch counts as abandoned; no doctor's visit may last this long.
pub const LEFTOVER_S: u64 = 900;

/// The base name of one run's scratch objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name(String);

impl Name {
    /// Makes a new scratch name from the current time and random digits.
    pub(super) fn fresh() -> Self {
        let chance: String = SystemIds.salt().chars().take(CHANCE_DIGITS).collect();
        Self(format!("{PREFIX}{:0MOMENT_DIGITS$x}_{chance}", SystemClock.unix_ms()))
    }

    /// Returns the name of this run's scratch database, which has no suffix.
    pub(super) fn text(&self) -> &str {
        &self.0
    }

    /// Returns the name of a scratch object of this run other than the database.
    pub(super) fn of(&self, ending: &str) -> String {
        format!("{}_{ending}", self.0)
    }

    /// Returns a seed for repeatable random values, derived from the scratch name.
    pub(super) fn seed(&self) -> u64 {
        let digits = self.0.rsplit('_').next().unwrap_or_default();
        u64::from_str_radix(digits, 16).unwrap_or(1)
    }

    /// Returns whether an object belongs to this run, judged by the object's name.
    fn owns(&self, name: &str) -> bool {
        name == self.0 || ENDINGS.iter().any(|ending| name == self.of(ending))
    }
}

/// Returns when the run of a scratch name began, in milliseconds, or `None` if the name is not a
/// scratch name.
pub(super) fn begun_ms(name: &str) -> Option<u64> {
    let mut parts = name.strip_prefix(PREFIX)?.splitn(3, '_');
    let (moment, chance, ending) = (parts.next()?, parts.next()?, parts.next());
    let hex = |text: &str, digits: usize| {
        text.len() == digits && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    };
    let known = ending.is_none_or(|ending| ENDINGS.contains(&ending));
    let ours = known && hex(moment, MOMENT_DIGITS) && hex(chance, CHANCE_DIGITS);
    ours.then(|| u64::from_str_radix(moment, 16).ok()).flatten()
}

/// The temporary database, or the temporary collections, in which the doctor's checks write.
pub(super) struct Ground {
    /// Connection to the database that contains the doctor's scratch objects.
    pub(super) db: Admin,
    /// Scratch name of this run.
    pub(super) name: Name,
    /// Whether the scratch is a database of its own.
    pub(super) is_database: bool,
}

impl Ground {
    /// Returns the full name of an object in this run's scratch.
    pub(super) fn of(&self, ending: &str) -> String {
        self.name.of(ending)
    }

    /// Sends a request to the database that contains the doctor's scratch objects.
    pub(super) async fn ask(
        &self,
        method: Method,
        path: &str,
        body: &Value,
    ) -> store::Result<Answer> {
        self.db.ask(method, path, (!body.is_null()).then_some(body)).await
    }

    /// Creates a scratch collection of this run, unless the collection exists.
    pub(super) async fn collection(&self, ending: &str) -> store::Result<Answer> {
        let body = json!({"name": self.of(ending), "type": 2});
        self.ask(Method::POST, "_api/collection", &body).await
    }
}

/// Creates scratch: a database if the user may create databases, otherwise a collection in the
/// configured database. Returns `None` if the user may create neither a database nor a collection;
/// then the report's row says why.
pub(super) async fn make(
    endpoint: &Endpoint,
    who: &Credentials,
    database: &str,
    name: &Name,
    rows: &mut Rows,
) -> store::Result<Option<Ground>> {
    let row = checks::SCRATCH;
    let body = json!({"name": name.text(), "options": {"sharding": "single"}});
    let no_database = match admitted(Admin::connect(endpoint, who, "_system").await)? {
        Ok(system) => {
            let made = system.ask(Method::POST, "/_api/database", Some(&body)).await?;
            if made.status == 201 {
                let db = Admin::connect(endpoint, who, name.text()).await?;
                rows.see(row, true, format!("database {}", name.text()));
                return Ok(Some(Ground { db, name: name.clone(), is_database: true }));
            }
            if !is_forbidden(&made) {
                rows.see(row, false, format!("no database: {made}"));
                return Ok(None);
            }
            made.to_string()
        }
        Err(refused) => refused,
    };
    let no_collection = match admitted(Admin::connect(endpoint, who, database).await)? {
        Ok(db) => {
            let ground = Ground { db, name: name.clone(), is_database: false };
            let made = ground.collection("docs").await?;
            if made.is_ok() {
                rows.see(row, true, format!("no database ({no_database}), but {}", ground.of("*")));
                return Ok(Some(ground));
            }
            if !is_forbidden(&made) {
                rows.see(row, false, format!("no collection: {made}"));
                return Ok(None);
            }
            made.to_string()
        }
        Err(refused) => refused,
    };
    rows.skip(
        row,
        format!(
            "user {} may make neither a database ({no_database}) nor a collection in {database} ({no_collection}): run `vctx doctor` as \
             administrator too (ARANGO_USER=root)",
            who.user
        ),
    );
    Ok(None)
}

fn is_forbidden(answer: &Answer) -> bool {
    matches!(answer.status, 401 | 403)
}

/// Returns a connection, or in the inner `Err` the reason why the database refuses the user. Any
/// other failure is the outer `Err`.
fn admitted(connected: store::Result<Admin>) -> store::Result<Result<Admin, String>> {
    match connected {
        Ok(db) => Ok(Ok(db)),
        Err(fault) => match fault.kind {
            FaultKind::Arango { status: 401 | 403 | 404, .. } => Ok(Err(fault.to_string())),
            _ => Err(fault),
        },
    }
}

/// Removes the scratch of this run, or of runs that began before a given time, and returns the
/// removed names. Scratch objects that the user cannot see remain.
pub(super) async fn remove(
    endpoint: &Endpoint,
    who: &Credentials,
    database: &str,
    whose: Whose<'_>,
) -> store::Result<Vec<String>> {
    let mut gone = Vec::new();
    // The system database is cleaned first, since dropping a database also removes its collections.
    for place in ["_system", database] {
        let db = match Admin::connect(endpoint, who, place).await {
            Ok(db) => db,
            Err(fault) if fault.passing() => return Err(fault),
            // A database that is missing or closed to the user contains no scratch that could be
            // removed.
            Err(_) => continue,
        };
        for (list, names) in KINDS.iter().filter(|(list, _)| (place == "_system") == list.system) {
            for name in names_of(&db, list.path, names).await? {
                if whose.are(&name) {
                    let path = format!("{}/{name}", list.item);
                    if db.ask(Method::DELETE, &path, None).await?.is_ok() {
                        gone.push(name);
                    }
                }
            }
        }
    }
    Ok(gone)
}

/// Selects the scratch that `remove` and `left` search for.
#[derive(Clone, Copy)]
pub(super) enum Whose<'a> {
    /// Scratch of this run.
    Own(&'a Name),
    /// Scratch of runs that began before this time, in milliseconds.
    Before(u64),
}

impl Whose<'_> {
    fn are(self, name: &str) -> bool {
        match self {
            Self::Own(own) => own.owns(name),
            Self::Before(ms) => begun_ms(name).is_some_and(|begun| begun < ms),
        }
    }
}

/// Returns the names of scratch objects that still exist.
pub(super) async fn left(
    endpoint: &Endpoint,
    who: &Credentials,
    database: &str,
    whose: Whose<'_>,
) -> store::Result<Vec<String>> {
    let mut found = Vec::new();
    for place in ["_system", database] {
        let Ok(db) = Admin::connect(endpoint, who, place).await else { continue };
        for (list, names) in KINDS.iter().filter(|(list, _)| (place == "_system") == list.system) {
            let listed = names_of(&db, list.path, names).await?;
            found.extend(listed.into_iter().filter(|name| whose.are(name)));
        }
    }
    Ok(found)
}

struct List {
    system: bool,
    path: &'static str,
    item: &'static str,
}

/// Kinds of scratch objects, each with the JSON field that has the object's name. The order is the
/// order of removal: users before databases, and views before collections.
const KINDS: &[(List, &str)] = &[
    (List { system: true, path: "/_api/user", item: "/_api/user" }, "user"),
    (List { system: true, path: "/_api/database", item: "/_api/database" }, ""),
    (List { system: false, path: "_api/view", item: "_api/view" }, "name"),
    (
        List { system: false, path: "_api/collection?excludeSystem=true", item: "_api/collection" },
        "name",
    ),
];

async fn names_of(db: &Admin, path: &str, field: &str) -> store::Result<Vec<String>> {
    let listed = db.ask(Method::GET, path, None).await?;
    let entries = listed.body["result"].as_array().cloned().unwrap_or_default();
    let name = |entry: &Value| match field {
        "" => entry.as_str().map(str::to_owned),
        field => entry[field].as_str().map(str::to_owned),
    };
    Ok(entries.iter().filter_map(name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_doctor_made_is_recognised() {
        let name = Name("vctx_doctor_019abcdef01_0123abcd".into());
        assert_eq!(begun_ms(name.text()), Some(0x0019_abcd_ef01));
        assert_eq!(begun_ms(&name.of("docs")), Some(0x0019_abcd_ef01));
        for other in [
            "vctx",
            "vctx_doctor_",
            "vctx_doctor_notes",
            "vctx_doctor_019abcdef01",
            "vctx_doctor_019ABCDEF01_0123abcd",
            "vctx_doctor_019abcdef01_0123abcde",
            "vctx_doctor_019abcdef01_0123abcd_mail",
            "my_vctx_doctor_019abcdef01_0123abcd",
        ] {
            assert_eq!(begun_ms(other), None, "{other}");
        }
        assert!(name.owns(name.text()) && name.owns(&name.of("view")));
        assert!(!name.owns("vctx_doctor_019abcdef01_0123abce"));
        assert!(Whose::Before(0x0019_abcd_ef02).are(name.text()));
        assert!(!Whose::Before(0x0019_abcd_ef01).are(name.text()));
    }

    #[test]
    fn fresh_names_tell_when_they_were_made() {
        let before = SystemClock.unix_ms();
        let name = Name::fresh();
        let begun = begun_ms(name.text()).expect("a name of ours");
        assert!(begun >= before && begun <= SystemClock.unix_ms());
        assert_ne!(Name::fresh(), name);
    }
}
