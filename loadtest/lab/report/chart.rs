//! Draws the window over time: sections as stacked areas, the marks of the window as lines, and
//! each eviction as a point.

use std::fmt::Write as _;

use vctx_core::window::Section;

use super::axis::Axis;
use super::figures::Point;
use super::html::{escaped, folded, minute, numbers, section_name, share, thousands};

/// Units of the picture, which is stretched to the width of the page.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 300.0;
/// Number of labels on the axis of writes.
const LABELS: usize = 5;
/// Maximum number of rows in the table of the picture.
const ROWS: usize = 20;
const MARKS: [&str; 4] = ["target", "warning", "flush", "window"];

/// Draws the window after writes, which have their numbers; returns an empty text without writes.
pub(super) fn window(points: &[(usize, &Point)]) -> String {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return String::new() };
    let most = points.iter().map(|(_, p)| p.marks[3].max(p.occupancy())).max().unwrap_or(0);
    let scale = Scale { points: points.len(), axis: Axis::to(most) };
    let about = format!(
        "Stacked areas, from write {} at {} to write {} at {}. At the end {} of {} tokens are in use. The table below has the numbers.",
        first.0 + 1,
        minute(&first.1.ts),
        last.0 + 1,
        minute(&last.1.ts),
        thousands(last.1.occupancy()),
        thousands(last.1.marks[3]),
    );
    format!(
        "<figure class=\"plot\"><p class=\"unit\">tokens</p><div class=\"y\" aria-hidden=\"true\">{}</div>{}<div class=\"marks\" aria-hidden=\"true\">{}</div>\
         <div class=\"x\" aria-hidden=\"true\">{}</div></figure>{}{}",
        scale.axis.labels("bottom"),
        svg(&scale, points, &about),
        marks(&scale, last.1),
        dates(points),
        legend(Section::drawn().map(Section::name)),
        folded("the same as a table", &as_table(points)),
    )
}

/// Returns the legend of sections, in the order in which they are stacked.
pub(super) fn legend<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let key = |name: &str| {
        let shown = section_name(name);
        format!("<span class=\"entry\"><span class=\"key {name}\"></span>{shown}</span>")
    };
    let keys: String = names.map(key).collect();
    format!(
        "<p class=\"legend\">{keys}<span class=\"entry\"><span class=\"key evicts\"></span>eviction</span></p>"
    )
}

fn svg(scale: &Scale, points: &[(usize, &Point)], about: &str) -> String {
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\" aria-labelledby=\"window-title window-about\">\
         <title id=\"window-title\">Tokens of the window after each write</title><desc id=\"window-about\">{}</desc>",
        escaped(about)
    );
    for value in scale.axis.ticks() {
        let y = scale.y(value);
        push(&mut svg, format_args!("<path class=\"grid\" d=\"M0 {y:.1}H{WIDTH}\"/>"));
    }
    let mut below = vec![0; points.len()];
    for (at, section) in Section::drawn().enumerate() {
        let above: Vec<u64> =
            points.iter().zip(&below).map(|((_, p), under)| under + p.sections[at]).collect();
        area(&mut svg, scale, section.name(), &below, &above);
        below = above;
    }
    for at in 0..MARKS.len() {
        let heights: Vec<u64> = points.iter().map(|(_, p)| p.marks[at]).collect();
        let path = line(scale, &heights, false);
        push(&mut svg, format_args!("<path class=\"mark\" d=\"{path}\"/>"));
    }
    for (at, (_, point)) in points.iter().enumerate().filter(|(_, (_, p))| p.evicts) {
        let (x, y) = (scale.x(at), scale.y(point.occupancy()));
        push(
            &mut svg,
            format_args!(
                "<path class=\"evicts\" d=\"M{x:.1} {y:.1}h0\"><title>eviction, {} tokens left, {}</title></path>",
                thousands(point.occupancy()),
                escaped(&point.ts)
            ),
        );
    }
    svg.push_str("</svg>");
    svg
}

/// Maps the index of a point to an x coordinate of the picture, and a token count to a y
/// coordinate.
struct Scale {
    points: usize,
    axis: Axis,
}

impl Scale {
    fn x(&self, at: usize) -> f64 {
        WIDTH * at as f64 / (self.points.max(2) - 1) as f64
    }

    fn y(&self, tokens: u64) -> f64 {
        HEIGHT - HEIGHT * self.axis.place(tokens) / 100.0
    }
}

