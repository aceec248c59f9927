//! The main task on real input: one process imports the descriptions of all packages, another process reads them, and
//! an export returns the same bytes after the server was killed and restarted.
//!
//! The tests also need the turns of the client: without turns, a small entry overtakes a large one, and the order
//! changes.

use std::fs;
use std::path::Path;

use crate::support::{Place, Server, debian_packages, generated_packages, not_run, stonecast};

const NAME: &str = "round trip of the distribution's package descriptions";

#[test]
fn the_package_descriptions_of_the_distribution_are_exported_as_imported() {
    match debian_packages() {
        Ok(entries) => round_trip(&Place::on_disk(), "power", &entries),
        Err(reason) => not_run(NAME, &reason),
    }
}

#[test]
fn generated_descriptions_are_exported_from_volatile_memory_as_imported() {
    round_trip(
        &Place::in_volatile_memory(),
        "process",
        &generated_packages(5000),
    );
}

fn round_trip(place: &Place, durability: &str, entries: &[(String, String)]) {
    let file = place.path().join("entries.ndjson");
    fs::write(
        &file,
        entries
            .iter()
            .flat_map(|(_, line)| line.bytes())
            .collect::<Vec<u8>>(),
    )
    .expect("room for the entries");
    let pool = place.pool();
    let options = ["--durability", durability, "--capacity", "512MiB"];

    let mut server = Server::start(&pool, options);
    let imported = server.client(&["import", "--json", text(&file)]).json();
    assert_eq!(imported["entries"], entries.len());
    assert_eq!(
        imported["bytes"],
        fs::metadata(&file).expect("it was written").len()
    );
    server.kill();

    let mut server = Server::start(&pool, options);
    for (key, line) in entries.iter().step_by(entries.len() / 20) {
        let entry: serde_json::Value = serde_json::from_str(line).expect("entries are JSON");
        assert_eq!(
            server.client(&["get", key]).text(),
            entry["value"].as_str().expect("values are text")
        );
    }
    let exported = place.path().join("exported.ndjson");
    let counted = server.client(&["export", "--json", text(&exported)]).json();
    assert_eq!(counted["entries"], entries.len());
    assert!(
        fs::read(&exported).expect("it was exported") == fs::read(&file).expect("it is there"),
        "the export is the import"
    );

    // The check of the whole pool passes both after another kill and after a clean stop.
    server.kill();
    verify(&pool, entries.len());
    let mut server = Server::start(&pool, options);
    server.stop();
    verify(&pool, entries.len());
}

fn verify(pool: &Path, keys: usize) {
    let verified = stonecast(["verify", "--json", text(pool)]).json();
    assert_eq!(
        (&verified["keys"], &verified["findings"]),
        (&keys.into(), &0.into()),
        "{verified}"
    );
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a name in UTF-8")
}
