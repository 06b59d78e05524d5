//! Listening sockets, bound or handed over: modes, stale files, peer credentials, connection cap, waits for heads and for readers, drain.

use std::fs;
use std::io;
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _,
};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware::from_fn;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use socket2::{Domain, SockAddr, Socket, Type};
use tokio::net::UnixStream;
use tokio::sync::{Semaphore, watch};
use tokio_io_timeout::TimeoutWriter;

use super::unread::read_on;
use crate::metric;
use vctx_core::limits::{
    ACCEPT_PAUSE_MS, ANSWER_STALL_MS, CONNECTIONS_MAX, DRAIN_MS_MAX, HEAD_MS_MAX,
    SOCKET_PATH_BYTES_MAX,
};

/// Mode of the directory that a socket lies in: its owner alone may reach it.
const DIRECTORY_MODE: u32 = 0o700;
/// Mode of a socket.
const SOCKET_MODE: u32 = 0o660;
/// Connections that may wait to be accepted.
const BACKLOG: i32 = 1024;

/// A bound socket; its file goes with it, unless the service manager made it.
pub struct Listening {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode of the file that this process made; none: the service manager made it.
    own: Option<(u64, u64)>,
    /// How many connections are open.
    open: watch::Sender<usize>,
}

/// One open connection, counted as long as it lives.
struct Counted(watch::Sender<usize>);

