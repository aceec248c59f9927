//! The files of figures in a folder.

use std::fs;
use std::path::Path;

use super::chart::chart;
use super::{Figure, FigureError, Paper, Picture, Points, page};
use crate::plot::PlotError;

/// Writes picture and points of each of `figures` into `folder`, as `NAME.svg` and `NAME.jsonl`. `whole` are the papers
/// all of whose figures were measured: their pages are written as `PAPER.md`. An error leaves the files that were
/// written before it.
pub fn write(
    folder: &Path,
    figures: &[&Figure],
    whole: &[&Paper],
    points: &Points,
) -> Result<(), FigureError> {
    fs::create_dir_all(folder)?;
    for figure in figures {
        let name = figure.axes.name;
        if let Some(picture) = picture(figure, points)? {
            fs::write(folder.join(name).with_extension("svg"), picture)?;
        }
        fs::write(
            folder.join(name).with_extension("jsonl"),
            points.lines(name),
        )?;
    }
    for paper in whole {
        fs::write(
            folder.join(paper.name).with_extension("md"),
            page(paper, points),
        )?;
    }
    Ok(())
}

/// The picture of a figure as an SVG document.
fn picture(figure: &Figure, points: &Points) -> Result<Option<String>, PlotError> {
    Ok(match figure.picture {
        Picture::None => None,
        Picture::Lines => Some(chart(&figure.axes, points).svg()?),
        Picture::Own(draw) => Some(draw(points)),
    })
}
