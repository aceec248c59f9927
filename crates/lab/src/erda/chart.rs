//! The pictures.

use super::contestant::Design;
use super::figures::Point;
use super::headlines::{places, title, x_title};
use crate::plot::{Chart, Series};

/// The chart of a figure; `None` for the table, which is not drawn.
pub fn chart(figure: &str, points: &[Point]) -> Option<Chart> {
    let points: Vec<&Point> = points
        .iter()
        .filter(|point| point.figure == figure)
        .collect();
    let _is_drawn: u32 = figure.strip_prefix("erda-")?.parse().ok()?;
    let unit = points.first()?.unit;
    let places = places(&points);
    let values = |design: Design| {
        let y = |x: &String| {
            points
                .iter()
                .find(|point| point.series == design.name() && point.x == *x)
                .map(|point| point.y)
        };
        places.iter().map(y).collect()
    };
    Some(Chart {
        title: title(figure).to_owned(),
        x_title: x_title(figure).to_owned(),
        y_title: unit.to_owned(),
        series: Design::ALL
            .map(|design| Series {
                name: design.name().to_owned(),
                values: values(design),
            })
            .into(),
        places: places.clone(),
    })
}
