//! The open connections of a listener. When there is no room for another one, or for another
//! answer, the connection that has waited longest for its client is closed.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;

use crate::clock;
use vctx_core::limits::CLIENT_GRACE_MS;

/// The value of a connection that does not wait.
const NOT: u64 = 0;

/// The open connections of one listener.
#[derive(Debug)]
pub struct Crowd {
    begun: Instant,
    next: AtomicU64,
    members: Mutex<BTreeMap<u64, Arc<Member>>>,
}

/// What the server knows of one connection.
#[derive(Debug, Default)]
struct Member {
    /// User id of the client.
    user: u32,
    /// Number of calls whose answers are not sent completely.
    calls: AtomicUsize,
    /// When the server began to wait for the client to read, in milliseconds of the crowd.
    unread_since: AtomicU64,
    /// When the server began to wait for the next request, in milliseconds of the crowd.
    idle_since: AtomicU64,
    close: Notify,
}

/// The membership of one connection; dropping the value ends it.
#[derive(Debug)]
pub(super) struct Membership {
    crowd: Arc<Crowd>,
    number: u64,
    member: Arc<Member>,
}

/// One call of a connection; dropping the value ends the call.
pub(super) struct Served {
    crowd: Arc<Crowd>,
    member: Arc<Member>,
}

/// A stream that notes when it waits for its client.
pub(super) struct Watched<S> {
    stream: S,
    crowd: Arc<Crowd>,
    member: Arc<Member>,
}

