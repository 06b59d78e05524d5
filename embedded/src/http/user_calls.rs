//! Handlers of `/_api/user`, which manage users and their grants.

use crate::error::{Code, Error, Result};
use crate::value::{Object, Value};

use super::auth::{ANY, Level, User};
use super::call::{Call, SYSTEM};
use super::reply::{Reply, object};

/// Returns the JSON form of a user.
fn user_value(name: &str, user: &User) -> Value {
    object! { "user" => name, "active" => user.active, "extra" => user.extra.clone() }
}

/// Checks the caller: users may access their own data, administrators the data of all users.
fn need_admin_or(call: &Call<'_>, name: &str) -> Result<()> {
    if call.caller.name() == name { Ok(()) } else { call.need_admin() }
}

fn find(call: &Call<'_>, name: &str) -> Result<std::sync::Arc<User>> {
    call.front.auth.users().get(name).ok_or_else(|| Error::of(Code::UserNotFound))
}

/// `GET /_api/user`
pub(super) fn all(call: &Call<'_>) -> Result<Reply> {
    call.need_admin()?;
    let users = call.front.auth.users().all();
    let users: Vec<Value> = users.iter().map(|(name, user)| user_value(name, user)).collect();
    Ok(Reply::result(200, users.into()))
}

/// `GET /_api/user/U`
pub(super) fn one(call: &Call<'_>, name: &str) -> Result<Reply> {
    need_admin_or(call, name)?;
    Ok(Reply::ok_merged(200, &user_value(name, &*find(call, name)?)))
}

/// The attributes of a user in a request body; a missing attribute is `None`.
struct UserBody {
    password: Option<String>,
    active: Option<bool>,
    extra: Option<Value>,
}

fn parse_user(body: &Value) -> Result<UserBody> {
    let bad = |what: &str| Error::new(Code::BadParameter, format!("'{what}' has the wrong type"));
    let password = match body.attribute("passwd") {
        Value::Null => None,
        Value::String(text) => Some(text.to_string()),
        _ => return Err(bad("passwd")),
    };
    let active = match body.attribute("active") {
        Value::Null => None,
        Value::Bool(active) => Some(active),
        _ => return Err(bad("active")),
    };
    let extra = match body.attribute("extra") {
        Value::Null => None,
        extra @ Value::Object(_) => Some(extra),
        _ => return Err(bad("extra")),
    };
    Ok(UserBody { password, active, extra })
}

impl UserBody {
    fn user(self) -> Result<User> {
        let extra = self.extra.unwrap_or_else(|| object! {});
        User::new(&self.password.unwrap_or_default(), self.active.unwrap_or(true), extra)
    }
}

/// `POST /_api/user`
pub(super) fn create(call: &Call<'_>) -> Result<Reply> {
    call.need_admin()?;
    let body = Value::object(call.request.object()?);
    let name = body
        .text_of("user")
        .or_else(|| body.text_of("username"))
        .ok_or_else(|| Error::of(Code::UserInvalidName))?;
    let given = parse_user(&body)?;
    // To hash a password takes more time than everything else.
    if call.front.auth.users().get(name).is_some() {
        return Err(Error::of(Code::UserDuplicate));
    }
    let user = given.user()?;
    call.front.auth.users().create(name, user.clone())?;
    Ok(Reply::ok_merged(201, &user_value(name, &user)))
}

/// `POST /_api/user/U`: checks the password in the body; 401 for a wrong password.
pub(super) fn validate(call: &Call<'_>, name: &str) -> Result<Reply> {
    need_admin_or(call, name)?;
    find(call, name)?;
    let password = parse_user(&Value::object(call.request.object()?))?.password.unwrap_or_default();
    call.front.auth.token(name, &password)?;
    Ok(Reply::result(200, true.into()))
}

/// `PUT /_api/user/U`: replaces all attributes and removes the grants.
pub(super) fn replace(call: &Call<'_>, name: &str) -> Result<Reply> {
    call.need_admin()?;
    let new = parse_user(&Value::object(call.request.object()?))?.user()?;
    let user = call.front.auth.users().edit(name, |user| {
        *user = new.clone();
        Ok(())
    })?;
    Ok(Reply::ok_merged(200, &user_value(name, &user)))
}

/// `PATCH /_api/user/U`: changes a user. Users may change their own password and `extra`.
pub(super) fn update(call: &Call<'_>, name: &str) -> Result<Reply> {
    let change = parse_user(&Value::object(call.request.object()?))?;
    if change.active.is_some() {
        call.need_admin()?;
    }
    need_admin_or(call, name)?;
    let user = call.front.auth.users().edit(name, |user| {
        if let Some(password) = &change.password {
            user.set_password(password)?;
        }
        user.active = change.active.unwrap_or(user.active);
        if let Some(extra) = &change.extra {
            user.extra = merged(&user.extra, extra);
        }
        Ok(())
    })?;
    Ok(Reply::ok_merged(200, &user_value(name, &user)))
}

