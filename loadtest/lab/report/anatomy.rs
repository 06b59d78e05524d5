//! Draws the anatomy of prompts: one bar for each prompt, divided by the sections of the window,
//! with the marks of the window, and what the prompts cost.

use std::fmt::Write as _;

use vctx_core::window::Section;

use super::axis::Axis;
use super::chart::legend;
use super::html::{
    escaped, folded, minute, note, numbers, percent, section, section_name, share, thousands,
};
use super::turns::Turn;

/// Number of tokens for which a price is given.
const PRICED_TOKENS: f64 = 1e6;

/// Returns the section of the page. `price` is in US dollars for a million tokens of prompts.
pub(super) fn section_of(turns: &[Turn], price: Option<f64>) -> String {
    let Some(last) = turns.last() else {
        return section(
            "Prompt anatomy",
            &note(
                "No prompt is on record: the server has run no model, and no runtime has recorded a prompt.",
            ),
        );
    };
    let most = turns.iter().map(|turn| turn.total().max(turn.marks[2])).max().unwrap_or(1);
    let axis = Axis::to(most);
    let bars: String = turns.iter().map(|turn| bar(turn, axis)).collect();
    let body = format!(
        "{}<figure class=\"turns\"><p class=\"unit\">tokens</p><div class=\"x\" aria-hidden=\"true\">{}</div>{bars}\
         <div class=\"x\" aria-hidden=\"true\">{}</div></figure>{}{}{}{}",
        note(&about(turns, last)),
        axis.labels("left"),
        axis.labels("left"),
        keys(),
        costs(turns, price),
        folded("each prompt as a table", &as_table(turns)),
        folded("what changed since the prompt before", &changes(turns)),
    );
    section("Prompt anatomy", &body)
}

fn about(turns: &[Turn], last: &Turn) -> String {
    let kept: u64 = turns.iter().filter_map(|turn| turn.kept).sum();
    let compared: u64 = turns.iter().filter(|turn| turn.kept.is_some()).map(Turn::total).sum();
    let held = match compared {
        0 => String::new(),
        _ => format!(
            " {} of their tokens begin the prompt as in the prompt before: a provider's prompt cache can hold them.",
            percent(kept, compared)
        ),
    };
    format!(
        "{} prompts, by the server's count; the newest has {} of {} tokens.{held}",
        turns.len(),
        thousands(last.total()),
        thousands(last.marks[2])
    )
}

fn keys() -> String {
    let keys = legend(Section::drawn().map(Section::name));
    // The picture has no evictions, but two more signs.
    let end = keys.rfind("<span class=\"entry\">").unwrap_or(0);
    format!(
        "{}<span class=\"entry\"><span class=\"key kept\"></span>same beginning as the prompt before</span>\
         <span class=\"entry\"><span class=\"key line\"></span>warning and flush mark</span></p>",
        &keys[..end]
    )
}

/// Draws the bar of one prompt.
fn bar(turn: &Turn, axis: Axis) -> String {
    let names = || Section::drawn().map(Section::name);
    let mut told = Vec::new();
    let (mut shapes, mut x) = (String::new(), 0.0);
    for (name, tokens) in names().zip(&turn.sections).filter(|(_, tokens)| **tokens > 0) {
        let width = share(*tokens, axis.top) * 10.0;
        let text = format!(
            "{} {} ({})",
            section_name(name),
            thousands(*tokens),
            percent(*tokens, turn.total())
        );
        write!(
            shapes,
            "<rect class=\"{name}\" x=\"{x:.2}\" y=\"0\" width=\"{width:.2}\" height=\"18\"><title>{text}</title></rect>"
        )
        .expect("a String");
        x += width;
        told.push(text);
    }
    for mark in &turn.marks[..2] {
        let x = axis.place(*mark) * 10.0;
        write!(shapes, "<path class=\"mark\" d=\"M{x:.2} 0V32\"/>").expect("a String");
    }
    if let Some(kept) = turn.kept.filter(|kept| *kept > 0) {
        let width = share(kept, axis.top) * 10.0;
        write!(
            shapes,
            "<rect class=\"kept\" x=\"0\" y=\"20\" width=\"{width:.2}\" height=\"5\"><title>{} tokens begin as in the prompt before</title></rect>",
            thousands(kept)
        )
        .expect("a String");
    }
    let title = format!("Prompt {}: {} tokens", turn.number, thousands(turn.total()));
    let partial = if turn.is_partial { " (partly removed)" } else { "" };
    format!(
        "<div class=\"turn\"><span>{}</span><svg viewBox=\"0 0 1000 32\" preserveAspectRatio=\"none\" role=\"img\" aria-labelledby=\"turn-{n}\">\
         <title id=\"turn-{n}\">{}</title><desc>{}</desc>{shapes}</svg><span>{}{partial}</span></div>",
        turn.number,
        escaped(&title),
        escaped(&told.join(", ")),
        thousands(turn.total()),
        n = turn.number,
    )
}

