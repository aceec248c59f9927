//! The measured points.

use serde::Serialize;

/// One point of a figure. The field names are an interface: scripts read them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// The name of the figure.
    pub figure: String,
    /// The series.
    pub series: String,
    /// The place of the x axis.
    pub x: String,
    /// The measurement.
    pub y: f64,
    /// The unit.
    pub unit: String,
}

/// Points of figures, in the order of their measurement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Points {
    all: Vec<Point>,
}

impl Points {
    /// Appends points.
    pub fn extend(&mut self, points: Vec<Point>) {
        self.all.extend(points);
    }

    /// The points of a figure.
    pub fn of<'a>(&'a self, figure: &'a str) -> impl Iterator<Item = &'a Point> {
        self.all.iter().filter(move |point| point.figure == figure)
    }

    /// The value of a series at a place of a figure.
    pub fn at(&self, figure: &str, series: &str, x: &str) -> Option<f64> {
        let found = self
            .of(figure)
            .find(|point| point.series == series && point.x == x);
        found.map(|point| point.y)
    }

    /// The mean of a series of a figure.
    pub fn mean(&self, figure: &str, series: &str) -> Option<f64> {
        let of_series = self.of(figure).filter(|point| point.series == series);
        mean(of_series.map(|point| point.y))
    }

    /// The places of a figure's x axis, in the order of their first points.
    pub fn places(&self, figure: &str) -> Vec<String> {
        let mut places: Vec<String> = Vec::new();
        for point in self.of(figure) {
            if !places.contains(&point.x) {
                places.push(point.x.clone());
            }
        }
        places
    }

    /// The points of a figure as JSON lines.
    pub fn lines(&self, figure: &str) -> String {
        self.of(figure).fold(String::new(), |lines, point| {
            let line = serde_json::to_string(point).expect("numbers and strings serialise");
            lines + &line + "\n"
        })
    }
}

impl From<Vec<Point>> for Points {
    fn from(all: Vec<Point>) -> Self {
        Self { all }
    }
}

/// The mean of `values`, if there are any.
pub fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}
