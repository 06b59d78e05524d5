//! Sends the demo's conversation through the public API as a client would, and kills the server and
//! the engine during the conversation.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::demo::input::Turn;
use crate::demo::metrics::Metrics;
use crate::demo::picture::Picture;
use crate::demo::score::{Flush, Score};
use crate::demo::stage::{Role, Stage};
use vctx_base::clock;
use vctx_base::ids::{Ids as _, SystemIds};
use vctx_cli::exit::Failure;
use vctx_cli::output::{field, number};
use vctx_client::{Appended, Client, NewAgent, Problem, Write};

/// The agent of the demo.
pub(super) const AGENT: &str = "demo";

/// System text of the demo's agent.
const SYSTEM: &str = "You are a helpful companion with a long memory. What you no longer see in full is summarised above the conversation.";

/// Progress through the conversation, in percent, at which the server and the engine are killed.
const KILL_SERVER_AT: usize = 40;
const KILL_ENGINE_AT: usize = 70;

/// Maximum time for which the demo retries sending one message.
const DELIVERY_MAX: Duration = Duration::from_secs(25);

/// Pause between two attempts to send a message.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// Maximum delay, in microseconds, between the sending of a call and the kill of a process. The
/// actual delay is random and shorter than the duration of the previous call.
const KILL_DELAY_US_MAX: u64 = 5_000;

/// Maximum number of times that a refused part of a message is halved.
const HALVINGS_MAX: u32 = 6;

/// Maximum length of a message in bytes, below the server's limit for one text. Longer texts are
/// split before sending.
const TEXT_BYTES_MAX: usize = 512 << 10;

/// A message as sent, and the server's receipt.
#[derive(Debug, Clone)]
pub(super) struct SentMessage {
    /// Number (from 1) of the conversation turn that the message contains, in full or in part.
    pub turn: u64,
    pub role: String,
    pub content: String,
    pub parts: Map<String, Value>,
    /// Sequence number, digest and chain value from the receipt of the message.
    pub seq: u64,
    pub digest: String,
    pub chain: String,
}

/// What happened while the conversation was played: counts, sent messages and flushes.
#[derive(Debug, Default)]
pub(super) struct Played {
    pub turns: usize,
    pub sent: Vec<SentMessage>,
    /// Number of turns of the conversation that were larger than the window and were sent in parts.
    pub turns_split: usize,
    pub score: Score,
    pub flushes: Vec<Flush>,
    pub metrics: Metrics,
    /// Number of server processes that ended before their metrics could be read.
    pub metrics_missed: u64,
    pub kills: u64,
    /// Number of kills that happened after a call was sent and before it was answered.
    pub kills_in_flight: u64,
    pub retries: u64,
    /// Number of calls whose message an earlier, unanswered attempt had already stored.
    pub replayed: u64,
}

/// Sends every turn of the conversation; leaves engine and server running for the final comparison.
pub(super) async fn play(
    stage: &mut Stage,
    picture: &mut Picture,
    turns: &[Turn],
    window: u64,
) -> Result<Played, Failure> {
    stage.start(Role::Engine).await?;
    stage.start(Role::Server).await?;
    let client = stage.client();
    let new = NewAgent { system: Some(SYSTEM.into()), ..NewAgent::with_window(window) };
    let state = client.create_agent(AGENT, &new).await?;
    let played = Played { turns: turns.len(), score: Score::new(&state), ..Played::default() };
    let mut player =
        Player { stage, picture, client, played, window, pressure: String::new(), call_us: 0 };
    for (at, turn) in turns.iter().enumerate() {
        player.turn(at, turn).await?;
    }
    player.count_life().await;
    Ok(player.played)
}

struct Player<'a> {
    stage: &'a mut Stage,
    picture: &'a mut Picture,
    client: Client,
    played: Played,
    window: u64,
    /// The last memory pressure that the server reported.
    pressure: String,
    /// Duration of the previous call in microseconds.
    call_us: u64,
}

