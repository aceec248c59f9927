//! The lines of a figure.

use super::{Axes, Points};
use crate::plot::{Chart, Series};

/// A line for each series of a figure over its places.
pub fn chart(axes: &Axes, points: &Points) -> Chart {
    let places = points.places(axes.name);
    let values = |series: &str| {
        let at = |x: &String| points.at(axes.name, series, x);
        places.iter().map(at).collect()
    };
    let line = |series: &&str| Series {
        name: (*series).to_owned(),
        values: values(series),
    };
    Chart {
        title: axes.title.to_owned(),
        x_title: axes.x_title.to_owned(),
        y_title: axes.unit.to_owned(),
        series: axes.series.iter().map(line).collect(),
        places: places.clone(),
    }
}
