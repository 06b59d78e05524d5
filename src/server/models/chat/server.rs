//! The settings by which a chat model's server is reached and asked.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::super::address::{Address, AddressSettings, check_model, check_path};
use super::super::wire::Way;
use super::endpoint::EndpointChat;
use super::model::ChatModel;
use vctx_core::memory::model_api::ModelApi;

/// The settings of a chat model's server, as the configuration has them.
#[derive(Clone, Copy, Debug)]
pub struct ChatServer<'a> {
    /// Name of a provider, or empty.
    pub provider: &'a str,
    /// URL of the server, or empty.
    pub url: &'a str,
    /// Unix socket of the server, or empty.
    pub socket: &'a Path,
    /// Name of the server's API, or empty.
    pub api: &'a str,
    /// HTTP path and query of requests, or empty.
    pub path: &'a str,
    /// File with further trusted certificates, or empty.
    pub ca_file: &'a Path,
    /// URL of an HTTP proxy, or empty.
    pub proxy: &'a str,
    /// Model name that requests contain.
    pub model: &'a str,
}

impl ChatServer<'_> {
    /// Returns whether a server is configured.
    pub fn is_set(&self) -> bool {
        self.place().is_set()
    }

    /// Returns one sentence for each invalid setting, beginning with the setting's name.
    pub fn faults(&self) -> Vec<String> {
        if !self.is_set() {
            return Vec::new();
        }
        let checked = [check_model(self.model), check_path(self.path), self.reach().map(drop)];
        checked.into_iter().filter_map(Result::err).collect()
    }

    /// Returns the address of the server, if one is configured.
    pub fn address(&self) -> Option<Address> {
        self.place().address().ok().filter(|_| self.is_set())
    }

    /// Returns the name of the request field that limits the answer's tokens.
    pub fn tokens_field(&self) -> &'static str {
        self.place().provider().ok().flatten().map_or("max_tokens", |one| one.tokens_field)
    }

    /// Returns whether the models of the provider accept a temperature.
    pub fn takes_temperature(&self) -> bool {
        self.place().provider().ok().flatten().is_none_or(|one| one.takes_temperature)
    }

    /// Makes a client of the model, if a server is configured. The key comes from the variable of
    /// the given name, and one answer may take at most `limit`. An error begins with the setting
    /// that is wrong.
    pub fn open(
        &self,
        key: Option<String>,
        variable: &'static str,
        limit: Duration,
        stream: bool,
    ) -> Result<Option<Arc<dyn ChatModel>>, String> {
        if !self.is_set() {
            return Ok(None);
        }
        let (way, api) = self.reach()?;
        let way = way.with_key(key, variable);
        let path = way.address.target(api.path(), self.path);
        let chat = EndpointChat::new(&way, api, path, self.model.to_owned(), limit, stream)?;
        Ok(Some(Arc::new(chat)))
    }

    fn place(&self) -> AddressSettings<'_> {
        AddressSettings { provider: self.provider, url: self.url, socket: self.socket }
    }

    fn reach(&self) -> Result<(Way, ModelApi), String> {
        let api = match self.api {
            "" => self.place().provider()?.map_or(ModelApi::Chat, |provider| provider.api),
            name => ModelApi::by_name(name).ok_or("api: use chat, responses or messages")?,
        };
        Ok((Way::of(self.place().address()?, self.ca_file, self.proxy)?, api))
    }
}
