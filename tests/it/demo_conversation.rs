//! Checks that the demo's conversation is long enough and in order, and that it states each planted
//! fact once.

use serde::Deserialize;
use vctx::memory::TokenCounter;
use vctx::text::Tiktoken;

const CONVERSATION: &str = include_str!("../../loadtest/lab/demo/conversation.jsonl");
const PLANTED: &str = include_str!("../../loadtest/lab/demo/planted.json");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Turn {
    role: String,
    name: String,
    content: String,
    time: String,
}

/// A fact that one turn of the conversation states. Turns are counted from 1, like lines of the
/// file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fact {
    question: String,
    answer: String,
    turn: usize,
}

fn turns() -> Vec<Turn> {
    CONVERSATION.lines().map(|line| serde_json::from_str(line).expect("a turn per line")).collect()
}

#[test]
fn two_speakers_take_turns_and_time_moves_on() {
    let turns = turns();
    assert!(turns.len() >= 320, "{} turns", turns.len());
    for (at, turn) in turns.iter().enumerate() {
        let expected = if at % 2 == 0 { ("user", "Imke") } else { ("assistant", "Mate") };
        assert_eq!((turn.role.as_str(), turn.name.as_str()), expected, "turn {}", at + 1);
        assert!(!turn.content.trim().is_empty(), "turn {}", at + 1);
    }
    let late = turns.windows(2).position(|pair| pair[0].time >= pair[1].time);
    assert_eq!(late, None, "time stands still");
}

#[test]
fn it_fills_a_small_window_many_times() {
    let counter = Tiktoken::default();
    let tokens: u64 = turns().iter().map(|turn| counter.count(&turn.content)).sum();
    assert!(tokens > 4 * 4096, "{tokens} tokens");
}

#[test]
fn no_turn_is_said_twice() {
    let mut contents: Vec<String> = turns().into_iter().map(|turn| turn.content).collect();
    let all = contents.len();
    contents.sort();
    contents.dedup();
    assert_eq!(contents.len(), all);
}

#[test]
fn a_planted_fact_is_said_early_and_never_again() {
    let turns = turns();
    let facts: Vec<Fact> = serde_json::from_str(PLANTED).expect("a list of facts");
    assert!(facts.len() >= 6, "{} facts", facts.len());
    for fact in facts {
        let answer = fact.answer.to_lowercase();
        let said = turns
            .iter()
            .enumerate()
            .filter(|(_, turn)| turn.content.to_lowercase().contains(&answer));
        let said: Vec<usize> = said.map(|(at, _)| at + 1).collect();
        assert_eq!(said, [fact.turn], "{}", fact.question);
        assert!(fact.turn <= 40 && fact.question.ends_with('?'), "{}", fact.question);
    }
}
