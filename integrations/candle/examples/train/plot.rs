//! A plot of the loss over the batches.

use std::error::Error;
use std::path::Path;

use plotters::prelude::*;
use plotters::style::register_font;

const COLOURS: [RGBColor; 2] = [RGBColor(200, 30, 40), RGBColor(31, 119, 180)];

/// Draws curves, each a name and the loss of each batch, to a PNG file.
pub fn draw(path: &Path, curves: &[(&str, Vec<f64>)]) -> Result<(), Box<dyn Error>> {
    let font = epaint_default_fonts::UBUNTU_LIGHT;
    register_font("sans-serif", FontStyle::Normal, font).map_err(|_| "the font is refused")?;
    let steps = curves.iter().map(|(_, losses)| losses.len()).max().unwrap_or(1);
    let top = curves.iter().flat_map(|(_, losses)| losses).copied().fold(0.0, f64::max) * 1.05;

    let root = BitMapBackend::new(path, (1000, 600)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption("A mixer learns to sort eight digits", ("sans-serif", 30))
        .margin(20)
        .x_label_area_size(50)
        .y_label_area_size(60)
        .build_cartesian_2d(0..steps, 0.0..top)?;
    chart
        .configure_mesh()
        .x_desc("batches")
        .y_desc("loss")
        .label_style(("sans-serif", 20))
        .light_line_style(WHITE)
        .draw()?;
    for ((name, losses), colour) in curves.iter().zip(COLOURS) {
        let style = colour.stroke_width(2);
        let points = losses.iter().copied().enumerate();
        chart
            .draw_series(LineSeries::new(points, style))?
            .label(format!("LayerNorm of {name}"))
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 30, y)], style));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .margin(20)
        .legend_area_size(40)
        .label_font(("sans-serif", 22))
        .border_style(BLACK)
        .background_style(WHITE)
        .draw()?;
    root.present()?;
    Ok(())
}
