//! Draws the memory map: one rectangle whose parts are proportional to the tokens in each store,
//! and a table with the numbers, in which texts can be opened.

use std::fmt::Write as _;

use serde_json::Value;

use super::html::{
    counted, escaped, folded, head, note, percent, scrolled, section, section_name, share,
    thousands,
};
use super::stores::{Part, Store};
use super::treemap::{Rect, divided};
use vctx_cli::output::{list, number};
use vctx_core::window::Section;

/// Maximum number of parts of a store that are drawn and listed; the others are drawn as one.
const PARTS_MAX: usize = 40;
/// Sizes for which the picture is laid out: for wide windows, and for phones.
const LAYOUTS: [(&str, f64, f64); 2] = [("on-wide", 960.0, 420.0), ("on-narrow", 330.0, 460.0)];
/// Smallest share of the picture that has a label, in percent.
const LABEL_SHARE_MIN: f64 = 0.4;

/// Returns the section of the page.
pub(super) fn section_of(stores: &[Store], state: &Value) -> String {
    let stores: Vec<Store> = stores.iter().map(bounded).collect();
    let total: u64 = stores.iter().map(Store::tokens).sum();
    if total == 0 {
        return section("Memory map", &note("The memory is empty."));
    }
    let pictures: String = LAYOUTS.map(|layout| picture(&stores, total, layout)).concat();
    let body = format!(
        "{}{}<figure class=\"treemap\">{pictures}</figure>{}{}",
        fills(state),
        note(&format!(
            "Areas are proportional to tokens: {} in all. Each part leads to its row in the table.",
            thousands(total)
        )),
        legend(&stores),
        rows(&stores, total),
    );
    section("Memory map", &body)
}

/// Returns a store with at most [`PARTS_MAX`] parts; the last one stands for all others.
fn bounded(store: &Store) -> Store {
    let mut store = store.clone();
    if store.parts.len() > PARTS_MAX {
        let others = store.parts.split_off(PARTS_MAX - 1);
        store.parts.push(Part {
            name: counted(others.len() as u64, "smaller part"),
            tokens: others.iter().map(|part| part.tokens).sum(),
            about: "listed together".into(),
            texts: Vec::new(),
        });
    }
    store
}

fn legend(stores: &[Store]) -> String {
    let entry = |store: &Store| {
        format!(
            "<span class=\"entry\"><span class=\"key {}\"></span>{}</span>",
            store.class, store.name
        )
    };
    format!("<p class=\"legend\">{}</p>", stores.iter().map(entry).collect::<String>())
}

/// Returns the id of a part's row.
fn id_of(store: usize, part: usize) -> String {
    format!("part-{store}-{part}")
}

fn picture(stores: &[Store], total: u64, (class, w, h): (&str, f64, f64)) -> String {
    let mut order: Vec<usize> = (0..stores.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(stores[*at].tokens()));
    let sizes: Vec<u64> = order.iter().map(|at| stores[*at].tokens()).collect();
    let about: Vec<String> = stores
        .iter()
        .map(|store| {
            format!(
                "{}: {} tokens ({})",
                store.name,
                thousands(store.tokens()),
                percent(store.tokens(), total)
            )
        })
        .collect();
    let mut shapes = format!(
        "<title id=\"{class}-title\">Memory map</title><desc id=\"{class}-about\">{}. The table below has every part.</desc>",
        escaped(&about.join(", "))
    );
    let mut links = String::new();
    for (at, within) in order.iter().zip(divided(&sizes, Rect { x: 0.0, y: 0.0, w, h })) {
        let store = &stores[*at];
        // The part that stands for all others may be the largest.
        let mut numbers: Vec<usize> = (0..store.parts.len()).collect();
        numbers.sort_by_key(|number| std::cmp::Reverse(store.parts[*number].tokens));
        let tokens: Vec<u64> = numbers.iter().map(|number| store.parts[*number].tokens).collect();
        for (number, rect) in numbers.into_iter().zip(divided(&tokens, within)) {
            let place = [
                share_of(rect.x, w),
                share_of(rect.y, h),
                share_of(rect.w, w),
                share_of(rect.h, h),
            ];
            draw(&mut shapes, &mut links, store, (&id_of(*at, number), number, total), place);
        }
        let [x, y, w, h] = [
            share_of(within.x, w),
            share_of(within.y, h),
            share_of(within.w, w),
            share_of(within.h, h),
        ];
        write!(shapes, "<rect class=\"border\" x=\"{x:.3}%\" y=\"{y:.3}%\" width=\"{w:.3}%\" height=\"{h:.3}%\"/>")
            .expect("a String");
    }
    format!(
        "<div class=\"{class}\"><svg role=\"img\" aria-labelledby=\"{class}-title {class}-about\">{shapes}</svg>{links}</div>"
    )
}

fn share_of(part: f64, whole: f64) -> f64 {
    part / whole * 100.0
}

/// Draws one part and, if it is large enough, a link with its name to its row.
fn draw(
    shapes: &mut String,
    links: &mut String,
    store: &Store,
    (id, number, total): (&str, usize, u64),
    [x, y, w, h]: [f64; 4],
) {
    let part = &store.parts[number];
    let about = format!(
        "{}: {}, {} tokens, {}",
        store.name,
        part.name,
        thousands(part.tokens),
        percent(part.tokens, total)
    );
    let about = escaped(&about);
    write!(
        shapes,
        "<rect class=\"area {}\" x=\"{x:.3}%\" y=\"{y:.3}%\" width=\"{w:.3}%\" height=\"{h:.3}%\"><title>{about}</title></rect>",
        store.class
    )
    .expect("a String");
    if share(part.tokens, total) >= LABEL_SHARE_MIN {
        write!(
            links,
            "<a href=\"#{id}\" title=\"{about}\" style=\"left:{x:.3}%;top:{y:.3}%;width:{w:.3}%;height:{h:.3}%\"><b>{}</b><span>{}</span></a>",
            escaped(&part.name),
            thousands(part.tokens)
        )
        .expect("a String");
    }
}

