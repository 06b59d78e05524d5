//! Scratch: a database of this run, or collections with its name in front; made, removed, and recognised by name when a doctor died.

use http::Method;
use serde_json::{Value, json};

use super::check;
use super::report::Rows;
use crate::store::{Admin, Answer, Credentials, Endpoint, Fault, FaultKind};
use vctx_base::clock::{Clock as _, SystemClock};
use vctx_base::ids::{Ids as _, SystemIds};

/// What every name of scratch begins with.
const PREFIX: &str = "vctx_doctor_";
/// Hexadecimal digits of the moment in a name, in milliseconds: enough until the year 2527.
const MOMENT_DIGITS: usize = 11;
/// Hexadecimal digits of chance in a name.
const CHANCE_DIGITS: usize = 8;
/// What a name may end in: nothing for a database, else what it is.
const ENDINGS: &[&str] = &["docs", "vectors", "empty", "mine", "view", "rw", "ro"];
/// Age in seconds from which on scratch counts as left behind: longer than any visit may last.
pub const LEFTOVER_S: u64 = 900;

/// The name of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name(String);

impl Name {
    /// A new one.
    pub(super) fn fresh() -> Self {
        let chance: String = SystemIds.salt().chars().take(CHANCE_DIGITS).collect();
        Self(format!("{PREFIX}{:0MOMENT_DIGITS$x}_{chance}", SystemClock.unix_ms()))
    }

    /// The name itself: that of a database.
    pub(super) fn text(&self) -> &str {
        &self.0
    }

    /// A name of something else of the same run.
    pub(super) fn of(&self, ending: &str) -> String {
        format!("{}_{ending}", self.0)
    }

    /// A number that follows from the name, for chance that can be repeated.
    pub(super) fn seed(&self) -> u64 {
        let digits = self.0.rsplit('_').next().unwrap_or_default();
        u64::from_str_radix(digits, 16).unwrap_or(1)
    }

    /// Whether something else is of this run.
    fn owns(&self, name: &str) -> bool {
        name == self.0 || ENDINGS.iter().any(|ending| name == self.of(ending))
    }
}

/// When the run began that something is named after, in milliseconds; none for what no doctor made.
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

/// Where probes may write.
pub(super) struct Ground {
    /// The database in which they do.
    pub(super) db: Admin,
    /// Of this run.
    pub(super) name: Name,
    /// Whether it is a database of its own.
    pub(super) is_database: bool,
}

impl Ground {
    /// A name of this run for something in it.
    pub(super) fn of(&self, ending: &str) -> String {
        self.name.of(ending)
    }

    /// A request there.
    pub(super) async fn ask(
        &self,
        method: Method,
        path: &str,
        body: &Value,
    ) -> Result<Answer, Fault> {
        self.db.ask(method, path, (!body.is_null()).then_some(body)).await
    }

    /// Makes a collection of this run; one that is there is as good.
    pub(super) async fn collection(&self, ending: &str) -> Result<Answer, Fault> {
        let body = json!({"name": self.of(ending), "type": 2});
        self.ask(Method::POST, "_api/collection", &body).await
    }
}

/// Makes scratch: a database if the user may make one, else a collection in the configured one. None, and the row says why, if neither.
pub(super) async fn make(
    endpoint: &Endpoint,
    who: &Credentials,
    database: &str,
    name: &Name,
    rows: &mut Rows,
) -> Result<Option<Ground>, Fault> {
    let row = check::SCRATCH;
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
                rows.see(row, false, format!("no database: {}", made.told()));
                return Ok(None);
            }
            made.told()
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
                rows.see(row, false, format!("no collection: {}", made.told()));
                return Ok(None);
            }
            made.told()
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

/// A connection, or why this user gets none there; anything else is a fault.
fn admitted(connected: Result<Admin, Fault>) -> Result<Result<Admin, String>, Fault> {
    match connected {
        Ok(db) => Ok(Ok(db)),
        Err(fault) => match fault.kind {
            FaultKind::Arango { status: 401 | 403 | 404, .. } => Ok(Err(fault.to_string())),
            _ => Err(fault),
        },
    }
}

/// Removes what is named after a run: of this one, or of those that began before a moment. Gives the names; what the user may not see is left.
pub(super) async fn remove(
    endpoint: &Endpoint,
    who: &Credentials,
    database: &str,
    whose: Whose<'_>,
) -> Result<Vec<String>, Fault> {
    let mut gone = Vec::new();
    // The system database first: a database goes with all that is in it.
    for place in ["_system", database] {
        let db = match Admin::connect(endpoint, who, place).await {
            Ok(db) => db,
            Err(fault) if fault.passing() => return Err(fault),
            // It is not there, or not for this user: nothing of ours can be in it either.
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

/// What `remove` and `left` look for.
#[derive(Clone, Copy)]
pub(super) enum Whose<'a> {
    /// This run's.
    Own(&'a Name),
    /// Of runs that began before a moment, in milliseconds.
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

/// What is left of it.
pub(super) async fn left(
    endpoint: &Endpoint,
    who: &Credentials,
    database: &str,
    whose: Whose<'_>,
) -> Result<Vec<String>, Fault> {
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

/// What a run may make: users before databases, views before collections; and where a name stands in an entry.
const KINDS: &[(List, &str)] = &[
    (List { system: true, path: "/_api/user", item: "/_api/user" }, "user"),
    (List { system: true, path: "/_api/database", item: "/_api/database" }, ""),
    (List { system: false, path: "_api/view", item: "_api/view" }, "name"),
    (
        List { system: false, path: "_api/collection?excludeSystem=true", item: "_api/collection" },
        "name",
    ),
];

async fn names_of(db: &Admin, path: &str, field: &str) -> Result<Vec<String>, Fault> {
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
