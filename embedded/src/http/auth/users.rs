//! All users with their grants, kept in memory and in one durable setting of the engine.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use crate::Engine;
use crate::error::{Code, Error, Result};
use crate::value::{Object, Value};

use super::super::limits::{CREDENTIAL_BYTES_MAX, TOKENS_MAX, USERS_MAX};
use super::super::reply::object;
use super::access::AccessToken;
use super::digest::Password;
use super::grants::{Grants, Level};

/// Name of the engine's durable setting that contains the users.
const SETTING: &str = "users";

/// One user.
#[derive(Clone)]
pub(in super::super) struct User {
    pub(super) password: Password,
    /// Whether the user can log in.
    pub(in super::super) active: bool,
    /// Arbitrary data that clients store with the user.
    pub(in super::super) extra: Value,
    /// Grants of the user.
    pub(in super::super) grants: Grants,
    /// The user's access tokens, which can replace the password.
    pub(in super::super) tokens: Vec<AccessToken>,
}

impl User {
    /// A user without grants.
    pub(in super::super) fn new(password: &str, active: bool, extra: Value) -> Result<Self> {
        if password.len() > CREDENTIAL_BYTES_MAX {
            return Err(Error::new(Code::BadParameter, "password is too long"));
        }
        let password = Password::new(password)?;
        Ok(Self { password, active, extra, grants: Grants::default(), tokens: Vec::new() })
    }

    /// Changes the password, unless the user has it already.
    pub(in super::super) fn set_password(&mut self, plain: &str) -> Result<()> {
        if !self.password.is_current(plain) {
            self.password = Self::new(plain, true, Value::Null)?.password;
        }
        Ok(())
    }

    fn to_value(&self) -> Value {
        object! {
            "password" => self.password.to_value(),
            "active" => self.active,
            "extra" => self.extra.clone(),
            "grants" => self.grants.to_value(),
            "tokens" => self.tokens.iter().map(AccessToken::to_value).collect::<Vec<_>>(),
        }
    }

    fn from_value(value: &Value) -> Option<Self> {
        Some(Self {
            password: Password::from_value(&value.attribute("password"))?,
            active: matches!(value.attribute("active"), Value::Bool(true)),
            extra: value.attribute("extra"),
            grants: Grants::from_value(&value.attribute("grants"))?,
            // A user that was stored before access tokens were introduced has no tokens.
            tokens: match value.attribute("tokens") {
                Value::Null => Vec::new(),
                tokens => {
                    tokens.as_array()?.iter().map(AccessToken::from_value).collect::<Option<_>>()?
                }
            },
        })
    }
}

type Table = BTreeMap<String, Arc<User>>;

/// The table of users. Reading it never waits for the disk.
pub(in super::super) struct Users {
    engine: Arc<Engine>,
    table: RwLock<Arc<Table>>,
    /// A lock that is held during a change of the table, from reading the table to storing it
    /// durably, so that only one change runs at a time.
    changing: std::sync::Mutex<()>,
}

impl Users {
    /// Whether a data directory has a table of users. If not, the engine creates the user `root`
    /// when it starts.
    pub(super) fn are_in(engine: &Engine) -> Result<bool> {
        Ok(engine.setting(SETTING)?.is_some())
    }

    /// Loads the table of users. If there is none, as on the first start, creates `root` with
    /// `root_password`.
    pub(super) fn open(engine: Arc<Engine>, root_password: &str) -> Result<Self> {
        let stored = engine.setting(SETTING)?;
        let table = match &stored {
            Some(value) => load(value)?,
            None => Table::new(),
        };
        let users = Self {
            engine,
            table: RwLock::new(Arc::new(table)),
            changing: std::sync::Mutex::new(()),
        };
        if stored.is_none() {
            let mut root = User::new(root_password, true, object! {})?;
            root.grants = Grants::everything();
            users.change(|table| {
                table.insert("root".to_owned(), Arc::new(root.clone()));
                Ok(())
            })?;
        }
        Ok(users)
    }