impl Player<'_> {
    async fn turn(&mut self, at: usize, turn: &Turn) -> Result<(), Failure> {
        let victim = match at {
            _ if at == self.played.turns * KILL_SERVER_AT / 100 => Some(Role::Server),
            _ if at == self.played.turns * KILL_ENGINE_AT / 100 => Some(Role::Engine),
            _ => None,
        };
        let whole = match turn.content.len() > TEXT_BYTES_MAX {
            true => None,
            false => self.deliver(turn, victim).await?,
        };
        let answer = match whole {
            Some(answer) => answer,
            None => self.in_parts(at, turn).await?,
        };
        self.picture.show(at + 1, &answer, &self.played.score);
        tokio::time::sleep(self.picture.rest()).await;
        Ok(())
    }

    /// Sends a turn that is larger than the window as several messages, each small enough for the
    /// window.
    async fn in_parts(&mut self, at: usize, turn: &Turn) -> Result<Value, Failure> {
        self.played.turns_split += 1;
        let mut chars_max =
            usize::try_from(self.window).unwrap_or(usize::MAX).min(TEXT_BYTES_MAX / 4);
        let mut halvings = 0;
        let mut rest = turn.content.as_str();
        let mut count = 0;
        let mut last = Value::Null;
        while !rest.is_empty() {
            let (part, behind) = cut(rest, chars_max);
            let part = Turn { content: part.to_string(), ..turn.clone() };
            match self.deliver(&part, None).await? {
                Some(answer) => (last, rest, count) = (answer, behind, count + 1),
                None if halvings < HALVINGS_MAX => {
                    halvings += 1;
                    chars_max = (chars_max / 2).max(1);
                }
                None => {
                    return Err(Failure::data(format!(
                        "turn {} does not fit the window even in parts of {chars_max} characters",
                        at + 1
                    )));
                }
            }
        }
        self.picture.event(format!(
            "turn {} is larger than the window allows: sent as {count} messages",
            at + 1
        ));
        Ok(last)
    }

    /// Sends a message until the server answers, with the same idempotency key for all attempts. If
    /// `victim` is given, kills that process during the first attempt. Returns `None` if the
    /// message is too large for the window.
    async fn deliver(
        &mut self,
        turn: &Turn,
        victim: Option<Role>,
    ) -> Result<Option<Value>, Failure> {
        let write = Write::any();
        let mut message = turn.parts.clone();
        message.insert("content".into(), turn.content.clone().into());
        let message = Value::Object(message);
        let until = clock::now() + DELIVERY_MAX;
        let began = clock::now();
        let mut outcome = match victim {
            Some(role) => self.under_fire(role, turn, &message, &write).await?,
            None => self.client.append(AGENT, &turn.role, &message, &write).await,
        };
        loop {
            match outcome {
                Ok(appended) => {
                    self.call_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
                    return Ok(Some(self.answered(turn, appended)));
                }
                Err(problem)
                    if matches!(
                        problem.code.as_str(),
                        "TOKEN_BUDGET_EXCEEDED" | "BODY_TOO_LARGE"
                    ) =>
                {
                    return Ok(None);
                }
                Err(problem) if problem.is_passing() && clock::now() < until => {
                    self.recover(&problem).await?
                }
                Err(problem) => return Err(problem.into()),
            }
            self.played.retries += 1;
            outcome = self.client.append(AGENT, &turn.role, &message, &write).await;
        }
    }

    /// Waits briefly, then restarts the server or the engine if its process ended by itself.
    async fn recover(&mut self, problem: &Problem) -> Result<(), Failure> {
        tokio::time::sleep(RETRY_PAUSE).await;
        for role in self.stage.revive().await? {
            if role == Role::Server {
                self.played.metrics_missed += 1;
            }
            self.picture.event(format!(
                "the {} had ended and was started again ({})",
                role.name(),
                problem.code
            ));
        }
        Ok(())
    }

    /// Sends a message and kills a process between the sending of the call and the answer.
    async fn under_fire(
        &mut self,
        role: Role,
        turn: &Turn,
        message: &Value,
        write: &Write,
    ) -> Result<Result<Appended, Problem>, Failure> {
        if role == Role::Server {
            self.count_life().await;
        }
        let (stage, client) = (&mut *self.stage, &self.client);
        let delay =
            Duration::from_micros(SystemIds.below(self.call_us.clamp(1, KILL_DELAY_US_MAX)));
        let kill_and_restart = async {
            // The timer of the async runtime is too coarse for waits below a millisecond, so a loop
            // waits for the delay.
            let began = clock::now();
            while began.elapsed() < delay {
                tokio::task::yield_now().await;
            }
            let killed_at = clock::now();
            let killed = stage.kill(role).await?;
            let began = clock::now();
            let started = stage.start(role).await?;
            Ok::<_, Failure>((killed_at, killed, started, began.elapsed()))
        };
        let call = async {
            let outcome = client.append(AGENT, &turn.role, message, write).await;
            (outcome, clock::now())
        };
        let ((outcome, ended_at), restarted) = tokio::join!(call, kill_and_restart);
        let (killed_at, killed, started, took) = restarted?;
        self.played.kills += 1;
        let how = match &outcome {
            Ok(_) if ended_at <= killed_at => "the call had just been answered",
            Ok(_) => "the call in progress was answered despite the kill",
            Err(_) => "the call in progress got no answer",
        };
        self.played.kills_in_flight += u64::from(ended_at > killed_at);
        let name = role.name();
        self.picture.event(format!("{name} {killed} killed with SIGKILL; {how}"));
        self.picture.event(format!("{name} {started} is up after {} ms", took.as_millis()));
        Ok(outcome)
    }

    /// Adds the metrics of the server process to the sums, because the metrics are lost when the
    /// process ends.
    async fn count_life(&mut self) {
        match Metrics::scrape(&self.stage.metrics_client()).await {
            Ok(metrics) => self.played.metrics.add(metrics),
            Err(problem) => {
                self.played.metrics_missed += 1;
                self.picture
                    .event(format!("the server's metrics cannot be read: {}", problem.detail));
            }
        }
    }

    fn answered(&mut self, turn: &Turn, appended: Appended) -> Value {
        let Appended { seq, replayed, answer } = appended;
        self.played.replayed += u64::from(replayed);
        if replayed {
            self.picture.event(format!(
                "message {seq} was stored before the kill: the repeated call got the stored answer"
            ));
        }
        let pressure = field(&answer, "/pressure");
        let share = number(&answer, "/tokens/occupancy") * 100 / self.window.max(1);
        if let Some(flush) = self.played.score.take(&format!("message {seq}"), &answer) {
            let reached = if flush.reached { "" } else { ", short of the target" };
            let (first, last) = (flush.first_seq, flush.last_seq);
            self.picture.event(format!(
                "message {seq}: flush, {first} to {last} evicted, window {share} % full{reached}"
            ));
            self.played.flushes.push(flush);
        } else if pressure == "warning" && self.pressure != "warning" {
            self.picture.event(format!("message {seq}: warning, {share} % of the window"));
        }
        self.pressure = pressure;
        let (digest, chain) = (field(&answer, "/receipt/digest"), field(&answer, "/receipt/chain"));
        self.played.sent.push(SentMessage {
            turn: turn.number,
            role: turn.role.clone(),
            content: turn.content.clone(),
            parts: turn.parts.clone(),
            seq,
            digest,
            chain,
        });
        answer
    }
}

