//! Serves MCP on a Unix socket, never on a network, to many clients, each with its own state.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, watch};
use tokio_io_timeout::TimeoutStream;

use super::bridge::{Bridge, Settings};
use super::serve::over;
use vctx_base::socket::Listening;
use vctx_core::limits::{
    ACCEPT_PAUSE_MS, ANSWER_STALL_MS, DRAIN_MS_MAX, MCP_CLIENTS_MAX, MCP_FIRST_MS_MAX,
    MCP_IDLE_MS_MAX,
};

/// Error code for a client that is rejected because too many clients are connected. It is one of
/// the implementation-defined server errors of JSON-RPC 2.0 §5.1.
pub(super) const CROWDED: i32 = -32_000;

/// Serves MCP clients until `stop` turns true; then gives running calls time to end. An error says
/// in one sentence why no client can be served.
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
                        Box::pin(client(stream, settings, stop)).await;
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
            "clients were still connected when the drain limit was reached"
        );
    }
    Ok(())
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    // If the sender of the stop signal is dropped, the program is ending.
    let _ = stop.wait_for(|stop| *stop).await;
}

/// Serves one client until the client disconnects, until it sends or reads nothing for too long, or
/// until this program stops. If the stop interrupts a call, the server executes the call completely
/// or not at all.
async fn client(stream: UnixStream, settings: Settings, mut stop: watch::Receiver<bool>) {
    let mut stream = TimeoutStream::new(stream);
    stream.set_read_timeout(Some(Duration::from_millis(MCP_IDLE_MS_MAX)));
    stream.set_write_timeout(Some(Duration::from_millis(ANSWER_STALL_MS)));
    let halves = tokio::io::split(Box::pin(stream));
    let first = Duration::from_millis(MCP_FIRST_MS_MAX);
    let served = tokio::select! {
        served = over(Bridge::new(settings), halves, Some(first)) => served,
        () = stopped(&mut stop) => Ok(()),
    };
    if let Err(error) = served {
        tracing::info!(error, "a client broke off");
    }
}

/// Tells a client that there are too many clients, and closes the connection. A client that does
/// not read this message still notices that the connection was closed.
fn turn_away(stream: UnixStream) {
    tracing::warn!(clients = MCP_CLIENTS_MAX, "a client was refused");
    let text = format!("more than {MCP_CLIENTS_MAX} clients: connect again later");
    let told = json!({"jsonrpc": "2.0", "id": null, "error": {"code": CROWDED, "message": text}});
    let line = format!("{told}\n");
    // The error message fits into the socket's buffer, so the write returns immediately.
    let _ = stream.try_write(line.as_bytes());
}
