//! The settings that follow from the name of a model's provider.

use vctx_core::memory::model_api::ModelApi;

/// A provider of models, or a program that serves them.
#[derive(Debug)]
pub struct Provider {
    /// Name in the configuration.
    pub name: &'static str,
    /// Base address of the provider's API.
    pub url: &'static str,
    /// API in whose form chat models are asked.
    pub api: ModelApi,
    /// Field of a request in the form of chat completions that limits the answer's tokens.
    pub tokens_field: &'static str,
    /// Whether all models accept a temperature; models that reason first often refuse one.
    pub takes_temperature: bool,
}

/// The providers. Their base addresses and APIs are those of their own documentation: OpenAI "API
/// reference", Anthropic "Messages", OpenRouter "Quickstart", Ollama "OpenAI compatibility",
/// llama.cpp "HTTP server", vLLM "OpenAI-compatible server".
pub const PROVIDERS: [Provider; 7] = [
    Provider {
        name: "openai",
        url: "https://api.openai.com/v1",
        api: ModelApi::Chat,
        tokens_field: "max_completion_tokens",
        takes_temperature: false,
    },
    Provider {
        name: "openai-responses",
        url: "https://api.openai.com/v1",
        api: ModelApi::Responses,
        tokens_field: "max_completion_tokens",
        takes_temperature: false,
    },
    Provider {
        name: "anthropic",
        url: "https://api.anthropic.com/v1",
        api: ModelApi::Messages,
        tokens_field: "max_tokens",
        takes_temperature: false,
    },
    Provider {
        name: "openrouter",
        url: "https://openrouter.ai/api/v1",
        api: ModelApi::Chat,
        tokens_field: "max_tokens",
        takes_temperature: false,
    },
    Provider {
        name: "ollama",
        url: "http://localhost:11434/v1",
        api: ModelApi::Chat,
        tokens_field: "max_tokens",
        takes_temperature: true,
    },
    Provider {
        name: "llama.cpp",
        url: "http://localhost:8080/v1",
        api: ModelApi::Chat,
        tokens_field: "max_tokens",
        takes_temperature: true,
    },
    Provider {
        name: "vllm",
        url: "http://localhost:8000/v1",
        api: ModelApi::Chat,
        tokens_field: "max_tokens",
        takes_temperature: true,
    },
];

impl Provider {
    /// Returns the provider of that name. An error begins with `provider:`.
    pub fn by_name(name: &str) -> Result<&'static Self, String> {
        PROVIDERS.iter().find(|provider| provider.name == name).ok_or_else(|| {
            let names: Vec<&str> = PROVIDERS.iter().map(|provider| provider.name).collect();
            format!("provider: use one of {}, or set url", names.join(", "))
        })
    }
}