    fn table(&self) -> Arc<Table> {
        Arc::clone(&self.table.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the user with the given name.
    pub(in super::super) fn get(&self, name: &str) -> Option<Arc<User>> {
        self.table().get(name).cloned()
    }

    /// All users, sorted by name.
    pub(in super::super) fn all(&self) -> Vec<(String, Arc<User>)> {
        self.table().iter().map(|(name, user)| (name.clone(), Arc::clone(user))).collect()
    }

    /// Adds a user. Errors: 1702 if the name is taken, 1700 if the name is empty or too long.
    pub(in super::super) fn create(&self, name: &str, user: User) -> Result<()> {
        check_name(name)?;
        self.change(|table| {
            if table.contains_key(name) {
                return Err(Error::of(Code::UserDuplicate));
            }
            if table.len() >= USERS_MAX {
                return Err(Error::new(Code::ResourceLimit, "too many users"));
            }
            table.insert(name.to_owned(), Arc::new(user.clone()));
            Ok(())
        })
    }

    /// Changes a user; error 1703 for an unknown user.
    pub(in super::super) fn edit(
        &self,
        name: &str,
        edit: impl Fn(&mut User) -> Result<()>,
    ) -> Result<Arc<User>> {
        self.change(|table| {
            let user = table.get(name).ok_or_else(|| Error::of(Code::UserNotFound))?;
            let mut user = User::clone(user);
            edit(&mut user)?;
            let user = Arc::new(user);
            table.insert(name.to_owned(), Arc::clone(&user));
            Ok(user)
        })
    }

    /// Sets or removes a grant.
    pub(in super::super) fn grant(
        &self,
        name: &str,
        database: &str,
        collection: Option<&str>,
        level: Option<Level>,
    ) -> Result<()> {
        self.edit(name, |user| {
            user.grants.set(database, collection, level);
            Ok(())
        })
        .map(|_| ())
    }

    /// Creates an access token and returns it with its text. Errors: 1207 if the user has a token
    /// with that name, 10 without a name.
    pub(in super::super) fn add_token(
        &self,
        user: &str,
        name: &str,
        valid_until: Option<u64>,
    ) -> Result<(AccessToken, String)> {
        if name.is_empty() || name.len() > CREDENTIAL_BYTES_MAX {
            return Err(Error::new(Code::BadParameter, "an access token needs a name"));
        }
        let mut made = None;
        self.change(|table| {
            let known = table.get(user).ok_or_else(|| Error::of(Code::UserNotFound))?;
            let mut changed = User::clone(known);
            let tokens = &mut changed.tokens;
            if tokens.iter().any(|token| token.name == name) {
                return Err(Error::of(Code::DuplicateName));
            }
            if tokens.len() >= TOKENS_MAX {
                return Err(Error::new(Code::ResourceLimit, "too many access tokens"));
            }
            let id = tokens.iter().map(|token| token.id).max().unwrap_or(0) + 1;
            let (token, text) = AccessToken::new(user, id, name, valid_until)?;
            tokens.push(token.clone());
            table.insert(user.to_owned(), Arc::new(changed));
            made = Some((token, text));
            Ok(())
        })?;
        Ok(made.expect("made by the change"))
    }

    /// Removes an access token; error 404 for an unknown token.
    pub(in super::super) fn remove_token(&self, user: &str, id: u64) -> Result<()> {
        self.edit(user, |user| {
            let before = user.tokens.len();
            user.tokens.retain(|token| token.id != id);
            if user.tokens.len() < before { Ok(()) } else { Err(Error::of(Code::HttpNotFound)) }
        })
        .map(|_| ())
    }

    /// Removes a user; error 1703 for an unknown user.
    pub(in super::super) fn remove(&self, name: &str) -> Result<()> {
        self.change(|table| {
            table.remove(name).map(|_| ()).ok_or_else(|| Error::of(Code::UserNotFound))
        })
    }

    /// Removes all grants on a dropped database, so that they do not apply to a later database with
    /// the same name.
    pub(in super::super) fn forget_database(&self, database: &str) -> Result<()> {
        self.change(|table| {
            for user in table.values_mut() {
                if user.grants.mentions(database) {
                    let mut changed = User::clone(user);
                    changed.grants.forget(database);
                    *user = Arc::new(changed);
                }
            }
            Ok(())
        })
    }

    /// Applies a change to a copy of the table and stores the copy durably, unless it equals the
    /// current table. The copy then replaces the current table.
    fn change<T>(&self, change: impl FnOnce(&mut Table) -> Result<T>) -> Result<T> {
        let _one = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.table();
        let mut table = Table::clone(&before);
        let done = change(&mut table)?;
        let all = stored(&table);
        if all == stored(&before) {
            return Ok(done);
        }
        self.engine.put_setting(SETTING, Some(all))?;
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(table);
        Ok(done)
    }
}

/// Returns the stored form of a table, which [`load`] reads.
fn stored(table: &Table) -> Value {
    let mut all = Object::with_capacity(table.len());
    for (name, user) in table {
        all.push_new(name.as_str(), user.to_value());
    }
    Value::object(all)
}

fn load(value: &Value) -> Result<Table> {
    let broken = || Error::new(Code::Internal, "the stored users are unreadable");
    value
        .as_object()
        .ok_or_else(broken)?
        .iter()
        .map(|(name, user)| {
            Ok((name.to_string(), Arc::new(User::from_value(user).ok_or_else(broken)?)))
        })
        .collect()
}

fn check_name(name: &str) -> Result<()> {
    let bad = name.is_empty()
        || name.len() > CREDENTIAL_BYTES_MAX
        || name.starts_with(":role:")
        || name.contains([':', '/'])
        || name.chars().any(char::is_control);
    if bad { Err(Error::of(Code::UserInvalidName)) } else { Ok(()) }
}