/// Splits a text into a first part of at most `chars_max` characters and the rest. The first part
/// ends after a line end or space if possible.
fn cut(text: &str, chars_max: usize) -> (&str, &str) {
    let Some((end, _)) = text.char_indices().nth(chars_max.max(1)) else { return (text, "") };
    let head = &text[..end];
    // A break in the second half of a part keeps words whole without making the part tiny.
    let broken =
        head.rfind('\n').or_else(|| head.rfind(' ')).map(|at| at + 1).filter(|at| *at > end / 2);
    text.split_at(broken.unwrap_or(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_parts_make_the_whole_again() {
        for (text, chars_max) in [
            ("one two three four", 9),
            ("äöü äöü äöü", 5),
            ("nobreakatall", 5),
            ("a", 1),
            ("x\ny z", 2),
        ] {
            let (mut rest, mut whole) = (text, String::new());
            let mut parts = 0;
            while !rest.is_empty() {
                let (part, behind) = cut(rest, chars_max);
                assert!(!part.is_empty() && part.chars().count() <= chars_max);
                whole.push_str(part);
                rest = behind;
                parts += 1;
            }
            assert_eq!(whole, text);
            assert!(parts >= text.chars().count().div_ceil(chars_max));
        }
        assert_eq!(cut("one two three", 9), ("one two ", "three"));
    }
}
