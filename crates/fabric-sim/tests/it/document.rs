//! The tables of `docs/simulator.md` match the code.
//!
//! `STONECAST_WRITE_TABLES=1 cargo test --package stonecast-fabric-sim document` rewrites them.

use std::fs;
use std::path::Path;

use stonecast_fabric_sim::{Fault, MachineProfile};

const UPDATE: &str = "STONECAST_WRITE_TABLES";

/// The page with the printed part called `name` replaced by `printed`, and that part before the replacement.
fn replaced(page: &str, name: &str, printed: &str) -> (String, String) {
    let (start, end) = (
        format!("<!-- printed: {name} -->\n"),
        format!("<!-- end: {name} -->"),
    );
    let (before, rest) = page
        .split_once(&start)
        .expect("the page has the mark of its beginning");
    let (found, after) = rest
        .split_once(&end)
        .expect("the page has the mark of its end");
    (
        format!("{before}{start}{printed}{end}{after}"),
        found.to_owned(),
    )
}

#[test]
fn the_tables_of_the_document_are_those_of_the_data() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/simulator.md");
    let mut page = fs::read_to_string(&path).expect("the document is a part of the sources");
    let write = std::env::var_os(UPDATE).is_some();
    for (name, printed) in [
        ("profiles", MachineProfile::tables()),
        ("faults", Fault::table()),
    ] {
        let (new, found) = replaced(&page, name, &printed);
        if write {
            page = new;
        } else {
            for (found, printed) in found.lines().zip(printed.lines()) {
                assert_eq!(
                    found, printed,
                    "\nwrite docs/simulator.md anew with {UPDATE}=1"
                );
            }
            assert_eq!(
                found, printed,
                "\nwrite docs/simulator.md anew with {UPDATE}=1"
            );
        }
    }
    if write {
        fs::write(&path, page).expect("the folder of the documents can be written");
    }
}
