//! Writes the request to a model in the form of the model server's API.
//!
//! A prompt is rendered and stored in the form of chat completions: messages, tools and options.
//! The other forms are computed from this one, so the stored rows determine the sent bytes of any
//! form.

mod messages;
mod responses;

use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::memory::model_api::ModelApi;
use crate::memory::receipt::canonical_json;

/// A request to a model, in the form of chat completions.
#[derive(Clone, Copy, Debug)]
pub struct ModelRequest<'a> {
    /// Name of the model.
    pub model: &'a str,
    /// Messages of the window.
    pub messages: &'a [Value],
    /// Schemas of the offered tools; `None` if there are none.
    pub tools: Option<&'a [Value]>,
    /// Fields of the request other than `model`, `messages` and `tools`.
    pub options: &'a Map<String, Value>,
}

impl ModelRequest<'_> {
    /// Returns the bytes of the request, as canonical JSON. The sender of a prompt sends exactly
    /// these bytes, so that stored rows suffice to rebuild the request. Options that the API does
    /// not have are left out; [`check_options`] refuses them before.
    pub fn text(&self, api: ModelApi) -> String {
        let body = match api {
            ModelApi::Chat => self.chat(),
            ModelApi::Responses => responses::body(self),
            ModelApi::Messages => messages::body(self),
        };
        canonical_json(&Value::Object(body))
    }

    fn chat(&self) -> Map<String, Value> {
        let mut body = self.options.clone();
        body.insert("model".into(), self.model.into());
        body.insert("messages".into(), Value::Array(self.messages.to_vec()));
        if let Some(tools) = self.tools {
            body.insert("tools".into(), Value::Array(tools.to_vec()));
        }
        body
    }
}

/// Refuses options of chat completions that would change the answer but that the API does not have,
/// and the absence of an option that the API needs.
pub fn check_options(api: ModelApi, options: &Map<String, Value>) -> Result<()> {
    let known: &[&str] = match api {
        ModelApi::Chat => return Ok(()),
        ModelApi::Responses => responses::OPTIONS,
        ModelApi::Messages => messages::OPTIONS,
    };
    if api == ModelApi::Messages && tokens_max(options).is_none() {
        let text = "the messages API of the model needs it: name the most tokens of an answer";
        return Err(Error::argument("options.max_tokens", text));
    }
    let asks = |value: &Value| !value.is_null();
    match options.iter().find(|(name, value)| !known.contains(&name.as_str()) && asks(value)) {
        None => Ok(()),
        Some((name, _)) => {
            let text =
                format!("the {} API of the model has no such option: leave it out", api.text());
            Err(Error::argument(&format!("options.{name}"), text))
        }
    }
}

/// Returns the highest number of tokens for an answer that the options name.
fn tokens_max(options: &Map<String, Value>) -> Option<&Value> {
    options.get("max_tokens").or_else(|| options.get("max_completion_tokens"))
}

/// Copies options that have the same name in both APIs.
fn copied(options: &Map<String, Value>, names: &[&str], body: &mut Map<String, Value>) {
    for name in names {
        if let Some(value) = options.get(*name) {
            body.insert((*name).to_owned(), value.clone());
        }
    }
}

/// Returns the text of a message; an absent content is an empty text.
fn content_of(message: &Value) -> &str {
    message["content"].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn options_that_an_api_lacks_are_refused_by_name() {
        let options = |name: &str| {
            Map::from_iter([("max_tokens".to_owned(), json!(9)), (name.to_owned(), json!(1))])
        };
        for (api, name, is_known) in [
            (ModelApi::Chat, "seed", true),
            (ModelApi::Responses, "temperature", true),
            (ModelApi::Responses, "seed", false),
            (ModelApi::Responses, "stop", false),
            (ModelApi::Messages, "stop", true),
            (ModelApi::Messages, "logit_bias", false),
        ] {
            let checked = check_options(api, &options(name));
            assert_eq!(checked.is_ok(), is_known, "{api:?} {name}");
        }
        let absent = Map::from_iter([("seed".to_owned(), Value::Null)]);
        assert!(check_options(ModelApi::Responses, &absent).is_ok());
        assert!(check_options(ModelApi::Messages, &Map::new()).is_err(), "without max_tokens");
    }
}
