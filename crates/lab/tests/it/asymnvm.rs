//! AsymNVM's evaluation: the published variants beside `structures`, and the page of the documentation.
//!
//! The documented figures take minutes. The tests measure some of their points again, to the last digit, and compare
//! the page
//! with all documented points.

use stonecast_lab::asymnvm::{
    Application, ApplicationLoad, AsymError, AsymKeys, AsymLoad, AsymStore, Cached, PAPER, measure,
    measure_application,
};
use stonecast_lab::papers::{Runs, page};
use stonecast_published::asymnvm::Variant;
use stonecast_structures::shapes::StructureKind;

use crate::documented::{documented, points_of, text_of};

/// Needs a run that follows from the load alone: the documented points were measured beside others, in another process.
#[test]
fn some_points_of_the_table_are_measured_again_to_the_last_digit() {
    let documented = points_of(&PAPER);
    for (series, store) in [
        ("rcb", AsymStore::Published(Variant::Rcb)),
        ("structures", AsymStore::Ours),
    ] {
        let load = AsymLoad::inserts(store, StructureKind::HashTable);
        let outcome = measure(&load).unwrap();
        let found = documented.at("asymnvm-structures-1", series, "hash-table");
        assert_eq!(
            Some((outcome.kops * 100.0).round() / 100.0),
            found,
            "{series}"
        );
    }
}

/// Needs a mirror that is whole when the measurement begins.
#[test]
fn a_point_of_the_figure_with_mirrors_is_measured_again_to_the_last_digit() {
    let load = AsymLoad::inserts(AsymStore::Mirrored, StructureKind::HashTable);
    let time_us = 1000.0 / measure(&load).unwrap().kops;
    let documented = points_of(&PAPER);
    let found = documented.at("asymnvm-mirrors-times", "staged, off, one", "hash-table");
    assert_eq!(Some((time_us * 100.0).round() / 100.0), found);
}

#[test]
fn the_round_trips_of_a_transaction_are_counted_again_to_the_last_digit() {
    let load = ApplicationLoad {
        reads_row_by_row: true,
        ..ApplicationLoad::new(Application::Tatp, AsymStore::Published(Variant::Naive), 1)
    };
    let trips = measure_application(&load).unwrap().trips;
    let documented = points_of(&PAPER);
    let found = documented.at(
        "asymnvm-applications-trips",
        "naive: READs, row by row",
        "TATP",
    );
    assert_eq!(Some((trips * 100.0).round() / 100.0), found);
}

#[test]
fn an_application_is_refused_for_the_front_end_that_waits_for_the_oldest_operation_alone() {
    for application in [Application::SmallBank, Application::Tatp] {
        let load = ApplicationLoad::new(application, AsymStore::Sliding, 16);
        let refused = measure_application(&load);
        assert!(matches!(refused, Err(AsymError::NoTables)), "{refused:?}");
    }
}

/// Needs updates of loaded keys alone: a new key takes more WRITEs.
#[test]
fn the_workloads_of_ycsb_add_no_keys() {
    let load = AsymLoad {
        keys: AsymKeys::YCSB,
        ..AsymLoad::inserts(
            AsymStore::Published(Variant::Naive),
            StructureKind::HashTable,
        )
    };
    let growing = AsymLoad {
        keys: AsymKeys::ZIPFIAN,
        ..load.clone()
    };
    let [loaded, growing] = [load, growing].map(|load| measure(&load).unwrap());
    assert!(loaded.writes < growing.writes, "{loaded:?} {growing:?}");
}

#[test]
fn the_allocator_is_measured_again_to_the_last_digit() {
    for name in ["asymnvm-allocator", "asymnvm-allocator-causes"] {
        let mut figures = PAPER.figures();
        let figure = figures.find(|figure| figure.axes.name == name);
        let points = figure.unwrap().points(&mut Runs::default(), None).unwrap();
        let points = stonecast_lab::papers::Points::from(points);
        assert_eq!(text_of(&format!("{name}.jsonl")), points.lines(name));
    }
}

/// Needs a front-end that has made its structure itself, before the measurement.
#[test]
fn a_front_end_that_knows_all_nodes_reads_none() {
    let load = AsymLoad {
        cache: Cached::WRITTEN,
        ..AsymLoad::inserts(AsymStore::Published(Variant::Naive), StructureKind::Queue)
    };
    let outcome = measure(&load).unwrap();
    let found = points_of(&PAPER).at("asymnvm-layouts", "naive, knows all", "queue");
    assert_eq!(Some((outcome.kops * 100.0).round() / 100.0), found);
    assert!(outcome.trips < 0.01, "{outcome:?}");
}

#[test]
fn the_page_of_the_documentation_shows_the_documented_points() {
    let page = page(&PAPER, &points_of(&PAPER));
    if std::env::var_os("STONECAST_WRITE_PAGE").is_some() {
        std::fs::write(documented("asymnvm.md"), &page).unwrap();
    }
    assert_eq!(
        text_of("asymnvm.md"),
        page,
        "STONECAST_WRITE_PAGE=1 writes the page of the documented points; stonecast-lab figure asymnvm --out docs/figures measures \
         them again"
    );
}

#[test]
fn the_same_load_is_the_same_run_to_the_last_event() {
    let load = AsymLoad {
        in_flight: 16,
        operations: 512,
        ..AsymLoad::inserts(AsymStore::Published(Variant::Rcb), StructureKind::HashTable)
    };
    let run = || measure(&load).unwrap();
    assert_eq!(run(), run());
}
