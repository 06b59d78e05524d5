//! Handlers of `/_api/database`, which list, create and drop databases.

use crate::error::{Code, Error, Result};
use crate::value::Value;

use super::auth::{ANY, Caller, Level, User};
use super::call::{Call, SYSTEM};
use super::cluster;
use super::limits::USERS_MAX;
use super::reply::{Reply, object};

/// `GET /_api/database`
pub(super) fn all(call: &Call<'_>) -> Result<Reply> {
    call.need_system()?;
    call.need_admin()?;
    Ok(names(call, |_| true))
}

/// `GET /_api/database/user`
pub(super) fn accessible(call: &Call<'_>) -> Result<Reply> {
    Ok(names(call, |name| call.caller.database(name) > Level::None))
}

fn names(call: &Call<'_>, wanted: impl Fn(&str) -> bool) -> Reply {
    let databases = call.engine().databases();
    let names = databases.iter().map(|d| d.name.as_str()).filter(|name| wanted(name));
    Reply::result(200, names.map(Value::from).collect::<Vec<_>>().into())
}

/// `GET /_api/database/current`. `path` is an empty text, because drivers expect a text.
pub(super) fn current(call: &Call<'_>) -> Reply {
    let mut body = object! {
        "id" => call.database.id.to_string(),
        "name" => call.db(),
        "isSystem" => call.db() == SYSTEM,
        "path" => "",
    };
    if cluster::is_coordinator(call) {
        body = super::admin::joined(&body, &cluster::database_properties(&call.database));
    }
    Reply::result(200, body)
}

/// `POST /_api/database`
pub(super) fn create(call: &Call<'_>) -> Result<Reply> {
    call.need_system()?;
    call.need_admin()?;
    let body = Value::object(call.request.object()?);
    let name = body.text_of("name").ok_or_else(|| Error::of(Code::DatabaseNameInvalid))?;
    let options = body.attribute("options");
    if !options.is_null() && options.as_object().is_none() {
        return Err(Error::new(Code::BadParameter, "'options' must be an object"));
    }
    cluster::check_database_options(call, &options)?;
    let users = users_of(&body)?;
    call.engine().create_database(name, options)?;
    let table = call.front.auth.users();
    for (user, made) in users {
        match table.create(&user, made) {
            Err(error) if error.code == Code::UserDuplicate => {}
            done => done?,
        }
        give(call, &user, name)?;
    }
    if let Caller::User(creator, _) = &call.caller {
        give(call, creator, name)?;
    }
    Ok(Reply::result(201, true.into()))
}

/// Grants a user all rights in a new database.
fn give(call: &Call<'_>, user: &str, database: &str) -> Result<()> {
    let users = call.front.auth.users();
    users.grant(user, database, None, Some(Level::Write))?;
    users.grant(user, database, Some(ANY), Some(Level::Write))
}

/// Reads and checks `users` of the body, before the database is created.
fn users_of(body: &Value) -> Result<Vec<(String, User)>> {
    let given = body.attribute("users");
    let bad = || Error::new(Code::BadParameter, "'users' must be a list of users");
    let list = match &given {
        Value::Null => return Ok(Vec::new()),
        Value::Array(list) if list.len() <= USERS_MAX => list,
        _ => return Err(bad()),
    };
    list.iter()
        .map(|user| {
            let name = user.text_of("username").or_else(|| user.text_of("user")).ok_or_else(bad)?;
            let password = user.text_of("passwd").or_else(|| user.text_of("password"));
            let active = !matches!(user.attribute("active"), Value::Bool(false));
            let extra = match user.attribute("extra") {
                Value::Null => object! {},
                extra => extra,
            };
            Ok((name.to_owned(), User::new(password.unwrap_or_default(), active, extra)?))
        })
        .collect()
}

/// `DELETE /_api/database/NAME`
pub(super) fn remove(call: &Call<'_>, name: &str) -> Result<Reply> {
    call.need_system()?;
    call.need_admin()?;
    if name == SYSTEM {
        return Err(Error::of(Code::Forbidden));
    }
    call.engine().drop_database(name)?;
    call.front.auth.users().forget_database(name)?;
    Ok(Reply::result(200, true.into()))
}
