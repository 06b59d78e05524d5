//! A falsifying proxy, which changes the engine's answers, or answers without asking the engine.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;

use crate::proxy::{Exchange, exchange_of, message, reply_of};

/// A falsified answer.
pub(crate) struct Told {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Value,
}

impl Told {
    pub(crate) fn new(status: u16, body: Value) -> Told {
        Told { status, headers: Vec::new(), body }
    }
}

/// A function that falsifies the engine's answer to a request.
type Lie = dyn Fn(&Exchange, &mut Told) + Send + Sync;
/// A function that answers a request without the engine; with `None` the engine answers.
type Instead = dyn Fn(&Exchange) -> Option<Told> + Send + Sync;

/// A falsifying proxy, which ends when this value is dropped.
pub(crate) struct Liar {
    task: JoinHandle<()>,
}

impl Drop for Liar {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Liar {
    /// Starts a proxy that changes the engine's answers.
    pub(crate) fn changing(
        socket: &Path,
        upstream: &Path,
        lie: impl Fn(&Exchange, &mut Told) + Send + Sync + 'static,
    ) -> Liar {
        Self::start(socket, upstream, Arc::new(|_| None), Arc::new(lie))
    }

    /// Starts a proxy that answers some requests itself.
    pub(crate) fn instead(
        socket: &Path,
        upstream: &Path,
        instead: impl Fn(&Exchange) -> Option<Told> + Send + Sync + 'static,
    ) -> Liar {
        Self::start(socket, upstream, Arc::new(instead), Arc::new(|_, _| {}))
    }

    fn start(socket: &Path, upstream: &Path, instead: Arc<Instead>, lie: Arc<Lie>) -> Liar {
        // Removes the socket file of an earlier proxy.
        drop(std::fs::remove_file(socket));
        let listener = UnixListener::bind(socket).expect("the liar listens");
        let upstream = upstream.to_owned();
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let (upstream, instead, lie) =
                    (upstream.clone(), Arc::clone(&instead), Arc::clone(&lie));
                connections.spawn(async move { talk(client, &upstream, &*instead, &*lie).await });
            }
        });
        Liar { task }
    }
}

async fn talk(mut client: UnixStream, upstream: &Path, instead: &Instead, lie: &Lie) {
    let Ok(mut engine) = UnixStream::connect(upstream).await else { return };
    let (mut from_client, mut from_engine) = (Vec::new(), Vec::new());
    while let Ok(Some(request)) = message(&mut client, &mut from_client).await {
        let exchange = exchange_of(&request);
        let told = match instead(&exchange) {
            Some(told) => told,
            None => {
                if engine.write_all(&request).await.is_err() {
                    return;
                }
                let Ok(Some(reply)) = message(&mut engine, &mut from_engine).await else { return };
                let (status, body) = reply_of(&reply);
                let mut told = Told::new(status.unwrap_or(0), body.clone());
                lie(&exchange, &mut told);
                if told.headers.is_empty() && Some(told.status) == status && told.body == body {
                    if client.write_all(&reply).await.is_err() {
                        return;
                    }
                    continue;
                }
                told
            }
        };
        let text = match &told.body {
            Value::String(text) => text.clone(),
            body => body.to_string(),
        };
        let named = told.headers.iter().any(|(name, _)| *name == "server");
        let mut head =
            format!("HTTP/1.1 {} told\r\ncontent-length: {}\r\n", told.status, text.len());
        if !named {
            head.push_str("server: ArangoDB\r\n");
        }
        for (name, value) in &told.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if client.write_all(format!("{head}\r\n{text}").as_bytes()).await.is_err() {
            return;
        }
    }
}
