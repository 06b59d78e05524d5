//! Runs engine and server with a proxy between them. The proxy kills one or both of these processes
//! at a random byte of their traffic.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::archival::eager;
use crate::chance::Chance;
use crate::home::{Home, Process, TORN_TAIL};
use crate::proxy::{Phase, Proxy};

/// The processes that are killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Victim {
    Server,
    Engine,
    Both,
}

/// The processes, and the phase in which they were last killed.
pub(crate) struct Stage {
    pub(crate) home: Home,
    pub(crate) engine: Process,
    pub(crate) server: Process,
    pub(crate) writes: Arc<Proxy>,
    pub(crate) hit: Arc<Mutex<Option<Phase>>>,
}

impl Stage {
    pub(crate) async fn new() -> Stage {
        let home = Home::new();
        let engine = home.engine().await;
        let writes = Arc::new(Proxy::start(&home.path("rw.sock"), &home.path("engine.sock")));
        let server = start_server(&home, false).await;
        Stage { home, engine, server, writes, hit: Arc::default() }
    }

    /// Arms the proxy to kill the given processes at the given byte.
    pub(crate) fn arm(&self, victim: Victim, phase: Phase, byte: u64, pause: Duration) {
        let (engine, server) = (self.engine.clone(), self.server.clone());
        let hit = Arc::clone(&self.hit);
        let action = move |phase| {
            if victim != Victim::Engine {
                server.kill();
            }
            if victim != Victim::Server {
                engine.kill();
            }
            *hit.lock().expect("a phase") = Some(phase);
        };
        self.writes.at_byte(phase, byte, pause, Box::new(action));
    }

    /// Restarts dead processes.
    pub(crate) async fn revive(&mut self, stream: bool) {
        if self.engine.ended().is_some() {
            self.engine = self.home.engine().await;
            self.engine.expect(TORN_TAIL);
        }
        if self.server.ended().is_some() {
            self.server = start_server(&self.home, stream).await;
        }
    }
}

/// Starts a server that writes all changes, or only its evictions, in stream transactions.
async fn start_server(home: &Home, stream: bool) -> Process {
    let mode = if stream { "stream" } else { "auto" };
    let mut tuning = eager();
    tuning.environment.push(("VCTX_STORE__WRITE_MODE".into(), mode.into()));
    let server = home.server("vctx.sock", "rw.sock", "engine-ro.sock", &tuning).await;
    // A server without its engine logs these warnings.
    for text in ["call failed", "read failed", "request failed", "a job failed"] {
        server.expect(text);
    }
    server
}

/// Waits until the proxy has killed the engine or the server.
pub(crate) async fn somebody_dies(stage: &Stage) {
    while stage.hit.lock().expect("a phase").is_none() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    // If only the engine died, the server still runs. So this function returns as soon as one of
    // them has ended.
    while stage.engine.ended().is_none() && stage.server.ended().is_none() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Chooses the phase of the traffic, the byte and the pause of a kill: about half of the kills
/// happen between the beginning and the commit of a transaction, a quarter between the commit and
/// its reply, the rest in other phases.
pub(crate) fn choose(chance: &mut Chance, bytes: &BTreeMap<Phase, u64>) -> (Phase, u64, Duration) {
    let phase = match chance.below(20) {
        0..9 => Phase::BeginToCommit,
        9..14 => Phase::CommitToReply,
        14 => Phase::StatusAsked,
        15..17 => Phase::OneRequestUnanswered,
        17..19 => Phase::OneRequestSent,
        _ => Phase::Outside,
    };
    let most = bytes.get(&phase).copied().unwrap_or(0);
    // In phases that wait for the engine, half of the kills happen before the first byte of its
    // answer, while the engine works.
    let waiting = matches!(phase, Phase::CommitToReply | Phase::OneRequestUnanswered);
    let byte = if waiting && chance.below(2) == 0 { 0 } else { chance.below(most) };
    (phase, byte, Duration::from_micros(chance.below(3_000)))
}
