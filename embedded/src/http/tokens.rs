//! Handlers of `/_api/token/U`, which manage a user's access tokens (a token can replace the
//! password).

use crate::error::{Code, Error, Result};
use crate::value::Value;

use super::auth::AccessToken;
use super::call::Call;
use super::reply::{Reply, object};

/// Checks the caller: users may manage their own tokens, administrators the tokens of all users.
fn need(call: &Call<'_>, name: &str) -> Result<()> {
    if call.caller.name() == name { Ok(()) } else { call.need_admin() }
}

fn token_value(token: &AccessToken) -> Value {
    object! {
        "id" => token.id,
        "name" => token.name.as_str(),
        "valid_until" => token.valid_until,
        "created_at" => token.created_at,
        "fingerprint" => token.fingerprint.as_str(),
        "active" => token.is_active(),
    }
}

/// `GET /_api/token/U`
pub(super) fn all(call: &Call<'_>, name: &str) -> Result<Reply> {
    need(call, name)?;
    let user = call.front.auth.users().get(name).ok_or_else(|| Error::of(Code::UserNotFound))?;
    let tokens: Vec<Value> = user.tokens.iter().map(token_value).collect();
    Ok(Reply::json(200, &object! { "tokens" => tokens }))
}

/// `POST /_api/token/U`: creates a token. Only this answer contains the token's text.
pub(super) fn create(call: &Call<'_>, name: &str) -> Result<Reply> {
    need(call, name)?;
    let body = Value::object(call.request.object()?);
    let title = body.text_of("name").unwrap_or_default();
    let until = body.attribute("valid_until").as_f64().filter(|until| *until > 0.0);
    let (token, text) = call.front.auth.users().add_token(name, title, until.map(|u| u as u64))?;
    let mut answer = token_value(&token).as_object().cloned().unwrap_or_default();
    answer.push_new("token", text.into());
    Ok(Reply::json(200, &Value::object(answer)))
}

/// `DELETE /_api/token/U/ID`
pub(super) fn remove(call: &Call<'_>, name: &str, id: &str) -> Result<Reply> {
    need(call, name)?;
    let id = id.parse().map_err(|_| Error::of(Code::HttpNotFound))?;
    call.front.auth.users().remove_token(name, id)?;
    Ok(Reply::json(200, &object! {}))
}
