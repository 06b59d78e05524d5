//! Listens on Unix sockets that this process bound or inherited, with limits on times, sizes and
//! the number of connections.

use std::convert::Infallible;
use std::fs;
use std::io;
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _,
};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::{Domain, SockAddr, Socket, Type};
use tokio::net::UnixStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_io_timeout::TimeoutWriter;

use super::crowd::{Crowd, Membership};
use super::held::held;
use super::refusal::refuse;
use super::responder::Responder;
use super::unread::read_on;
use crate::metric;
use vctx_core::limits::{
    ACCEPT_PAUSE_MS, ANSWER_STALL_MS, CONNECTIONS_MAX, CONNECTIONS_PER_USER_MAX, DRAIN_MS_MAX,
    HEAD_MS_MAX, SOCKET_PATH_BYTES_MAX,
};

/// Time between two attempts to close a connection when there is no room for another one, in
/// milliseconds.
const ROOM_LOOK_MS: u64 = 20;

/// Mode of a socket's directory: only the owner has access.
const DIRECTORY_MODE: u32 = 0o700;
/// Permission of the group and of all other users to write.
const OTHERS_WRITE: u32 = 0o022;
/// The sticky bit of a directory: only the owner of a file may replace the file.
const STICKY: u32 = 0o1000;
/// Mode of a socket file.
const SOCKET_MODE: u32 = 0o660;
/// Maximum number of connections that wait to be accepted.
const BACKLOG: i32 = 1024;

/// A bound socket; dropping the value removes the socket file, unless the service manager created
/// the file.
pub struct Listening {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode of the socket file that this process created; `None` if the service manager
    /// created the file.
    own: Option<(u64, u64)>,
    /// Number of open connections.
    open: watch::Sender<usize>,
}

/// One open connection, counted until the value is dropped.
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

/// User id and process id of the process at the other end of a connection. The kernel recorded them
/// when the connection was opened.
#[derive(Clone, Copy, Debug)]
pub struct PeerActor {
    /// User id.
    pub uid: u32,
    /// Process id; 0 if the kernel does not report the id.
    pub pid: i32,
}

/// Binds a socket: creates the socket's directory (0700), removes the socket file of a dead server
/// but no other file, and sets the file mode before any client can connect.
pub fn bind(path: &Path) -> io::Result<Listening> {
    let fault = |kind, text: String| Err(io::Error::new(kind, text));
    if path.as_os_str().len() > SOCKET_PATH_BYTES_MAX {
        return fault(
            io::ErrorKind::InvalidInput,
            format!(
                "the socket path {} has more than {SOCKET_PATH_BYTES_MAX} bytes: choose a shorter directory or path",
                path.display()
            ),
        );
    }
    let directory = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !directory.is_dir() {
        fs::DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(directory)?;
    }
    check_directory(directory)?;
    clear_way(path)?;
    // The file mode is set between bind and listen, when no client can connect. The socket is bound
    // under the final name, because `lsof` shows that name.
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.bind(&SockAddr::unix(path)?)?;
    fs::set_permissions(path, fs::Permissions::from_mode(SOCKET_MODE))?;
    let own = Some(identity(&fs::symlink_metadata(path)?));
    socket.listen(BACKLOG)?;
    let listener = UnixListener::from(socket);
    Ok(Listening { listener, path: path.to_owned(), own, open: watch::Sender::new(0) })
}