impl Counted {
    fn new(open: &watch::Sender<usize>) -> Self {
        open.send_modify(|count| *count += 1);
        Self(open.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

/// Who is at the other end of a connection, by the kernel's word at its connect.
#[derive(Clone, Copy, Debug)]
pub struct PeerActor {
    /// User id.
    pub uid: u32,
    /// Process id; 0 when the kernel does not tell.
    pub pid: i32,
}

/// Binds a socket: makes its directory (0700), replaces the socket of a dead server and nothing else, and sets the mode
/// before anybody can connect.
pub fn bind(path: &Path) -> io::Result<Listening> {
    let fault = |kind, text: String| Err(io::Error::new(kind, text));
    if path.as_os_str().len() > SOCKET_PATH_BYTES_MAX {
        return fault(
            io::ErrorKind::InvalidInput,
            format!(
                "the socket path has more than {SOCKET_PATH_BYTES_MAX} bytes: choose a shorter one with --socket"
            ),
        );
    }
    let directory = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !directory.is_dir() {
        fs::DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(directory)?;
    }
    clear_way(path)?;
    // Between bind and listen nobody can connect, so the mode is right before the first caller comes; the name is the final
    // one, since `lsof` shows a listener under the name that it was bound to.
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.bind(&SockAddr::unix(path)?)?;
    fs::set_permissions(path, fs::Permissions::from_mode(SOCKET_MODE))?;
    let own = Some(identity(&fs::symlink_metadata(path)?));
    socket.listen(BACKLOG)?;
    let listener = UnixListener::from(socket);
    Ok(Listening { listener, path: path.to_owned(), own, open: watch::Sender::new(0) })
}

/// Removes the socket of a dead server. Anything else at the path stays as it is and is refused: a link too, since it may
/// lead to a socket of somebody else.
fn clear_way(path: &Path) -> io::Result<()> {
    let fault = |kind, text: String| Err(io::Error::new(kind, text));
    let at = path.display();
    let found = match fs::symlink_metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    if !found.file_type().is_socket() {
        return fault(
            io::ErrorKind::AlreadyExists,
            format!("{at} is not a socket: choose another path, or move that file away"),
        );
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Ok(_) => fault(
            io::ErrorKind::AddrInUse,
            format!("another server answers on {at}: stop it, or choose another path"),
        ),
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => fault(e.kind(), format!("try the socket {at}: {e}")),
    }
}

/// What tells one file from another that has its name later.
fn identity(file: &fs::Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

/// Takes over a socket that listens already, as a service manager hands it over. Mode, owner and file stay the manager's, and who
/// connects while no server runs waits for the next one.
pub fn adopt(listener: UnixListener) -> io::Result<Listening> {
    let address = listener.local_addr()?;
    let Some(path) = address.as_pathname().map(Path::to_owned) else {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "a socket without a path has neither mode nor owner: use ListenStream=/PATH",
        ));
    };
    Ok(Listening { listener, path, own: None, open: watch::Sender::new(0) })
}

impl Listening {
    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The number of open connections, as it changes.
    pub fn open_connections(&self) -> watch::Receiver<usize> {
        self.open.subscribe()
    }

    /// Another handle of the same listener, for a server that brings its own loop; the file stays ours.
    pub fn handle(&self) -> io::Result<UnixListener> {
        self.listener.try_clone()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let Some(own) = self.own else { return };
        // The listener is still open here and holds its inode, so no other file can have that number.
        let there = fs::symlink_metadata(&self.path);
        if there.is_ok_and(|file| identity(&file) == own) {
            // The next start replaces the file if this fails.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// What a listener bounds, and where its connections are counted.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Open connections.
    pub connections: usize,
    /// Longest wait for the head of a request, idle time before it included, in milliseconds.
    pub head_ms: u64,
    /// Longest head of a request, in bytes; none: hyper's own bound.
    pub head_bytes: Option<usize>,
    /// Longest time in which a client takes nothing of what is written to it, in milliseconds. Nothing bounds how long there
    /// is nothing to write.
    pub stall_ms: u64,
    /// Time that running calls have when it stops, in milliseconds.
    pub drain_ms: u64,
    /// The gauge of open connections.
    pub gauge: &'static str,
}

/// The bounds of the API.
const API: Bounds = Bounds {
    connections: CONNECTIONS_MAX,
    head_ms: HEAD_MS_MAX,
    head_bytes: None,
    stall_ms: ANSWER_STALL_MS,
    drain_ms: DRAIN_MS_MAX,
    gauge: metric::CONNECTIONS,
};

/// Serves until `stop` turns true, then lets running calls end within the drain limit.
pub async fn serve(
    listening: Listening,
    router: Router,
    stop: watch::Receiver<bool>,
) -> io::Result<()> {
    serve_within(listening, router, stop, API).await
}

/// The same within other bounds.
pub async fn serve_within(
    listening: Listening,
    router: Router,
    mut stop: watch::Receiver<bool>,
    bounds: Bounds,
) -> io::Result<()> {
    let listener = listening.handle()?;
    listener.set_nonblocking(true)?;
    let listener = tokio::net::UnixListener::from_std(listener)?;
    let permits = Arc::new(Semaphore::new(bounds.connections));
    let router = router.layer(from_fn(read_on));
    loop {
        let permit = tokio::select! {
            permit = Arc::clone(&permits).acquire_owned() => permit,
            () = stopped(&mut stop) => break,
        };
        let Ok(permit) = permit else { break };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stopped(&mut stop) => break,
        };
        match accepted {
            Ok((stream, _)) => {
                let (router, stop) = (router.clone(), stop.clone());
                let counted = Counted::new(&listening.open);
                tokio::spawn(async move {
                    let (_permit, _counted) = (permit, counted);
                    connection(stream, router, stop, bounds).await;
                });
            }
            Err(error) => {
                tracing::warn!(%error, "accept failed");
                tokio::time::sleep(Duration::from_millis(ACCEPT_PAUSE_MS)).await;
            }
        }
    }
    // Who comes now is refused at once and does not wait in a queue that nobody serves.
    drop(listener);
    drop(listening);
    let all = u32::try_from(bounds.connections).unwrap_or(u32::MAX);
    let drained =
        tokio::time::timeout(Duration::from_millis(bounds.drain_ms), permits.acquire_many(all))
            .await;
    if drained.is_err() {
        tracing::warn!(
            drain_ms = bounds.drain_ms,
            "calls still ran when the drain limit was reached"
        );
    }
    Ok(())
}

/// Comes back when no connection has been open for that time, without a gap.
pub async fn idle_for(time: Duration, mut open: watch::Receiver<usize>) {
    loop {
        // An error means that the listener is gone: nobody will come any more.
        if open.wait_for(|count| *count == 0).await.is_err() {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(time) => return,
            _ = open.wait_for(|count| *count > 0) => {}
        }
    }
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    // A dropped sender means that the program ends.
    let _ = stop.wait_for(|s| *s).await;
}

async fn connection(
    stream: UnixStream,
    router: Router,
    mut stop: watch::Receiver<bool>,
    bounds: Bounds,
) {
    let Ok(peer) = stream.peer_cred() else { return };
    let actor = PeerActor { uid: peer.uid(), pid: peer.pid().unwrap_or(0) };
    let service = TowerToHyperService::new(router.layer(axum::Extension(actor)));
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(Duration::from_millis(bounds.head_ms));
    if let Some(bytes) = bounds.head_bytes {
        builder.max_header_size(bytes);
    }
    let mut stream = TimeoutWriter::new(stream);
    stream.set_timeout(Some(Duration::from_millis(bounds.stall_ms)));
    let connection = builder.serve_connection(TokioIo::new(Box::pin(stream)), service);
    tokio::pin!(connection);
    metrics::gauge!(bounds.gauge).increment(1.0);
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = stopped(&mut stop) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    metrics::gauge!(bounds.gauge).decrement(1.0);
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use axum::body::{Body, Bytes, HttpBody};
    use hyper::body::Frame;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn idle_means_that_no_connection_was_open_for_the_whole_time() {
        let open = watch::Sender::new(0);
        let time = Duration::from_millis(30);
        let (one, two) = (Counted::new(&open), Counted::new(&open));
        let idle = tokio::spawn(idle_for(time, open.subscribe()));
        tokio::time::sleep(time * 3).await;
        drop(one);
        tokio::time::sleep(time * 3).await;
        assert!(!idle.is_finished(), "a connection is still open");
        drop(two);
        idle.await.unwrap();
        drop(open);
    }

    #[test]
    fn only_the_socket_of_a_dead_server_is_replaced() {
        let home = tempfile::tempdir().unwrap();
        let (file, link, dead) =
            (home.path().join("file"), home.path().join("link"), home.path().join("dead"));
        drop(UnixListener::bind(&dead).unwrap());
        fs::write(&file, "mine").unwrap();
        std::os::unix::fs::symlink(&dead, &link).unwrap();
        for path in [&file, &link, &home.path().to_owned()] {
            let before = identity(&fs::symlink_metadata(path).unwrap());
            let error = bind(path).err().expect("refused");
            assert!(error.to_string().contains("is not a socket: choose"), "{error}");
            assert_eq!(identity(&fs::symlink_metadata(path).unwrap()), before, "{path:?}");
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), "mine");

        let listening = bind(&dead).unwrap();
        let error = bind(&dead).err().expect("refused");
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse, "{error}");
        drop(listening);
        assert!(!dead.exists(), "a server takes its own socket with it");
    }

    #[test]
    fn a_socket_that_another_server_bound_there_since_stays() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("s");
        let first = bind(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let second = bind(&path).unwrap();
        drop(first);
        assert!(path.exists(), "it was the second one's");
        drop(second);
        assert!(!path.exists());
    }

    /// What comes through a channel, as the body of an answer.
    struct Said(mpsc::Receiver<Bytes>);

    impl HttpBody for Said {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            self.0.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
        }
    }

