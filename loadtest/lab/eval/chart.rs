//! Draws an SVG bar chart of a run: a bar for each share, a group of bars for each table.

use std::fmt::Write as _;

use super::report::Section;

/// Sizes of the picture and of its elements, in SVG units.
const WIDTH: f64 = 900.0;
const LEFT: f64 = 300.0;
const RIGHT: f64 = 60.0;
const ROW: f64 = 18.0;
const TITLE: f64 = 30.0;
/// Maximum number of bars of a group, so that the group stays readable.
const BARS_MAX: usize = 40;

const STYLE: &str = "text{font:12px sans-serif;fill:#222}.title{font-weight:bold}.bar{fill:#3b6ea5}.rest{fill:#e6e6e6}";

/// Draws the report sections that have bars.
pub(super) fn draw(sections: &[Section]) -> String {
    let drawn: Vec<&Section> = sections.iter().filter(|section| !section.bars.is_empty()).collect();
    let rows: usize = drawn.iter().map(|section| section.bars.len().min(BARS_MAX)).sum();
    let height = 10.0 + drawn.len() as f64 * TITLE + rows as f64 * ROW;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"shares in percent\"><style>{STYLE}</style>"
    );
    let mut y = 0.0;
    for section in drawn {
        y += TITLE;
        let title = escaped(&section.title);
        push(
            &mut svg,
            format_args!("<text class=\"title\" x=\"8\" y=\"{:.1}\">{title}</text>", y - 8.0),
        );
        for (name, share) in section.bars.iter().take(BARS_MAX) {
            bar(&mut svg, y, name, *share);
            y += ROW;
        }
    }
    svg.push_str("</svg>\n");
    svg
}

fn bar(svg: &mut String, y: f64, name: &str, share: f64) {
    let whole = WIDTH - LEFT - RIGHT;
    let width = whole * (share / 100.0).clamp(0.0, 1.0);
    let (text, top) = (y + ROW - 6.0, y + 3.0);
    let (height, end) = (ROW - 6.0, WIDTH - RIGHT + 6.0);
    push(
        svg,
        format_args!(
            "<text x=\"{:.1}\" y=\"{text:.1}\" text-anchor=\"end\">{}</text><rect class=\"rest\" x=\"{LEFT}\" y=\"{top:.1}\" width=\"{whole}\" height=\"{height}\"/>\
             <rect class=\"bar\" x=\"{LEFT}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height}\"/><text x=\"{end:.1}\" y=\"{text:.1}\">{share:.1}</text>",
            LEFT - 6.0,
            escaped(name)
        ),
    );
}

fn push(svg: &mut String, text: std::fmt::Arguments<'_>) {
    svg.write_fmt(text).expect("a String takes everything");
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_a_bar_for_each_share_and_stays_in_its_frame() {
        let section = |title: &str, bars: &[(&str, f64)]| Section {
            title: title.into(),
            heads: Vec::new(),
            rows: Vec::new(),
            notes: Vec::new(),
            bars: bars.iter().map(|(name, share)| ((*name).to_owned(), *share)).collect(),
        };
        let svg = draw(&[section("a < b", &[("one", 50.0), ("two", 140.0)]), section("none", &[])]);
        assert_eq!(svg.matches("class=\"bar\"").count(), 2);
        assert!(svg.contains("a &lt; b") && !svg.contains("none"));
        assert!(svg.contains("width=\"270.0\"") && svg.contains("width=\"540.0\""), "{svg}");
        assert!(svg.ends_with("</svg>\n"));
    }
}
