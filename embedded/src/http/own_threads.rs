//! Connections on threads of their own: a request is worked on where it was read, and nothing is handed over and back.

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
    /// The event loop of this thread's connections, one after another.
    static EVENTS: RefCell<Option<Runtime>> = const { RefCell::new(None) };
    /// Whether this thread has one connection and nothing else to do.
    static OWN: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread belongs to one connection, so that whatever it waits for makes nobody else wait.
pub(super) fn is_own() -> bool {
    OWN.get()
}

/// The threads; connections beyond their number share the event loop of the listener.
#[derive(Debug)]
pub(super) struct OwnThreads {
    places: Arc<Semaphore>,
    threads: Threads,
}

impl OwnThreads {
    /// No threads yet.
    pub(super) fn new() -> Self {
        Self {
            places: Arc::new(Semaphore::new(CONNECTION_THREADS_MAX)),
            threads: Threads::default(),
        }
    }

    /// A thread for one connection, while there are some.
    pub(super) fn place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).try_acquire_owned().ok()
    }

    /// Serves a connection on a thread of its own to its end; gives the stream back when there is none to be had.
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
            // Who hears of the end finds the place free.
            drop(place);
            // Nobody waits any more when the server is gone.
            let _ = end.send(left);
        };
        if self.threads.start(Box::new(job)).is_err() {
            return Err(io::Error::other("no thread for a connection"));
        }
        match ended.await {
            Ok(None) => Ok(None),
            Ok(Some(stream)) => UnixStream::from_std(stream).map(Some),
            Err(_) => Err(io::Error::other("the thread of a connection ended in a panic")),
        }
    }
}

/// Serves a connection here; gives the stream back if there are no descriptors for an event loop.
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
                tracing::warn!(%error, "a connection shares the event loop of its listener");
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
        let place = threads.place().expect("a place");
        let (told, heard) = oneshot::channel();
        let serve = move |_| async move {
            told.send((is_own(), std::thread::current().id())).expect("waits");
        };
        assert!(threads.run(place, far, serve).await.expect("runs").is_none());
        let (own, there) = heard.await.expect("told");
        assert!(own && there != here && !is_own());
        let all: Vec<_> = (0..CONNECTION_THREADS_MAX).map(|_| threads.place()).collect();
        assert!(all.iter().all(Option::is_some) && threads.place().is_none());
    }
}
