//! The page of a paper in the documents.

use std::fmt::Write as _;

use super::prose::filled;
use super::{Axes, Demand, Figure, Headline, Paper, Picture, Points, Section};

/// The page of `paper` with the points of all its figures, in Markdown.
pub fn page(paper: &Paper, points: &Points) -> String {
    let text = &paper.page;
    let mut page = filled(text.introduction, points);
    let columns = text.columns.join(" | ");
    write!(
        page,
        "\n## {}\n\n| {columns} |\n| --- | --- | --- | --- |\n",
        text.heading
    )
    .expect("a String takes everything");
    let headlines = (paper.headlines)(points);
    let (ours, published): (Vec<_>, Vec<_>) = headlines
        .into_iter()
        .partition(|headline| headline.published.is_empty());
    published
        .iter()
        .for_each(|headline| page += &row(headline, points));
    if !ours.is_empty() {
        page += "\n## Numbers that the paper does not have\n\n| what | here | why |\n| --- | --- | --- |\n";
    }
    for Headline {
        what,
        measured,
        why,
        ..
    } in &ours
    {
        let why = filled(why, points);
        writeln!(page, "| {what} | {measured} | {why} |").expect("a String takes everything");
    }
    page += &filled(text.notes, points);
    page += &bars(&(text.bars)(points));
    for figure in paper.figures() {
        match figure.section {
            Section::None => {}
            Section::Standard => page += &section(figure, points),
            Section::Own(section) => page += &section(points),
        }
    }
    page
}

fn row(headline: &Headline, points: &Points) -> String {
    let Headline {
        what,
        published,
        measured,
        why,
        ..
    } = headline;
    let why = filled(why, points);
    format!("| {what} | {published} | {measured} | {why} |\n").replace("|  |", "| |")
}

fn bars(bars: &[Demand]) -> String {
    if bars.is_empty() {
        return String::new();
    }
    let mut text = "\n## Bars\n\n| what | bar | found | |\n| --- | --- | --- | --- |\n".to_owned();
    for bar in bars {
        let Demand {
            what,
            demanded,
            found,
            is_met,
        } = bar;
        let verdict = if *is_met { "met" } else { "missed" };
        writeln!(text, "| {what} | {demanded} | {found} | {verdict} |")
            .expect("a String takes everything");
    }
    text
}

fn section(figure: &Figure, points: &Points) -> String {
    let Axes { name, title, .. } = figure.axes;
    if points.of(name).next().is_none() {
        return String::new();
    }
    let mut text = format!("\n## {name}\n\n{title}\n\n{}", table(&figure.axes, points));
    if !matches!(figure.picture, Picture::None) {
        write!(text, "\n![{name}]({name}.svg)\n").expect("a String takes everything");
    }
    text
}

fn table(axes: &Axes, points: &Points) -> String {
    let places = points.places(axes.name);
    let mut text = format!("| {} | {} |\n", axes.unit, places.join(" | "));
    writeln!(text, "| --- |{}", " --- |".repeat(places.len())).expect("a String takes everything");
    for series in axes.series {
        let cell = |x: &String| {
            let value = points.at(axes.name, series, x);
            value.map_or("-".to_owned(), |value| format!("{value:.2}"))
        };
        let cells: Vec<String> = places.iter().map(cell).collect();
        writeln!(text, "| {series} | {} |", cells.join(" | ")).expect("a String takes everything");
    }
    text
}