impl Crowd {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { begun: clock::now(), next: AtomicU64::new(0), members: Mutex::default() })
    }

    /// Returns milliseconds since the crowd began, at least 1.
    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX).max(1)
    }

    /// Adds a connection of the user with the given id. If the user has `most` connections already,
    /// closes the one that has waited longest for its client. Returns `None` if none waits.
    pub(super) fn join(self: &Arc<Self>, user: u32, most: usize) -> Option<Membership> {
        let of_user = |member: &Member| member.user == user;
        let has = self.members().values().filter(|member| of_user(member)).count();
        if has >= most && !self.close_waiting_of(of_user) {
            return None;
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let member = Arc::new(Member { user, ..Member::default() });
        self.members().insert(number, Arc::clone(&member));
        Some(Membership { crowd: Arc::clone(self), number, member })
    }

    fn members(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Arc<Member>>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the connection whose client has read nothing of its answer for the longest time;
    /// returns whether there was one. A client gets at least [`CLIENT_GRACE_MS`].
    pub fn close_unread(&self) -> bool {
        self.close_unread_of(|_| true)
    }

    fn close_unread_of(&self, is_meant: impl Fn(&Member) -> bool) -> bool {
        self.close_longest(|member| match is_meant(member) {
            true => member.unread_since.load(Ordering::Relaxed),
            false => NOT,
        })
    }

    /// Like `close_unread`; if there is none, closes the connection that has been idle longest.
    pub(super) fn close_waiting(&self) -> bool {
        self.close_waiting_of(|_| true)
    }

    /// Like `close_waiting`, among the connections for which `is_meant` is true.
    fn close_waiting_of(&self, is_meant: impl Fn(&Member) -> bool) -> bool {
        self.close_unread_of(&is_meant)
            || self.close_longest(|member| match member.calls.load(Ordering::Relaxed) {
                0 if is_meant(member) => member.idle_since.load(Ordering::Relaxed),
                _ => NOT,
            })
    }

    fn close_longest(&self, since: impl Fn(&Member) -> u64) -> bool {
        let until = self.now().saturating_sub(CLIENT_GRACE_MS);
        let mut members = self.members();
        let waiting = members.iter().map(|(number, member)| (since(member), *number));
        let longest = waiting.filter(|(since, _)| *since != NOT && *since < until).min();
        let Some(member) = longest.and_then(|(_, number)| members.remove(&number)) else {
            return false;
        };
        member.close.notify_one();
        true
    }
}

impl Membership {
    /// Returns a stream of this connection that notes when it waits.
    pub(super) fn watch<S>(&self, stream: S) -> Watched<S> {
        Watched { stream, crowd: Arc::clone(&self.crowd), member: Arc::clone(&self.member) }
    }

    /// Waits until the connection is to be closed.
    pub(super) async fn closed(&self) {
        self.member.close.notified().await;
    }

    /// Returns a function that begins a call of this connection.
    pub(super) fn calls(&self) -> impl Fn() -> Served + Clone + Send + Sync + 'static {
        let (crowd, member) = (Arc::clone(&self.crowd), Arc::clone(&self.member));
        move || {
            member.calls.fetch_add(1, Ordering::Relaxed);
            Served { crowd: Arc::clone(&crowd), member: Arc::clone(&member) }
        }
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.crowd.members().remove(&self.number);
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.member.idle_since.store(self.crowd.now(), Ordering::Relaxed);
        self.member.calls.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<S> Watched<S> {
    /// Notes in `since` whether the stream waits; the first of several waits counts.
    fn note<T>(&self, since: &AtomicU64, polled: &Poll<T>) {
        match polled {
            Poll::Ready(_) => since.store(NOT, Ordering::Relaxed),
            Poll::Pending => {
                // If the value is not `NOT`, the stream already waits.
                let now = self.crowd.now();
                let _ = since.compare_exchange(NOT, now, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.note(&self.member.idle_since, &polled);
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.note(&self.member.unread_since, &polled);
        polled
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.note(&self.member.unread_since, &polled);
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Moves the beginning of the crowd into the past, as if the time had passed.
    fn later(crowd: &mut Arc<Crowd>, ms: u64) {
        let crowd = Arc::get_mut(crowd).expect("no member");
        crowd.begun -= Duration::from_millis(ms);
    }

    #[tokio::test]
    async fn the_client_that_let_the_server_wait_longest_goes_first() {
        let mut crowd = Crowd::new();
        later(&mut crowd, 10_000);
        let [idle, busy, unread, fresh] = [0; 4].map(|_| crowd.join(0, 4).unwrap());
        idle.member.idle_since.store(1, Ordering::Relaxed);
        busy.member.idle_since.store(1, Ordering::Relaxed);
        let call = busy.calls()();
        unread.member.unread_since.store(5_000, Ordering::Relaxed);
        fresh.member.unread_since.store(crowd.now(), Ordering::Relaxed);
        assert!(crowd.close_waiting());
        unread.closed().await;
        assert!(!crowd.close_unread(), "a client gets some time");
        assert!(crowd.close_waiting());
        idle.closed().await;
        assert!(!crowd.close_waiting(), "a call is under way");
        drop(call);
        assert!(!crowd.close_waiting(), "it has just ended");
        busy.member.idle_since.store(1, Ordering::Relaxed);
        assert!(crowd.close_waiting());
        busy.closed().await;
    }

    #[test]
    fn a_user_with_many_connections_keeps_no_other_user_out() {
        let mut crowd = Crowd::new();
        later(&mut crowd, 10_000);
        let (ada, ben) = (1_000, 1_001);
        let first = crowd.join(ada, 2).expect("room");
        let second = crowd.join(ada, 2).expect("room");
        assert!(crowd.join(ada, 2).is_none(), "both are at work");
        assert!(crowd.join(ben, 2).is_some());
        let other = crowd.join(ben, 2).expect("room");
        other.member.idle_since.store(1, Ordering::Relaxed);
        assert!(crowd.join(ada, 2).is_none(), "only the other user's connection waits");
        first.member.idle_since.store(1, Ordering::Relaxed);
        let third = crowd.join(ada, 2).expect("the first connection made room");
        assert!(crowd.join(ada, 2).is_none());
        drop((second, third));
        assert!(crowd.join(ada, 2).is_some());
    }
}
