//! Figures as SVG: one line for each series, over named places on the x axis.
//!
//! The same points give the same bytes, so that a figure in the documents changes only with its
//! data.

use plotters::prelude::*;

/// A line of a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// The value at each place of the x axis, if there is one.
    pub values: Vec<Option<f64>>,
}

/// A chart to draw.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// The title above the picture.
    pub title: String,
    /// The title below the x axis.
    pub x_title: String,
    /// The title beside the y axis, with the unit.
    pub y_title: String,
    /// The places of the x axis.
    pub places: Vec<String>,
    /// The lines.
    pub series: Vec<Series>,
}

const SIZE: (u32, u32) = (760, 440);
/// Colours that also differ in lightness, for readers who cannot distinguish hues (after Okabe and
/// Ito).
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 51, 17),
    RGBColor(120, 94, 160),
    RGBColor(90, 90, 90),
    RGBColor(86, 180, 233),
];
const INK: RGBColor = RGBColor(40, 40, 40);
/// Space of the y axis above the highest value.
const HEADROOM: f64 = 1.12;

/// The error of a chart that could not be drawn.
#[derive(Debug, thiserror::Error)]
#[error("cannot draw {title}: {reason}")]
pub struct PlotError {
    title: String,
    reason: String,
}

impl Chart {
    /// The chart as an SVG document.
    pub fn svg(&self) -> Result<String, PlotError> {
        let mut text = String::new();
        self.draw(SVGBackend::with_string(&mut text, SIZE))
            .map_err(|error| PlotError {
                title: self.title.clone(),
                reason: error.to_string(),
            })?;
        Ok(text)
    }

    fn draw<'a>(&'a self, backend: SVGBackend<'a>) -> Result<(), Box<dyn std::error::Error + 'a>> {
        let area = backend.into_drawing_area();
        area.fill(&WHITE)?;
        let highest = self
            .series
            .iter()
            .flat_map(|series| series.values.iter().flatten())
            .fold(0.0, |a: f64, b| a.max(*b));
        let top = if highest > 0.0 {
            highest * HEADROOM
        } else {
            1.0
        };
        let last = self.places.len().saturating_sub(1).max(1) as f64;
        let mut chart = ChartBuilder::on(&area)
            .caption(&self.title, ("sans-serif", 18).into_font().color(&INK))
            .margin(12)
            .x_label_area_size(46)
            .y_label_area_size(64)
            .build_cartesian_2d(-0.15..last + 0.15, 0.0..top)?;
        let place = |x: &f64| {
            let near = x.round();
            let index = (near >= 0.0 && (x - near).abs() < 1e-6).then_some(near as usize);
            index
                .and_then(|index| self.places.get(index))
                .cloned()
                .unwrap_or_default()
        };
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(WHITE)
            .bold_line_style(RGBColor(225, 225, 225))
            .x_labels(self.places.len())
            .x_label_formatter(&place)
            .x_desc(&self.x_title)
            .y_desc(&self.y_title)
            .label_style(("sans-serif", 13).into_font().color(&INK))
            .draw()?;
        for (series, colour) in self.series.iter().zip(COLOURS.into_iter().cycle()) {
            let points: Vec<(f64, f64)> = series
                .values
                .iter()
                .enumerate()
                .filter_map(|(x, y)| y.map(|y| (x as f64, y)))
                .collect();
            chart
                .draw_series(LineSeries::new(points.clone(), colour.stroke_width(2)))?
                .label(&series.name)
                .legend(move |(x, y)| {
                    PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2))
                });
            chart.draw_series(
                points
                    .into_iter()
                    .map(|point| Circle::new(point, 3, colour.filled())),
            )?;
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.85))
            .border_style(RGBColor(200, 200, 200))
            .label_font(("sans-serif", 13).into_font().color(&INK))
            .draw()?;
        area.present()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart() -> Chart {
        Chart {
            title: "latency & size".to_owned(),
            x_title: "bytes".to_owned(),
            y_title: "us".to_owned(),
            places: vec!["16".to_owned(), "64".to_owned(), "256".to_owned()],
            series: vec![
                Series {
                    name: "one".to_owned(),
                    values: vec![Some(1.0), Some(2.0), Some(4.0)],
                },
                Series {
                    name: "other".to_owned(),
                    values: vec![Some(3.0), None, Some(5.0)],
                },
            ],
        }
    }

    #[test]
    fn a_chart_names_its_axes_its_places_and_its_series() {
        let svg = chart().svg().unwrap();
        for text in [
            "latency &amp; size",
            "bytes",
            "us",
            "16",
            "64",
            "256",
            "one",
            "other",
        ] {
            assert!(svg.contains(text), "{text} is missing");
        }
        // There is one dot for each present value, and one for each series in the legend.
        assert_eq!(svg.matches("<circle").count(), 5);
        assert_eq!(svg, chart().svg().unwrap());
    }

    #[test]
    fn a_chart_of_nothing_is_drawn_all_the_same() {
        let empty = Chart {
            places: Vec::new(),
            series: Vec::new(),
            ..chart()
        };
        assert!(empty.svg().unwrap().contains("<svg"));
    }
}
