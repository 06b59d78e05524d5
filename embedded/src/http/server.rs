//! The accept loop, which serves HTTP/1.1 with keep-alive on one Unix socket. The loop limits the
//! number of connections, and the time that open requests have to finish when the server stops.

use std::future::Future;
use std::io;
use std::os::unix::net::UnixListener as StdUnixListener;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio_io_timeout::TimeoutWriter;

use crate::Engine;

use super::auth::Auth;
use super::front::Front;
use super::limits::{
    ACCEPT_PAUSE_MAX, ACCEPT_PAUSE_MIN, CONNECTIONS_MAX, DRAIN_WAIT, HEAD_BYTES_MAX, HEAD_WAIT,
    SWEEP_EVERY,
};
use super::service;

/// Which requests a listener allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// All requests that the caller's grants allow.
    ReadWrite,
    /// Only reads; a write is answered 403/1004.
    ReadOnly,
}

/// Serves `engine` on `listener` until `shutdown` completes; then open requests have `DRAIN_WAIT`
/// to finish. A current-thread runtime of `tokio` suffices, because engine work runs on other
/// threads.
pub async fn serve(
    engine: Arc<Engine>,
    listener: StdUnixListener,
    mode: Mode,
    auth: Auth,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = UnixListener::from_std(listener)?;
    let front = Arc::new(Front::new(engine, auth, mode));
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let (stop, stopping) = watch::channel(Phase::Serving);
    let mut connections = JoinSet::new();
    let mut sweep = tokio::time::interval(SWEEP_EVERY);
    let mut shutdown = pin!(shutdown);
    let mut pause = ACCEPT_PAUSE_MIN;
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            _ = sweep.tick() => front.cursors.sweep(),
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            accepted = accept(&listener, &places) => match accepted {
                Ok((stream, place)) => {
                    pause = ACCEPT_PAUSE_MIN;
                    connections.spawn(served(stream, place, Arc::clone(&front), stopping.clone()));
                }
                Err(error) => {
                    tracing::warn!(%error, "accept failed");
                    tokio::time::sleep(pause).await;
                    pause = next_pause(pause);
                }
            },
        }
    }
    drop(listener);
    // Sending cannot fail, because a receiver exists in this function.
    let _ = stop.send(Phase::Draining);
    let drained = tokio::time::timeout(DRAIN_WAIT, async {
        while connections.join_next().await.is_some() {}
    });
    if drained.await.is_err() {
        tracing::warn!(
            open = connections.len(),
            "closed connections whose requests did not finish in time"
        );
        let _ = stop.send(Phase::Cut);
        connections.abort_all();
    }
    Ok(())
}

/// Accepts the next connection as soon as a permit is free.
async fn accept(
    listener: &UnixListener,
    places: &Arc<Semaphore>,
) -> io::Result<(UnixStream, OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    Ok((stream, place))
}

fn next_pause(pause: Duration) -> Duration {
    (pause * 2).min(ACCEPT_PAUSE_MAX)
}

/// The phases of the server's stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Serving,
    Draining,
    Cut,
}

/// Waits until the server has reached a phase, or until the sender of phases is dropped.
async fn reached(phase: Phase, stopping: &mut watch::Receiver<Phase>) {
    while *stopping.borrow_and_update() < phase {
        if stopping.changed().await.is_err() {
            return;
        }
    }
}

/// Serves one connection until it ends, on its own thread if the maximum number of such threads is
/// not reached.
async fn served(
    stream: UnixStream,
    place: OwnedSemaphorePermit,
    front: Arc<Front>,
    stopping: watch::Receiver<Phase>,
) {
    let mut stream = stream;
    if let Some(own_place) = front.own_threads.permit() {
        let (shared, stops) = (Arc::clone(&front), stopping.clone());
        let serve = move |stream| connection(stream, shared, stops);
        match front.own_threads.run(own_place, stream, serve).await {
            Ok(None) => return,
            Ok(Some(back)) => stream = back,
            Err(error) => {
                tracing::warn!(%error, "a connection was lost");
                return;
            }
        }
    }
    connection(stream, front, stopping).await;
    drop(place);
}

async fn connection(stream: UnixStream, front: Arc<Front>, mut stopping: watch::Receiver<Phase>) {
    let mut stream = TimeoutWriter::new(stream);
    stream.set_timeout(Some(front.answer_stall));
    let service = service_fn(move |request| service::answer(Arc::clone(&front), request));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WAIT)
        // The maximum number of headers stays 100, the default of `hyper`, so that headers are
        // parsed without an allocation. A request with more headers is answered 431.
        .max_buf_size(HEAD_BYTES_MAX)
        .keep_alive(true)
        .serve_connection(TokioIo::new(Box::pin(stream)), service);
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = reached(Phase::Draining, &mut stopping) => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                ended = connection.as_mut() => ended,
                () = reached(Phase::Cut, &mut stopping) => return,
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended early");
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::Options;
    use crate::http::AuthSettings;

    /// Size in bytes of an answer that is larger than any socket's buffer.
    const LARGE: usize = 8 * 1024 * 1024;

    /// Opens a connection to a server with a short `answer_stall`, and requests a large answer.
    async fn asked(front: &Arc<Front>) -> (UnixStream, tokio::task::JoinHandle<()>) {
        let (mut client, server) = UnixStream::pair().unwrap();
        let (stop, stopping) = watch::channel(Phase::Serving);
        let front = Arc::clone(front);
        let served = tokio::spawn(async move {
            connection(server, front, stopping).await;
            drop(stop);
        });
        let body = format!(r#"{{"query": "RETURN REPEAT('a', {LARGE})"}}"#);
        let head = format!(
            "POST /_api/cursor HTTP/1.1\r\nhost: x\r\nauthorization: Basic cm9vdDpwdw==\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        client.write_all(head.as_bytes()).await.unwrap();
        client.write_all(body.as_bytes()).await.unwrap();
        (client, served)
    }

    #[tokio::test]
    async fn a_client_that_reads_nothing_of_its_answer_is_left_and_one_that_reads_slowly_is_not() {
        let home = tempfile::tempdir().unwrap();
        let engine = Engine::open(home.path(), Options::default()).unwrap();
        let settings = AuthSettings { root_password: "pw".into(), jwt_secret: None };
        let auth = Auth::open(&engine, settings).unwrap();
        let mut front = Front::new(engine, auth, Mode::ReadWrite);
        front.answer_stall = Duration::from_secs(2);
        let front = Arc::new(front);

        let (mut slow, served) = asked(&front).await;
        let (mut read, mut piece, mut pauses) = (0, vec![0; 64 * 1024], 0);
        loop {
            let bytes = slow.read(&mut piece).await.unwrap();
            if bytes == 0 {
                break;
            }
            read += bytes;
            // All pauses together are longer than `answer_stall`, but each pause is much shorter.
            if pauses < 100 {
                tokio::time::sleep(Duration::from_millis(25)).await;
                pauses += 1;
            }
        }
        assert!(read > LARGE, "{read} bytes came");
        served.await.unwrap();

        let (mut silent, served) = asked(&front).await;
        // The timeout only ends a test that hangs.
        tokio::time::timeout(Duration::from_secs(30), served).await.expect("in time").unwrap();
        let mut rest = Vec::new();
        let left = silent.read_to_end(&mut rest).await;
        assert!(rest.len() < LARGE, "{left:?}: {} bytes came", rest.len());
    }
}
