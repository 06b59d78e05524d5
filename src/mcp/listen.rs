//! The protocol on a Unix socket: many clients, each with a conversation of its own; never a network.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, watch};

use super::bridge::{Bridge, Settings};
use super::serve::over;
use vctx_base::socket::Listening;
use vctx_core::limits::{ACCEPT_PAUSE_MS, DRAIN_MS_MAX, MCP_CLIENTS_MAX};

/// Code of the error by which a client is turned away (JSON-RPC 2.0 §5.1: implementation-defined server errors).
const CROWDED: i64 = -32_000;

/// Serves clients until `stop` turns true; calls that run then have a while to end. Errors: why nobody can be served, in a sentence.
pub async fn listen(
    listening: Listening,
    settings: Settings,
    mut stop: watch::Receiver<bool>,
) -> Result<(), String> {
    let cannot = |error: std::io::Error| format!("cannot listen: {error}");
    let listener = listening.handle().map_err(cannot)?;
    listener.set_nonblocking(true).map_err(cannot)?;
    let listener = UnixListener::from_std(listener).map_err(cannot)?;
    let places = Arc::new(Semaphore::new(MCP_CLIENTS_MAX));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stopped(&mut stop) => break,
        };
        match accepted {
            Ok((stream, _)) => match Arc::clone(&places).try_acquire_owned() {
                Ok(place) => {
                    let (settings, stop) = (settings.clone(), stop.clone());
                    tokio::spawn(async move {
                        let _place = place;
                        client(stream, settings, stop).await;
                    });
                }
                Err(_) => turn_away(stream),
            },
            Err(error) => {
                tracing::warn!(%error, "accept failed");
                tokio::time::sleep(Duration::from_millis(ACCEPT_PAUSE_MS)).await;
            }
        }
    }
    drop(listener);
    drop(listening);
    let all = u32::try_from(MCP_CLIENTS_MAX).unwrap_or(u32::MAX);
    let drain = Duration::from_millis(DRAIN_MS_MAX);
    if tokio::time::timeout(drain, places.acquire_many(all)).await.is_err() {
        tracing::warn!(
            drain_ms = DRAIN_MS_MAX,
            "clients were still there when the drain limit was reached"
        );
    }
    Ok(())
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    // A dropped sender means that the program ends.
    let _ = stop.wait_for(|stop| *stop).await;
}

/// One client. A call that is cut off by the end of this program happens whole or not at all: it runs in the server.
async fn client(stream: UnixStream, settings: Settings, mut stop: watch::Receiver<bool>) {
    let served = tokio::select! {
        served = over(Bridge::new(settings), stream.into_split()) => served,
        () = stopped(&mut stop) => Ok(()),
    };
    if let Err(error) = served {
        tracing::info!(error, "a client broke off");
    }
}

/// Tells a client that there is no place, and closes. A client that does not read it learns by the end of the connection.
fn turn_away(stream: UnixStream) {
    tracing::warn!(clients = MCP_CLIENTS_MAX, "a client was turned away");
    let text = format!("more than {MCP_CLIENTS_MAX} clients: come again later");
    let told = json!({"jsonrpc": "2.0", "id": null, "error": {"code": CROWDED, "message": text}});
    let line = format!("{told}\n");
    // What fits into the socket's buffer is written at once.
    let _ = stream.try_write(line.as_bytes());
}