/// Returns the table of all parts. A part with texts has a second row, in which they open.
fn rows(stores: &[Store], total: u64) -> String {
    let mut body = String::new();
    for (at, store) in stores.iter().enumerate() {
        write!(
            body,
            "<tbody><tr><th scope=\"row\"><span class=\"key {}\"></span>{}</th><td>{}</td><td>{}</td><td>{}</td></tr>",
            store.class,
            store.name,
            thousands(store.tokens()),
            percent(store.tokens(), total),
            escaped(&store.about)
        )
        .expect("a String");
        for (number, part) in store.parts.iter().enumerate() {
            write!(
                body,
                "<tr><td><span id=\"{}\">{}</span></td><td>{}</td><td>{}</td><td>{}</td></tr>{}",
                id_of(at, number),
                escaped(&part.name),
                thousands(part.tokens),
                percent(part.tokens, total),
                escaped(&part.about),
                texts(part)
            )
            .expect("a String");
        }
        body.push_str("</tbody>");
    }
    let heads = head(&["store", "tokens", "share", "about"]);
    scrolled("memory map", &format!("<table class=\"parts\"><thead>{heads}</thead>{body}</table>"))
}

fn texts(part: &Part) -> String {
    if part.texts.is_empty() {
        return String::new();
    }
    let text = |text: &super::texts::Text| {
        let about = match text.about == part.name {
            true => String::new(),
            false => note(&text.about),
        };
        format!("{about}<div class=\"text\" dir=\"auto\">{}</div>", escaped(&text.text))
    };
    let all: String = part.texts.iter().map(text).collect();
    let title = match part.texts.len() {
        1 => format!("text of {}", part.name),
        count => format!("{count} texts of {}", part.name),
    };
    format!("<tr class=\"open\"><td colspan=\"4\">{}</td></tr>", folded(&title, &all))
}

/// Draws how full the window and its parts with a limit are.
fn fills(state: &Value) -> String {
    let of = |pointer: &str| number(state, pointer);
    let blocks = list(state, "/blocks");
    let pinned = blocks.iter().filter(|block| block["pinned"] == true);
    let pinned = pinned.map(|block| number(block, "/token_estimate")).sum();
    let window = of("/context_window");
    let flush = format!("flush at {}", thousands(of("/token_budget/flush")));
    let row = |name: &str, part: u64, whole: u64, about: &str| {
        format!(
            "<tr><th scope=\"row\">{name}</th><td><span class=\"bar\"><span style=\"width:{:.1}%\"></span></span></td><td>{} tokens, {} {about}</td></tr>",
            share(part.min(whole), whole),
            thousands(part),
            percent(part, whole)
        )
    };
    let quarter = window / 4;
    // The server lets pinned blocks take a quarter of the window.
    let mut rows = vec![
        row(
            "window in use",
            of("/tokens/occupancy"),
            window,
            &format!("of {}, {flush}", thousands(window)),
        ),
        row("pinned blocks", pinned, quarter, &format!("of {}, a quarter", thousands(quarter))),
    ];
    for name in Section::drawn().map(Section::name) {
        let tokens = of(&format!("/tokens/{name}"));
        if tokens > 0 {
            rows.push(row(section_name(name), tokens, window, "of the window"));
        }
    }
    format!("<table class=\"fills\">{}</table>", rows.concat())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::texts::Text;
    use super::*;

    fn part(name: &str, tokens: u64, text: &str) -> Part {
        let about = || "about".to_owned();
        let texts = (!text.is_empty()).then(|| Text { about: about(), text: text.into() });
        Part { name: name.into(), tokens, about: about(), texts: texts.into_iter().collect() }
    }

    #[test]
    fn a_map_escapes_names_and_texts_and_bounds_its_parts() {
        let many = (0..100).map(|n| part(&format!("<{n}>"), 200 - n, "")).collect();
        let stores = [
            Store {
                name: "Core memory",
                class: "working",
                parts: vec![part("a<b", 500, "<i>&")],
                about: String::new(),
            },
            Store { name: "Archive", class: "archive", parts: many, about: "x<y".into() },
            Store { name: "Queue", class: "fifo", parts: Vec::new(), about: String::new() },
        ];
        let state = json!({"context_window": 100, "tokens": {"occupancy": 40}, "token_budget": {"flush": 90},
            "blocks": [{"pinned": true, "token_estimate": 5}, {"pinned": false, "token_estimate": 7}]});
        let html = section_of(&stores, &state);
        for shown in [
            "a&lt;b",
            "&lt;i&gt;&amp;",
            "x&lt;y",
            "61 smaller parts",
            "<title id=",
            "<desc id=",
            "href=\"#part-0-0\"",
            "id=\"part-0-0\"",
            "40 tokens, 40.0\u{a0}% of 100, flush at 90",
            "5 tokens, 20.0\u{a0}% of 25, a quarter",
        ] {
            assert!(html.contains(shown), "{shown} in {html}");
        }
        assert_eq!(html.matches("class=\"area archive\"").count(), LAYOUTS.len() * PARTS_MAX);
        assert!(!html.contains("<i>") && !html.contains("NaN"));
        assert!(section_of(&[], &state).contains("The memory is empty."));
    }
}
