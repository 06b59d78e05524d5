//! Tests the server under load: many concurrent clients write, while the one process that contains
//! the server and its engine is repeatedly killed or stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::chance::{Chance, rounds};
use crate::home::{Home, TORN_TAIL};
use crate::talk::{Agent, said};

/// Number of clients. Each has its own agent, so that their commits are concurrent and can be
/// synced in groups.
const CLIENTS: u64 = 8;
/// Maximum time until a call succeeds, including kills and restarts.
const CALL_MAX: Duration = Duration::from_secs(60);

/// Number of answered appends before each kill or stop.
const ANSWERED_MIN: usize = 25;

/// Appends messages until stopped, and counts the answers in `count`; returns the agent, the
/// answered texts, and the number of replayed answers.
async fn append(
    agent: Agent,
    stop: Arc<AtomicBool>,
    count: Arc<AtomicUsize>,
) -> (Agent, Vec<String>, u64) {
    let (mut answered, mut replayed) = (Vec::new(), 0);
    while !stop.load(Ordering::SeqCst) {
        let text = format!("{} {}: {}", agent.name, answered.len(), crate::count::words(30));
        let body = json!({"message": text, "role": "user"});
        let key = format!("{}-{}", agent.name, answered.len());
        let until = Instant::now() + CALL_MAX;
        loop {
            assert!(Instant::now() < until, "{key} is not answered");
            match agent.attempt("append_fifo", &body, &key, "*").await {
                Ok(answer) if answer.status == 200 => {
                    assert_eq!(answer.body["receipt"]["seq"], answered.len() + 1, "{key}");
                    replayed += u64::from(answer.body["replayed"] == true);
                    break;
                }
                // A status of 503 means that the server is not ready yet, or about to stop.
                Ok(answer) => assert_eq!(answer.status, 503, "{}", answer.text),
                Err(_) => {}
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        answered.push(text);
        count.fetch_add(1, Ordering::SeqCst);
    }
    (agent, answered, replayed)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_answered_under_load_is_there_after_every_kill_and_every_stop() {
    let home = Home::new();
    let mut server = home.serve().await;
    let (stop, count) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
    let mut clients = Vec::new();
    for number in 0..CLIENTS {
        let name = format!("agent{number}");
        let agent = Agent::create(home.wire("vctx.sock"), &name, 1024, "Be brief.").await;
        clients.push(tokio::spawn(append(agent, Arc::clone(&stop), Arc::clone(&count))));
    }
    let mut chance = Chance::new(3);
    let rounds = rounds("VCTX_LOAD_ROUNDS", 10);
    for round in 0..rounds {
        let (before, until) = (count.load(Ordering::SeqCst), Instant::now() + CALL_MAX);
        tokio::time::sleep(Duration::from_millis(50 + chance.below(250))).await;
        while count.load(Ordering::SeqCst) < before + ANSWERED_MIN {
            assert!(Instant::now() < until, "fewer than {ANSWERED_MIN} appends are answered");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        if round % 3 == 2 {
            assert!(server.stop().await.success());
        } else {
            server.kill();
        }
        server = home.serve().await;
        server.expect(TORN_TAIL);
    }
    stop.store(true, Ordering::SeqCst);
    let (mut appended, mut replays) = (0, 0);
    for client in clients {
        let (agent, answered, replayed) = client.await.expect("a client");
        let wanted: Vec<_> =
            answered.iter().map(|text| ("user".to_owned(), text.clone())).collect();
        assert_eq!(said(&agent.messages().await), wanted, "{}", agent.name);
        home.assert_verified("vctx.sock", &agent.name);
        appended += answered.len();
        replays += replayed;
    }
    println!(
        "{appended} appends of {CLIENTS} clients over {rounds} restarts, {replays} answered by a replay"
    );
    let wanted = ANSWERED_MIN * usize::try_from(rounds).expect("few rounds");
    assert!(appended >= wanted, "{appended} appends");
}
