//! The APIs of model servers in which a prompt can be sent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An API of a model server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ModelApi {
    /// OpenAI's chat completions API, which most model servers offer.
    #[default]
    #[serde(rename = "chat")]
    Chat,
    /// OpenAI's responses API.
    #[serde(rename = "responses")]
    Responses,
    /// Anthropic's messages API.
    #[serde(rename = "messages")]
    Messages,
}

impl ModelApi {
    /// All APIs.
    pub const ALL: &'static [Self] = &[Self::Chat, Self::Responses, Self::Messages];

    /// Returns the API's name in the configuration and in stored prompts.
    pub fn text(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Responses => "responses",
            Self::Messages => "messages",
        }
    }

    /// Returns the API with the given name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|api| api.text() == name)
    }

    /// Returns the path of a request below the base address of the API.
    pub fn path(self) -> &'static str {
        match self {
            Self::Chat => "/chat/completions",
            Self::Responses => "/responses",
            Self::Messages => "/messages",
        }
    }

    /// Returns whether this is the API of prompts that do not name one.
    pub(crate) fn is_chat(&self) -> bool {
        *self == Self::Chat
    }
}
