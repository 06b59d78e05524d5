//! Serves connections on threads of their own: the thread that reads a request also handles it,
//! without a handover to another thread.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::Arc;

use tokio::net::UnixStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::limits::CONNECTION_THREADS_MAX;
use super::threads::Threads;

thread_local! {
    /// The thread's event loop, which it reuses for one connection after another.
    static EVENTS: RefCell<Option<Runtime>> = const { RefCell::new(None) };
    /// Whether the thread currently serves one connection of its own.
    static OWN: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread serves only one connection and so may block.
pub(super) fn is_own() -> bool {
    OWN.get()
}

/// The threads that serve one connection each; connections without such a thread share the
/// listener's event loop.
#[derive(Debug)]
pub(super) struct OwnThreads {
    places: Arc<Semaphore>,
    threads: Threads,
}

impl OwnThreads {
    /// Returns a pool that has not started any threads yet.
    pub(super) fn new() -> Self {
        Self {
            places: Arc::new(Semaphore::new(CONNECTION_THREADS_MAX)),
            threads: Threads::default(),
        }
    }

    /// Returns a permit for a thread, unless the maximum number of threads is in use.
    pub(super) fn permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).try_acquire_owned().ok()
    }

    /// Serves a connection on its own thread until the connection ends. Returns the stream if the
    /// thread cannot serve it.
    pub(super) async fn run<F>(
        &self,
        place: OwnedSemaphorePermit,
        stream: UnixStream,
        serve: impl FnOnce(UnixStream) -> F + Send + 'static,
    ) -> io::Result<Option<UnixStream>>
    where
        F: Future<Output = ()>,
    {
        let stream = stream.into_std()?;
        let (end, ended) = oneshot::channel();
        let job = move || {
            let left = on_this_thread(stream, serve);
            // The permit must be released before the channel reports the end of the connection.
            drop(place);
            // The receiver is gone if the server has stopped.
            let _ = end.send(left);
        };
        if self.threads.start(Box::new(job)).is_err() {
            return Err(io::Error::other("no thread can be started for a connection"));
        }
        match ended.await {
            Ok(None) => Ok(None),
            Ok(Some(stream)) => UnixStream::from_std(stream).map(Some),
            Err(_) => Err(io::Error::other("the thread of a connection ended in a panic")),
        }
    }
}

/// Serves a connection on the calling thread. Returns the stream if no event loop can be created,
/// for example without free descriptors.
fn on_this_thread<F>(
    stream: StdUnixStream,
    serve: impl FnOnce(UnixStream) -> F,
) -> Option<StdUnixStream>
where
    F: Future<Output = ()>,
{
    EVENTS.with_borrow_mut(|events| {
        let runtime = match events.take().map_or_else(loop_of_events, Ok) {
            Ok(runtime) => events.insert(runtime),
            Err(error) => {
                tracing::warn!(%error, "no event loop for a connection: it shares the listener's");
                return Some(stream);
            }
        };
        runtime.block_on(async {
            match UnixStream::from_std(stream) {
                Ok(stream) => {
                    OWN.set(true);
                    serve(stream).await;
                    OWN.set(false);
                }
                Err(error) => tracing::warn!(%error, "a connection was lost"),
            }
        });
        None
    })
}

fn loop_of_events() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_connection_has_its_thread_and_beyond_them_there_is_none() {
        let threads = OwnThreads::new();
        let here = std::thread::current().id();
        let (_near, far) = UnixStream::pair().expect("a pair");
        let place = threads.permit().expect("a place");
        let (told, heard) = oneshot::channel();
        let serve = move |_| async move {
            told.send((is_own(), std::thread::current().id())).expect("waits");
        };
        assert!(threads.run(place, far, serve).await.expect("runs").is_none());
        let (own, there) = heard.await.expect("told");
        assert!(own && there != here && !is_own());
        let all: Vec<_> = (0..CONNECTION_THREADS_MAX).map(|_| threads.permit()).collect();
        assert!(all.iter().all(Option::is_some) && threads.permit().is_none());
    }
}