/// Returns what the prompts cost by section: tokens, shares, and money if there is a price.
fn costs(turns: &[Turn], price: Option<f64>) -> String {
    let all: u64 = turns.iter().map(Turn::total).sum();
    let row = |name: String, tokens: u64| {
        let mut row = vec![
            name,
            thousands(tokens),
            percent(tokens, all),
            thousands(tokens / turns.len() as u64),
        ];
        row.extend(price.map(|price| money(tokens, price)));
        row
    };
    let mut rows: Vec<Vec<String>> = Section::drawn()
        .map(Section::name)
        .enumerate()
        .map(|(at, name)| (name, turns.iter().map(|turn| turn.sections[at]).sum::<u64>()))
        .filter(|(_, tokens)| *tokens > 0)
        .map(|(name, tokens)| row(section_name(name).to_owned(), tokens))
        .collect();
    rows.push(row("all".into(), all));
    let mut heads = vec!["section", "tokens", "share", "mean per prompt"];
    heads.extend(price.map(|_| "US$"));
    let counted: Vec<(u64, u64)> = turns.iter().filter_map(|turn| turn.counted).collect();
    let prompts: u64 = counted.iter().map(|(prompt, _)| prompt).sum();
    let answers: u64 = counted.iter().map(|(_, answer)| answer).sum();
    let provider = match counted.len() {
        0 => "No provider has reported its own count for these prompts.".to_owned(),
        count => format!(
            "The provider counted {} tokens for {count} of these prompts{}, and {} for the answers.",
            thousands(prompts),
            price.map(|price| format!(" (US$ {})", money(prompts, price))).unwrap_or_default(),
            thousands(answers)
        ),
    };
    let priced = match price {
        Some(price) => format!(
            "Prices: US$ {price} for a million tokens of prompts, as given; without answers, and without a discount for cached tokens."
        ),
        None => "No price: --price-in gives one.".to_owned(),
    };
    format!(
        "<h3>Cost of the prompts above, by section</h3>{}{}",
        numbers(&heads, &rows, ""),
        note(&format!("{provider} {priced}"))
    )
}

/// Returns an amount in US dollars, with enough digits for a small one.
fn money(tokens: u64, price: f64) -> String {
    let amount = tokens as f64 * price / PRICED_TOKENS;
    if amount >= 1.0 || amount == 0.0 { format!("{amount:.2}") } else { format!("{amount:.6}") }
}

fn as_table(turns: &[Turn]) -> String {
    let named = turns.iter().any(|turn| !turn.model.is_empty());
    let row = |turn: &Turn| {
        let mut row = vec![turn.number.to_string(), minute(&turn.at)];
        row.extend(turn.sections.iter().map(|tokens| thousands(*tokens)));
        row.push(thousands(turn.total()));
        row.push(turn.counted.map_or(String::new(), |(prompt, _)| thousands(prompt)));
        row.push(match turn.finish.as_str() {
            "" => "waits".to_owned(),
            finish => finish.to_owned(),
        });
        row.extend(named.then(|| turn.model.clone()));
        row
    };
    let rows: Vec<Vec<String>> = turns.iter().map(row).collect();
    let mut heads = vec!["prompt", "when"];
    heads.extend(Section::drawn().map(|section| section_name(section.name())));
    heads.extend(["all", "provider's count", "ended by"]);
    heads.extend(named.then_some("model"));
    numbers(&heads, &rows, "")
}

fn changes(turns: &[Turn]) -> String {
    let row = |turn: &Turn| {
        let kept = turn.kept?;
        let (came, left) = turn.moved.unwrap_or_default();
        Some(vec![
            turn.number.to_string(),
            turn.cause_seq.to_string(),
            thousands(kept),
            percent(kept, turn.total()),
            thousands(turn.total().saturating_sub(kept)),
            came.to_string(),
            left.to_string(),
        ])
    };
    let rows: Vec<Vec<String>> = turns.iter().filter_map(row).collect();
    let heads = [
        "prompt",
        "run began at seq",
        "same beginning",
        "share",
        "after it",
        "messages that came",
        "that left",
    ];
    numbers(&heads, &rows, "There is no prompt before.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(number: u64, kept: Option<u64>) -> Turn {
        Turn {
            number,
            at: "2026-01-31T12:00:00.000Z".into(),
            sections: Section::drawn().map(|_| 10).collect(),
            marks: [700, 900, 1_000],
            kept,
            moved: kept.map(|_| (2, 1)),
            counted: kept.map(|kept| (kept * 2, 7)),
            ..Turn::default()
        }
    }

    #[test]
    fn money_is_shown_only_with_a_price() {
        let turns = [turn(1, None), turn(2, Some(30))];
        let plain = section_of(&turns, None);
        assert!(!plain.contains("US$") && plain.contains("--price-in"));
        let sections = Section::drawn().count() as u64;
        for shown in [
            format!("<td>all</td><td>{}</td>", 20 * sections),
            "The provider counted 60 tokens for 1 of these prompts, and 7 for the answers.".into(),
            format!("Prompt 2: {} tokens", 10 * sections),
            "<rect class=\"kept\"".into(),
            format!("<td>30</td><td>{}</td>", percent(30, 10 * sections)),
        ] {
            assert!(plain.contains(&shown), "{shown} in {plain}");
        }
        assert_eq!(plain.matches("class=\"mark\"").count(), 4);
        let priced = section_of(&turns, Some(2.5));
        let due = format!("<td>{:.6}</td>", 20.0 * sections as f64 * 2.5 / 1e6);
        assert!(priced.contains(&due) && priced.contains("US$ 2.5 for a million"), "{priced}");
        assert!(section_of(&[], None).contains("No prompt is on record"));
        assert!(!plain.contains("NaN"));
    }
}
