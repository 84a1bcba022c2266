//! A plot of GB/s over N.

use std::collections::BTreeSet;
use std::error::Error;
use std::path::Path;

use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::register_font;

use crate::results::{Direction, GROUP_LOCKS, LIMIT, OWN, Results, SEED, Times, is_limit};

const SIZE: (u32, u32) = (1600, 900);
const LEGEND_WIDTH: u32 = 320;

/// Of the peers, in turn.
const COLOURS: [RGBColor; 9] = [
    RGBColor(31, 119, 180),
    RGBColor(44, 160, 44),
    RGBColor(148, 103, 189),
    RGBColor(255, 150, 30),
    RGBColor(23, 180, 200),
    RGBColor(140, 86, 75),
    RGBColor(227, 119, 194),
    RGBColor(150, 160, 30),
    RGBColor(30, 50, 120),
];

struct Line {
    name: String,
    style: ShapeStyle,
    dashed: bool,
    /// N and GB/s.
    points: Vec<(usize, f64)>,
}

/// Draws `direction` to a PNG file.
pub fn draw(results: &Results, direction: Direction, path: &Path) -> Result<(), Box<dyn Error>> {
    let font = epaint_default_fonts::UBUNTU_LIGHT;
    register_font("sans-serif", FontStyle::Normal, font).map_err(|_| "the font is refused")?;
    let lines = lines(results, direction);
    let points = || lines.iter().flat_map(|line| &line.points);
    let right = points().map(|(columns, _)| *columns).max().unwrap_or(1);
    let top = points().map(|(_, rate)| *rate).fold(0.0, f64::max) * 1.06;

    let root = BitMapBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let (area, legend) = root.split_horizontally(SIZE.0 - LEGEND_WIDTH);
    let Results { dtype, rows, gpu, .. } = results;
    let title = format!("LayerNorm {}, {dtype}, M = {rows}, {gpu}", direction.name());
    let ticks = (0..=right).step_by((right / 8).next_power_of_two()).collect();
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 36))
        .margin(24)
        .x_label_area_size(64)
        .y_label_area_size(96)
        .build_cartesian_2d((0..right + right / 50).with_key_points(ticks), 0.0..top)?;
    chart
        .configure_mesh()
        .x_desc("N")
        .y_desc("GB/s")
        .y_label_formatter(&|rate| (*rate as f32).to_string())
        .label_style(("sans-serif", 24))
        .axis_desc_style(("sans-serif", 28))
        .light_line_style(TRANSPARENT)
        .draw()?;
    // The first line lies on top.
    for Line { style, dashed, points, .. } in lines.iter().rev() {
        let points = points.iter().copied();
        if *dashed {
            chart.draw_series(DashedLineSeries::new(points, 12, 8, *style))?;
        } else {
            let size = style.stroke_width + 1;
            chart.draw_series(LineSeries::new(points, *style).point_size(size))?;
        }
    }
    for (i, Line { name, style, dashed, .. }) in lines.iter().enumerate() {
        let y = 96 + 36 * i as i32;
        let sample = [(0, y), (56, y)];
        if *dashed {
            legend.draw(&DashedPathElement::new(sample, 12, 8, *style))?;
        } else {
            legend.draw(&PathElement::new(sample, *style))?;
        }
        legend.draw(&Text::new(name.clone(), (70, y - 8), ("sans-serif", 26)))?;
    }
    root.present()?;
    Ok(())
}

/// The lines: ours, then the others from the highest end to the lowest.
fn lines(results: &Results, direction: Direction) -> Vec<Line> {
    let times = results.times(direction);
    // Of both directions, so that a name has one colour.
    let all = Direction::BOTH.into_iter().flat_map(|direction| results.times(direction).values());
    let names: BTreeSet<&String> = all.flat_map(Times::keys).collect();
    let mut colours = COLOURS.iter().cycle();
    let line = |name: &String| {
        let dashed = is_limit(name);
        let (colour, width) = match name.as_str() {
            OWN => (RGBColor(214, 30, 40), 6),
            GROUP_LOCKS => (RGBColor(240, 140, 130), 3),
            SEED => (RGBColor(250, 190, 180), 3),
            LIMIT => (RGBColor(90, 90, 90), 3),
            _ if dashed => (RGBColor(160, 160, 160), 3),
            _ => (*colours.next().unwrap_or(&BLACK), 3),
        };
        let point = |(columns, times): (&usize, &Times)| {
            let us = times.get(name).copied().flatten()?;
            Some((*columns, results.gb_per_s(direction, *columns, us)))
        };
        let points = times.iter().filter_map(point).collect();
        Line { name: name.clone(), style: colour.filled().stroke_width(width), dashed, points }
    };
    let mut lines: Vec<Line> = names.into_iter().map(line).collect();
    lines.retain(|line| !line.points.is_empty());
    let end = |line: &Line| line.points.last().map_or(0.0, |(_, rate)| *rate);
    lines.sort_by(|a, b| (b.name == OWN).cmp(&(a.name == OWN)).then(end(b).total_cmp(&end(a))));
    lines
}