/// Refuses a directory in which another user could replace the socket.
fn check_directory(directory: &Path) -> io::Result<()> {
    let own = fs::metadata("/proc/self")?.uid();
    let found = fs::metadata(directory)?;
    let Some(why) = danger(found.uid(), found.mode(), own) else { return Ok(()) };
    let at = directory.display();
    let text = format!(
        "{at} {why}: another user could replace the socket; chmod 700 {at} (750 for a group), or choose a directory of your own"
    );
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

/// Returns the reason why a socket of the user `own` is not safe in a directory with the given
/// owner and mode; `None` if it is safe. A socket is not safe if the directory belongs to a user
/// other than `own` and root, or if other users may replace files in the directory.
fn danger(owner: u32, mode: u32, own: u32) -> Option<String> {
    if owner != own && owner != 0 {
        return Some(format!("belongs to the user with the id {owner}"));
    }
    let open = mode & OTHERS_WRITE != 0 && mode & STICKY == 0;
    open.then(|| format!("has mode {:o}", mode & 0o7777))
}

/// Removes the socket of a dead server. If any other file is at the path, returns an error and
/// keeps the file. This also holds for a symbolic link, because it may lead to a socket of another
/// program.
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

/// Returns the device and inode numbers of a file, which distinguish the file from a later file of
/// the same name.
fn identity(file: &fs::Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

/// Takes over a socket on which the service manager already listens. The service manager decides
/// mode, owner and file of the socket. A client that connects while no server runs waits until a
/// server starts.
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
    /// Returns the path of the socket file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a receiver for the number of open connections.
    pub fn open_connections(&self) -> watch::Receiver<usize> {
        self.open.subscribe()
    }

    /// Returns a second handle of the listener, for a server with a separate accept loop.
    /// `Listening` still owns the socket file.
    pub fn handle(&self) -> io::Result<UnixListener> {
        self.listener.try_clone()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let Some(own) = self.own else { return };
        // The listener is still open in this process and keeps the inode of its socket file in use,
        // so a file with the same inode number is this socket file.
        let there = fs::symlink_metadata(&self.path);
        if there.is_ok_and(|file| identity(&file) == own) {
            // If the removal of the socket file fails, the next start of the server replaces the
            // file.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Limits of a listener, and the gauge that counts its connections.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Maximum number of open connections.
    pub connections: usize,
    /// Maximum number of open connections of one user.
    pub connections_per_user: usize,
    /// Time limit for the head of a request, including the idle time before the head, in
    /// milliseconds.
    pub head_ms: u64,
    /// Maximum size of a request head, in bytes; `None` for hyper's own limit.
    pub head_bytes: Option<usize>,
    /// Maximum time, in milliseconds, that the server waits for a client that reads no byte of its
    /// answer. The limit applies only while the server has data to write.
    pub stall_ms: u64,
    /// Time that running calls have to end after the stop signal, in milliseconds.
    pub drain_ms: u64,
    /// Name of the gauge for the number of open connections.
    pub gauge: &'static str,
}

/// The limits of the API socket.
const API: Bounds = Bounds {
    connections: CONNECTIONS_MAX,
    connections_per_user: CONNECTIONS_PER_USER_MAX,
    head_ms: HEAD_MS_MAX,
    head_bytes: None,
    stall_ms: ANSWER_STALL_MS,
    drain_ms: DRAIN_MS_MAX,
    gauge: metric::CONNECTIONS,
};

/// Answers requests on the socket until `stop` is true. After that, running calls have a limited
/// time to end.
pub async fn serve(
    listening: Listening,
    responder: impl Responder,
    stop: watch::Receiver<bool>,
) -> io::Result<()> {
    serve_within(listening, responder, stop, API).await
}

/// Answers requests like `serve`, but with the given limits.
pub async fn serve_within(
    listening: Listening,
    responder: impl Responder,
    mut stop: watch::Receiver<bool>,
    bounds: Bounds,
) -> io::Result<()> {
    let listener = listening.handle()?;
    listener.set_nonblocking(true)?;
    let listener = tokio::net::UnixListener::from_std(listener)?;
    let permits = Arc::new(Semaphore::new(bounds.connections));
    let crowd = Crowd::new();
    loop {
        let permit = tokio::select! {
            permit = with_room(&permits, &crowd) => permit,
            () = stopped(&mut stop) => break,
        };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stopped(&mut stop) => break,
        };
        match accepted {
            Ok((stream, _)) => {
                let Ok(peer) = stream.peer_cred() else { continue };
                let Some(member) = crowd.join(peer.uid(), bounds.connections_per_user) else {
                    refuse(&stream);
                    continue;
                };
                let (responder, stop) = (responder.clone(), stop.clone());
                let counted = Counted::new(&listening.open);
                let crowd = Arc::clone(&crowd);
                tokio::spawn(async move {
                    let (_permit, _counted) = (permit, counted);
                    tokio::select! {
                        () = member.closed() => {
                            tracing::debug!("closed a connection that waited for its client");
                        }
                        () = connection(stream, responder, stop, bounds, crowd, &member) => {}
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "accept failed");
                tokio::time::sleep(Duration::from_millis(ACCEPT_PAUSE_MS)).await;
            }
        }
    }
    // Closes the listener before the running calls end. If this process bound the socket, new
    // clients are refused immediately and do not wait in the kernel's queue of connections.
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

/// Waits for a permit for one more connection. When all connections are in use, closes those that
/// wait for their clients, so that a client that does nothing keeps no other client out.
async fn with_room(permits: &Arc<Semaphore>, crowd: &Crowd) -> OwnedSemaphorePermit {
    loop {
        let permit = Arc::clone(permits).acquire_owned();
        match tokio::time::timeout(Duration::from_millis(ROOM_LOOK_MS), permit).await {
            Ok(permit) => return permit.expect("the semaphore stays open"),
            Err(_) => drop(crowd.close_waiting()),
        }
    }
}

/// Waits until there has been no open connection for the given time without interruption.
pub async fn idle_for(time: Duration, mut open: watch::Receiver<usize>) {
    loop {
        // An error means that the listener was dropped, so that no client can connect any more.
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
    // A dropped sender of the stop signal means that the program ends.
    let _ = stop.wait_for(|s| *s).await;
}

async fn connection(
    stream: UnixStream,
    responder: impl Responder,
    mut stop: watch::Receiver<bool>,
    bounds: Bounds,
    crowd: Arc<Crowd>,
    member: &Membership,
) {
    let Ok(peer) = stream.peer_cred() else { return };
    let actor = PeerActor { uid: peer.uid(), pid: peer.pid().unwrap_or(0) };
    let begin = member.calls();
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let (call, responder) = (begin(), responder.clone());
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(actor);
        request.extensions_mut().insert(Arc::clone(&crowd));
        async move {
            let response = read_on(request, |request| responder.respond(request)).await;
            Ok::<_, Infallible>(held(response, call))
        }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(Duration::from_millis(bounds.head_ms));
    if let Some(bytes) = bounds.head_bytes {
        builder.max_header_size(bytes);
    }
    let mut stream = TimeoutWriter::new(member.watch(stream));
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
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use axum::Router;
    use axum::body::{Bytes, HttpBody};
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
        assert!(!dead.exists(), "a server removes its socket file when it ends");
    }

    #[test]
    fn a_directory_is_our_own_or_roots_and_not_everybodys() {
        let (ours, other, root) = (1000, 1001, 0);
        for (owner, mode, safe) in [
            (ours, 0o40700, true),
            (ours, 0o40755, true),
            (ours, 0o40775, false),
            (ours, 0o40777, false),
            (root, 0o41777, true),
            (root, 0o40755, true),
            (root, 0o40777, false),
            (other, 0o40700, false),
            (other, 0o41777, false),
        ] {
            assert_eq!(danger(owner, mode, ours).is_none(), safe, "{owner} {mode:o}");
        }
        let home = tempfile::tempdir().unwrap();
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let error = bind(&home.path().join("s")).err().expect("refused");
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
    }

    #[test]
    fn a_socket_that_another_server_bound_there_since_stays() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("s");
        let first = bind(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let second = bind(&path).unwrap();
        drop(first);
        assert!(path.exists(), "the socket file belongs to the second server");
        drop(second);
        assert!(!path.exists());
    }

    /// An answer body whose data comes from a channel.
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

    /// Size in bytes of an answer that is larger than any socket buffer.
    const LARGE: usize = 8 * 1024 * 1024;

    /// Serves `router` until the test ends, with short time limits.
    fn serving(
        directory: &Path,
        router: Router,
    ) -> (PathBuf, watch::Receiver<usize>, watch::Sender<bool>) {
        let listening = bind(&directory.join("s")).unwrap();
        let (path, open) = (listening.path().to_owned(), listening.open_connections());
        let (stop, stopping) = watch::channel(false);
        let bounds = Bounds { stall_ms: 2_000, ..API };
        tokio::spawn(serve_within(listening, router, stopping, bounds));
        (path, open, stop)
    }

    async fn asked(socket: &Path) -> UnixStream {
        let mut stream = UnixStream::connect(socket).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
        stream
    }

    /// Waits until the given number of connections is open; the time limit only prevents a hanging
    /// test.
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
            // To read the whole answer, the client takes longer than the limit, but each of its
            // pauses is much shorter than the limit.
            if pauses < 100 {
                tokio::time::sleep(Duration::from_millis(25)).await;
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
        // The handler sends some bytes, pauses for longer than the time limit, and then sends more
        // bytes than a socket buffer holds.
        let pieces = || async {
            let (say, said) = mpsc::channel(1);
            tokio::spawn(async move {
                drop(say.send(Bytes::from_static(b"data: word\n\n")).await);
                tokio::time::sleep(Duration::from_millis(3_000)).await;
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