    /// Bytes of an answer that no socket's buffer holds.
    const LARGE: usize = 8 * 1024 * 1024;

    /// Serves `router` until the test ends, with a short patience.
    fn serving(
        directory: &Path,
        router: Router,
    ) -> (PathBuf, watch::Receiver<usize>, watch::Sender<bool>) {
        let listening = bind(&directory.join("s")).unwrap();
        let (path, open) = (listening.path().to_owned(), listening.open_connections());
        let (stop, stopping) = watch::channel(false);
        let bounds = Bounds { stall_ms: 500, ..API };
        tokio::spawn(serve_within(listening, router, stopping, bounds));
        (path, open, stop)
    }

    async fn asked(socket: &Path) -> UnixStream {
        let mut stream = UnixStream::connect(socket).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
        stream
    }

    /// Waits until so many connections are open; the bound only guards against a test that hangs.
    async fn wait_for(open: &mut watch::Receiver<usize>, wanted: usize) {
        let reached = open.wait_for(|count| *count == wanted);
        tokio::time::timeout(Duration::from_secs(30), reached).await.expect("in time").unwrap();
    }

    #[tokio::test]
    async fn a_client_that_reads_nothing_of_its_answer_is_left_and_one_that_reads_slowly_is_not() {
        let home = tempfile::tempdir().unwrap();
        let router = Router::new().fallback(async || vec![b'a'; LARGE]);
        let (socket, mut open, _stop) = serving(home.path(), router);
        let mut silent = asked(&socket).await;
        let mut slow = asked(&socket).await;
        wait_for(&mut open, 2).await;
        let (mut read, mut piece, mut pauses) = (0, vec![0; 64 * 1024], 0);
        loop {
            let bytes = slow.read(&mut piece).await.unwrap();
            if bytes == 0 {
                break;
            }
            read += bytes;
            // Longer than the bound in all, but no pause is near it.
            if pauses < 100 {
                tokio::time::sleep(Duration::from_millis(10)).await;
                pauses += 1;
            }
        }
        assert!(read > LARGE, "a slow reader gets all of it: {read} bytes");
        wait_for(&mut open, 0).await;
        let mut rest = Vec::new();
        let left = silent.read_to_end(&mut rest).await;
        assert!(rest.len() < LARGE, "{left:?}: {} bytes came", rest.len());
    }

    #[tokio::test]
    async fn a_stream_that_nobody_reads_ends_and_one_with_nothing_to_say_does_not() {
        let home = tempfile::tempdir().unwrap();
        // Says something, nothing for longer than the bound, and then more than a buffer holds.
        let pieces = || async {
            let (say, said) = mpsc::channel(1);
            tokio::spawn(async move {
                drop(say.send(Bytes::from_static(b"data: word\n\n")).await);
                tokio::time::sleep(Duration::from_millis(1_500)).await;
                drop(say.send(Bytes::from_static(b"data: word\n\n")).await);
                while say.send(Bytes::from(vec![b'a'; 64 * 1024])).await.is_ok() {}
            });
            Body::new(Said(said))
        };
        let (socket, mut open, _stop) = serving(home.path(), Router::new().fallback(pieces));
        let mut stream = asked(&socket).await;
        let mut text = String::new();
        let mut piece = [0; 4_096];
        while text.matches("word").count() < 2 {
            let bytes = stream.read(&mut piece).await.unwrap();
            assert_ne!(bytes, 0, "the stream was cut: {text}");
            text.push_str(&String::from_utf8_lossy(&piece[..bytes]));
        }
        wait_for(&mut open, 0).await;
    }
}
