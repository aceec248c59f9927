//! The figures that a name stands for.

use std::collections::BTreeSet;

use stonecast_lab::erda::REAL;
use stonecast_lab::papers::{Figure, PAPERS, Paper};

/// The name of all papers.
const ALL: &str = "all";

/// Selected figures.
pub struct Selection {
    /// The figures, in the order of the pages.
    pub figures: Vec<&'static Figure>,
}

/// All names.
pub fn names() -> BTreeSet<&'static str> {
    let figures = PAPERS.into_iter().flat_map(Paper::figures);
    let papers = PAPERS.iter().map(|paper| paper.name);
    figures
        .map(|figure| figure.axes.name)
        .chain(papers)
        .chain([ALL, REAL])
        .collect()
}

impl Selection {
    /// The figures of `name`: a figure, a paper, or all.
    pub fn of(name: &str) -> Self {
        let chosen = |paper: &'static Paper| {
            let whole = [ALL, paper.name].contains(&name);
            paper
                .figures()
                .filter(move |figure| whole || figure.axes.name == name)
        };
        Self {
            figures: PAPERS.into_iter().flat_map(chosen).collect(),
        }
    }

    /// Selects all figures of each paper that has a selected one.
    pub fn complete(&mut self) {
        let papers = PAPERS
            .into_iter()
            .filter(|paper| paper.figures().any(|figure| self.has(figure)));
        self.figures = papers.flat_map(Paper::figures).collect();
    }

    /// The papers all of whose figures are selected.
    pub fn whole(&self) -> Vec<&'static Paper> {
        let is_whole = |paper: &&Paper| paper.figures().all(|figure| self.has(figure));
        PAPERS.into_iter().filter(is_whole).collect()
    }

    fn has(&self, figure: &Figure) -> bool {
        self.figures
            .iter()
            .any(|selected| selected.axes.name == figure.axes.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_of(selection: &Selection) -> Vec<&str> {
        let figures = selection.figures.iter();
        figures.map(|figure| figure.axes.name).collect()
    }

    #[test]
    fn a_name_selects_a_figure_a_paper_or_all_and_a_page_needs_all_figures_of_its_paper() {
        let mut selection = Selection::of("rowan-appends");
        assert_eq!(names_of(&selection), ["rowan-appends"]);
        assert!(selection.whole().is_empty());
        selection.complete();
        assert_eq!(names_of(&selection), names_of(&Selection::of("rowan")));
        assert_eq!(selection.whole().len(), 1);
        assert_eq!(Selection::of(ALL).whole().len(), PAPERS.len());
        for name in names().into_iter().filter(|name| *name != REAL) {
            assert!(!Selection::of(name).figures.is_empty(), "{name}");
        }
    }
}
