//! Draws the window over time as a picture (SVG): sections as stacked areas, the marks of the
//! window as lines, and each eviction as a marker.

use std::fmt::Write as _;

use vctx_core::window::Section;

use super::figures::Point;

/// Size of the picture in SVG units.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 300.0;
/// Width of the left margin, which contains the axis numbers.
const LEFT: f64 = 64.0;

/// Draws the points of a window over time; returns an empty string if there are no points.
pub(super) fn window(points: &[&Point]) -> String {
    let Some(top) = points.iter().map(|p| p.marks[3].max(p.occupancy())).max() else {
        return String::new();
    };
    let scale = Scale { points: points.len(), top: top.max(1) };
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"tokens of the window after each write\">"
    );
    let mut below = vec![0; points.len()];
    for (at, section) in Section::drawn().enumerate() {
        let above: Vec<u64> =
            points.iter().zip(&below).map(|(p, under)| under + p.sections[at]).collect();
        draw(&mut svg, &scale, section.name(), &below, &above);
        below = above;
    }
    for (at, name) in ["target", "warning", "flush", "window"].iter().enumerate() {
        let heights: Vec<u64> = points.iter().map(|p| p.marks[at]).collect();
        let path = line(&scale, &heights, false);
        let last = heights.last().copied().unwrap_or(0);
        let (x, y) = (LEFT - 6.0, scale.y(last) + 4.0);
        push(
            &mut svg,
            format_args!(
                "<path class=\"mark\" d=\"{path}\"/><text x=\"{x}\" y=\"{y:.1}\" text-anchor=\"end\">{name}</text>"
            ),
        );
    }
    for (at, point) in points.iter().enumerate().filter(|(_, p)| p.evicts) {
        let (x, y) = (scale.x(at), scale.y(point.occupancy()));
        push(
            &mut svg,
            format_args!(
                "<circle class=\"evicts\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"><title>eviction, {} tokens left, {}</title></circle>",
                point.occupancy(),
                point.ts
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
    top: u64,
}

impl Scale {
    fn x(&self, at: usize) -> f64 {
        LEFT + (WIDTH - LEFT) * at as f64 / (self.points.max(2) - 1) as f64
    }

    fn y(&self, tokens: u64) -> f64 {
        HEIGHT - (HEIGHT - 8.0) * tokens as f64 / self.top as f64
    }
}

fn draw(svg: &mut String, scale: &Scale, name: &str, below: &[u64], above: &[u64]) {
    let (top, bottom) = (line(scale, above, false), line(scale, below, true));
    let last = above.last().copied().unwrap_or(0) - below.last().copied().unwrap_or(0);
    push(
        svg,
        format_args!(
            "<path class=\"{name}\" d=\"{top} {bottom} Z\"><title>{name}: {last} tokens at the end</title></path>"
        ),
    );
}

/// Returns an SVG path segment through points of the given heights. With `backwards`, the segment
/// runs from right to left and continues another path.
fn line(scale: &Scale, heights: &[u64], backwards: bool) -> String {
    let place = |at: usize| format!("{:.1} {:.1}", scale.x(at), scale.y(heights[at]));
    let mut places: Vec<String> = (0..heights.len()).map(place).collect();
    if backwards {
        places.reverse();
    }
    format!("{}{}", if backwards { "L" } else { "M" }, places.join("L"))
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
            ts: "t".into(),
            sections: Section::drawn()
                .map(|s| if s == Section::Queue { fifo } else { 3 })
                .collect(),
            marks: [50, 70, 90, 100],
            evicts,
        };
        let points = [point(20, false), point(75, false), point(30, true)];
        let svg = window(&points.iter().collect::<Vec<_>>());
        for name in Section::drawn().map(Section::name) {
            assert!(svg.contains(&format!("<path class=\"{name}\"")), "{name}");
        }
        assert_eq!(svg.matches("class=\"mark\"").count(), 4);
        assert_eq!(svg.matches("class=\"evicts\"").count(), 1);
        assert!(!svg.contains("NaN") && svg.ends_with("</svg>"));
        assert!(window(&[]).is_empty());
        assert!(!window(&[&points[0]]).contains("NaN"));
    }
}
