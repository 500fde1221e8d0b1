//! A line chart as SVG.

use maud::{Markup, html};

use super::scale::{Axis, Scale};

/// Room around the plot: left for numbers, below for the axis.
const LEFT: f64 = 52.0;
const RIGHT: f64 = 26.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = 24.0;
/// Colours there are, in the style sheet.
const COLOURS: usize = 8;

/// A chart.
pub struct Chart<'a> {
    /// Above it.
    pub title: &'a str,
    /// Of the numbers to the left.
    pub unit: &'a str,
    /// Its lines.
    pub lines: Vec<Line>,
}

/// A line.
pub struct Line {
    /// In the legend.
    pub name: String,
    /// Its points, from left to right.
    pub points: Vec<(f64, f64)>,
}

/// A chart's width and height.
#[derive(Clone, Copy)]
struct Size(f64, f64);

impl Chart<'_> {
    /// One of several in a row.
    #[must_use]
    pub fn narrow(&self, x: Scale, y: Scale) -> Markup {
        self.draw(Size(460.0, 200.0), x, y)
    }

    /// One with a row for itself.
    #[must_use]
    pub fn wide(&self, x: Scale, y: Scale) -> Markup {
        self.draw(Size(940.0, 340.0), x, y)
    }

    fn draw(&self, size: Size, x: Scale, y: Scale) -> Markup {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let x = Axis::around(x, points().map(|point| point.0));
        let y = Axis::around(y, points().map(|point| point.1));
        let unit = if self.unit.is_empty() { String::new() } else { format!(" ({})", self.unit) };
        html! {
            figure {
                figcaption { (self.title) (unit) }
                svg viewBox={ "0 0 " (size.0) " " (size.1) } role="img" aria-label=(self.title) {
                    (grid(size, x, y))
                    @for (index, line) in self.lines.iter().enumerate() { (draw_line(size, x, y, index, line)) }
                }
                @if self.lines.len() > 1 {
                    ul.legend {
                        @for (index, line) in self.lines.iter().enumerate() {
                            li class={ "c" (index % COLOURS) } { (line.name) }
                        }
                    }
                }
            }
        }
    }
}

fn across(size: Size, place: f64) -> f64 {
    LEFT + place * (size.0 - LEFT - RIGHT)
}

fn down(size: Size, place: f64) -> f64 {
    TOP + (1.0 - place) * (size.1 - TOP - BOTTOM)
}

fn grid(size: Size, x: Axis, y: Axis) -> Markup {
    let (left, right, bottom) = (across(size, 0.0), across(size, 1.0), down(size, 0.0));
    html! {
        @for (place, text) in y.marks() {
            @let at = down(size, place);
            line.grid x1=(short(left)) x2=(short(right)) y1=(short(at)) y2=(short(at)) {}
            text.y x=(short(left - 6.0)) y=(short(at + 4.0)) { (text) }
        }
        @for (place, text) in x.marks() {
            @let at = across(size, place);
            line.grid x1=(short(at)) x2=(short(at)) y1=(short(down(size, 1.0))) y2=(short(bottom)) {}
            text.x x=(short(at)) y=(short(bottom + 16.0)) { (text) }
        }
    }
}

fn draw_line(size: Size, x: Axis, y: Axis, index: usize, line: &Line) -> Markup {
    let class = format!("c{}", index % COLOURS);
    let place = |point: &(f64, f64)| (across(size, x.place(point.0)), down(size, y.place(point.1)));
    let path: String = line.points.iter().enumerate().fold(String::new(), |path, (index, point)| {
        let (across, down) = place(point);
        let letter = if index == 0 { 'M' } else { 'L' };
        path + &format!("{letter}{} {}", short(across), short(down))
    });
    html! {
        @if let [only] = line.points.as_slice() {
            @let (across, down) = place(only);
            circle class=(class) cx=(short(across)) cy=(short(down)) r="3" {}
        } @else {
            path class=(class) d=(path) {}
        }
    }
}

/// A tenth of a pixel is enough.
fn short(value: f64) -> String {
    format!("{value:.1}")
}
