use std::fmt::{self, Write};

use crate::Escaped;

/// Colours of curves, readable on light and dark backgrounds.
pub const COLOURS: [&str; 6] = ["var(--mark)", "#d9822b", "#2a9d6f", "#b23a8e", "#7a6ff0", "#8a8f98"];

/// Space for labels at the left and below.
const MARGIN: f64 = 56.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 16.0;

/// A plot as SVG. A point is given by its shares of the width and height, from 0 at the left and the bottom to 1.
pub struct Plot {
    width: f64,
    height: f64,
    content: String,
}

impl Plot {
    pub fn new(width: f64, height: f64) -> Self {
        Self { width, height, content: String::new() }
    }

    fn x(&self, share: f64) -> f64 {
        MARGIN + share * (self.width - MARGIN - RIGHT)
    }

    fn y(&self, share: f64) -> f64 {
        let bottom = self.height - MARGIN;
        bottom - share * (bottom - TOP)
    }

    /// A horizontal line with a label at its left.
    pub fn line(&mut self, y: f64, label: &str) {
        let (at, width) = (self.y(y), self.width);
        self.write(format_args!(r#"<path class="axis" d="M{MARGIN} {at:.1}H{width}"/>"#));
        self.text(MARGIN - 4.0, at + 4.0, "end", label);
    }

    /// A label below the plot.
    pub fn below(&mut self, x: f64, label: &str) {
        self.text(self.x(x), self.height - MARGIN + 16.0, "middle", label);
    }

    pub fn curve(&mut self, points: impl IntoIterator<Item = (f64, f64)>, colour: &str) {
        let points: Vec<_> = points.into_iter().map(|(x, y)| format!("{:.1},{:.1}", self.x(x), self.y(y))).collect();
        let points = points.join(" ");
        self.write(format_args!(r#"<polyline class="curve" points="{points}" style="stroke:{colour}"/>"#));
    }

    /// The name of the nth curve, in its colour.
    pub fn legend(&mut self, n: usize, name: &str, colour: &str) {
        let (x, y, name) = (MARGIN + 110.0 * n as f64, self.height - 8.0, Escaped(name));
        self.write(format_args!(r#"<text x="{x}" y="{y}" style="fill:{colour}">{name}</text>"#));
    }

    /// A bar from the bottom.
    pub fn bar(&mut self, x: f64, width: f64, y: f64, colour: &str) {
        let (left, top) = (self.x(x), self.y(y));
        let (width, height) = (self.x(x + width) - left, self.y(0.0) - top);
        self.write(format_args!(
            r#"<rect x="{left:.1}" y="{top:.1}" width="{width:.1}" height="{height:.1}" style="fill:{colour}"/>"#
        ));
    }

    /// The nth mark: a vertical line with a short label, and its full name as a tooltip.
    pub fn mark(&mut self, n: usize, x: f64, label: &str, name: &str) {
        let (at, bottom, name) = (self.x(x), self.height - MARGIN, Escaped(name));
        self.write(format_args!(r#"<path class="end" d="M{at:.1} {TOP}V{bottom}"><title>{name}</title></path>"#));
        self.text(at + 3.0, 26.0 + 13.0 * n as f64, "start", label);
    }

    /// The plot, with a description for readers that cannot see it.
    pub fn finish(self, description: &str) -> String {
        let Self { width, height, content } = self;
        let description = Escaped(description);
        format!(r#"<svg viewBox="0 0 {width} {height}" role="img" aria-label="{description}">{content}</svg>"#)
    }

    fn text(&mut self, x: f64, y: f64, anchor: &str, text: &str) {
        let text = Escaped(text);
        self.write(format_args!(r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{text}</text>"#));
    }

    fn write(&mut self, element: fmt::Arguments<'_>) {
        self.content.write_fmt(element).expect("a string takes any text");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_mapped_to_the_area_inside_the_labels() {
        let mut plot = Plot::new(640.0, 240.0);
        plot.curve([(0.0, 0.0), (1.0, 1.0)], COLOURS[0]);
        plot.bar(0.0, 0.5, 0.5, COLOURS[1]);
        let svg = plot.finish("a < b");
        assert!(svg.contains(r#"points="56.0,184.0 616.0,16.0""#), "{svg}");
        assert!(svg.contains(r#"<rect x="56.0" y="100.0" width="280.0" height="84.0""#), "{svg}");
        assert!(svg.contains(r#"aria-label="a &lt; b""#), "{svg}");
    }
}