/// Merges two objects at any depth; attributes of `new` take precedence.
fn merged(old: &Value, new: &Value) -> Value {
    let (Some(before), Some(after)) = (old.as_object(), new.as_object()) else {
        return new.clone();
    };
    let mut all = before.clone();
    for (name, value) in after.iter() {
        let value = before.get(name).map_or_else(|| value.clone(), |old| merged(old, value));
        all.insert(name.clone(), value);
    }
    Value::object(all)
}

/// `DELETE /_api/user/U`
pub(super) fn remove(call: &Call<'_>, name: &str) -> Result<Reply> {
    call.need_admin()?;
    call.front.auth.users().remove(name)?;
    Ok(Reply::ok(202, object! {}))
}

/// `GET /_api/user/U/database[?full=true]`
pub(super) fn levels(call: &Call<'_>, name: &str) -> Result<Reply> {
    need_admin_or(call, name)?;
    let user = find(call, name)?;
    let full = call.request.flag("full") == Some(true);
    let mut result = Object::new();
    for database in call.engine().databases() {
        if full {
            let configured = |collection: Option<&str>| {
                let level = user.grants.configured(&database.name, collection);
                Value::from(level.map_or("undefined", Level::name))
            };
            let names = database.collections.keys().map(String::as_str).chain([ANY]);
            let collections: Object =
                names.map(|name| (name.into(), configured(Some(name)))).collect();
            let one = object! {
                "permission" => configured(None),
                "collections" => Value::object(collections),
            };
            result.push_new(database.name.as_str(), one);
        } else {
            let level = user.grants.database(&database.name);
            if level > Level::None {
                result.push_new(database.name.as_str(), level.name().into());
            }
        }
    }
    if full {
        let level = user.grants.configured(ANY, None).unwrap_or(Level::None);
        result.push_new(ANY, object! { "permission" => level.name() });
    }
    Ok(Reply::result(200, Value::object(result)))
}

/// `GET /_api/user/U/database/DB[/COLL]`: returns the access level that results from all grants of
/// the user.
pub(super) fn level(
    call: &Call<'_>,
    name: &str,
    database: &str,
    collection: Option<&str>,
) -> Result<Reply> {
    need_admin_or(call, name)?;
    let user = find(call, name)?;
    let level = match collection {
        None => user.grants.database(database),
        Some(collection) => user.grants.collection(database, collection),
    };
    Ok(Reply::result(200, level.name().into()))
}

/// Refuses (403/11) to lower the level of `root` on `_system`, because `root` must remain
/// administrator.
fn keep_root(name: &str, database: &str, collection: Option<&str>) -> Result<()> {
    if name == "root" && database == SYSTEM && collection.is_none_or(|name| name == ANY) {
        let message = "Cannot lower access level of 'root' to _system";
        return Err(Error::new(Code::Forbidden, message));
    }
    Ok(())
}

/// `PUT /_api/user/U/database/DB[/COLL]`
pub(super) fn grant(
    call: &Call<'_>,
    name: &str,
    database: &str,
    collection: Option<&str>,
) -> Result<Reply> {
    call.need_admin()?;
    let body = Value::object(call.request.object()?);
    let level = body.text_of("grant").and_then(Level::of).ok_or_else(|| {
        Error::new(Code::HttpBadParameter, "'grant' must be \"rw\", \"ro\" or \"none\"")
    })?;
    // As recorded from ArangoDB, a grant may name a database that does not exist yet, but a
    // collection must exist.
    if let Some(collection) = collection.filter(|name| *name != ANY && database != ANY) {
        let known = call.engine().database(database)?;
        if !known.collections.contains_key(collection) {
            return Err(super::call::not_found(collection));
        }
    }
    if collection.is_some_and(|name| name.starts_with('_')) {
        let message = "Cannot set rights for system collections";
        return Err(Error::new(Code::BadParameter, message));
    }
    if level != Level::Write {
        keep_root(name, database, collection)?;
    }
    call.front.auth.users().grant(name, database, collection, Some(level))?;
    let place = match collection {
        None => database.to_owned(),
        Some(collection) => format!("{database}/{collection}"),
    };
    Ok(Reply::ok_merged(200, &object! { place => level.name() }))
}

/// `DELETE /_api/user/U/database/DB[/COLL]`
pub(super) fn revoke(
    call: &Call<'_>,
    name: &str,
    database: &str,
    collection: Option<&str>,
) -> Result<Reply> {
    call.need_admin()?;
    keep_root(name, database, collection)?;
    call.front.auth.users().grant(name, database, collection, None)?;
    Ok(Reply::ok(202, object! {}))
}