fn area(svg: &mut String, scale: &Scale, name: &str, below: &[u64], above: &[u64]) {
    let (top, bottom) = (line(scale, above, false), line(scale, below, true));
    let last = above.last().copied().unwrap_or(0) - below.last().copied().unwrap_or(0);
    push(
        svg,
        format_args!(
            "<path class=\"{name}\" d=\"{top} {bottom} Z\"><title>{}: {} tokens at the end</title></path>",
            section_name(name),
            thousands(last)
        ),
    );
}

/// Returns an SVG path segment through points of the given heights. With `backwards`, the segment
/// runs from right to left and continues another path.
fn line(scale: &Scale, heights: &[u64], backwards: bool) -> String {
    let place = |at: usize| format!("{:.1} {:.1}", scale.x(at), scale.y(heights[at]));
    let mut places: Vec<String> = (0..heights.len()).map(place).collect();
    if let [only] = &places[..] {
        // A single write is drawn over the whole width.
        let (_, y) = only.split_once(' ').unwrap_or(("", "0"));
        places = vec![format!("0.0 {y}"), format!("{WIDTH:.1} {y}")];
    }
    if backwards {
        places.reverse();
    }
    format!("{}{}", if backwards { "L" } else { "M" }, places.join("L"))
}

/// Returns the names of the marks, next to the ends of their lines.
fn marks(scale: &Scale, last: &Point) -> String {
    let label = |(name, value): (&&str, &u64)| {
        format!("<span style=\"bottom:{:.2}%\">{name}</span>", scale.axis.place(*value))
    };
    MARKS.iter().zip(&last.marks).map(label).collect()
}

/// Returns the labels of some writes: number, date and time of each.
fn dates(points: &[(usize, &Point)]) -> String {
    let last = points.len() - 1;
    let mut places: Vec<usize> = (0..LABELS).map(|n| last * n / (LABELS - 1)).collect();
    places.dedup();
    let label = |at: &usize| {
        let (number, point) = points[*at];
        let minute = minute(&point.ts);
        let (day, time) = minute.split_once(' ').unwrap_or((&minute, ""));
        let place = share(*at as u64, last.max(1) as u64);
        let class = match *at {
            0 => " class=\"first\"",
            at if at == last => " class=\"last\"",
            at if at == last / 2 => "",
            _ => " class=\"minor\"",
        };
        format!(
            "<span{class} style=\"left:{place:.2}%\">write {}<br>{}<br>{}</span>",
            thousands(number as u64 + 1),
            escaped(day),
            escaped(time)
        )
    };
    places.iter().map(label).collect()
}

fn as_table(points: &[(usize, &Point)]) -> String {
    let last = points.len() - 1;
    let mut places: Vec<usize> = (0..ROWS).map(|n| last * n / (ROWS - 1)).collect();
    places.dedup();
    let row = |at: usize| {
        let (number, point) = points[at];
        let mut row = vec![thousands(number as u64 + 1), minute(&point.ts)];
        row.extend(point.sections.iter().map(|tokens| thousands(*tokens)));
        row.push(thousands(point.occupancy()));
        row
    };
    let rows: Vec<Vec<String>> = places.into_iter().map(row).collect();
    let mut heads = vec!["write", "when"];
    heads.extend(Section::drawn().map(|section| section_name(section.name())));
    heads.push("in use");
    numbers(&heads, &rows, "")
}

fn push(svg: &mut String, text: std::fmt::Arguments<'_>) {
    svg.write_fmt(text).expect("a String takes everything");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_every_section_every_mark_and_every_eviction() {
        let point = |fifo: u64, evicts: bool| Point {
            ts: "2026-01-31T12:00:00.000Z".into(),
            sections: Section::drawn()
                .map(|s| if s == Section::Queue { fifo } else { 3 })
                .collect(),
            marks: [50, 70, 90, 100],
            evicts,
        };
        let points = [point(20, false), point(75, false), point(30, true)];
        let svg = window(&points.iter().enumerate().collect::<Vec<_>>());
        for name in Section::drawn().map(Section::name) {
            assert!(svg.contains(&format!("<path class=\"{name}\"")), "{name}");
        }
        assert_eq!(svg.matches("class=\"mark\"").count(), 4);
        assert_eq!(svg.matches("<path class=\"evicts\"").count(), 1);
        for part in ["<title id=", "<desc id=", ">write 2<br>2026-01-31<br>12:00<", "<table"] {
            assert!(svg.contains(part), "{part} in {svg}");
        }
        assert!(!svg.contains("NaN"));
        assert!(window(&[]).is_empty());
        assert!(!window(&[(0, &points[0])]).contains("NaN"));
    }
}
