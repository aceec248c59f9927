//! `doctor`: the facts that the command finds in a made-up machine and in this one, and the resulting profile.

use std::fs;
use std::os::unix::fs::symlink;

use crate::support::{Place, stonecast};

/// A machine with NVDIMMs that save no caches, and with a NIC whose registers the kernel does not show.
fn machine(place: &Place) -> String {
    let root = place.path().join("machine");
    let file = |path: &str, content: &str| {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    };
    file(
        "proc/cpuinfo",
        "model name\t: A Processor\nflags\t: clflushopt clwb\n",
    );
    file("proc/sys/kernel/osrelease", "6.12.1\n");
    file("sys/devices/ndbus0/provider", "ACPI.NFIT\n");
    file(
        "sys/devices/ndbus0/region0/persistence_domain",
        "memory_controller\n",
    );
    file("sys/devices/ndbus0/region0/size", "17179869184\n");
    file("sys/class/infiniband/mlx5_0/node_type", "1: CA\n");
    file("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
    file("sys/devices/pci0000:3a/0000:3b:00.0/numa_node", "0\n");
    fs::create_dir_all(root.join("sys/bus/nd/devices")).unwrap();
    symlink(
        root.join("sys/devices/ndbus0/region0"),
        root.join("sys/bus/nd/devices/region0"),
    )
    .unwrap();
    symlink(
        root.join("sys/devices/pci0000:3a/0000:3b:00.0"),
        root.join("sys/class/infiniband/mlx5_0/device"),
    )
    .unwrap();
    root.to_str().unwrap().to_owned()
}

#[test]
fn the_report_has_the_facts_of_a_made_up_machine_and_nothing_else() {
    let place = Place::on_disk();
    let root = machine(&place);
    let data = place.path().to_str().unwrap();
    let report = stonecast(["doctor", "--json", "--root", &root, "--data", data]).json();
    assert_eq!(
        report["processor"]["write_back"],
        serde_json::json!(["clwb", "clflushopt"])
    );
    assert_eq!(
        report["persistent_regions"][0]["persistence_domain"],
        "memory_controller"
    );
    assert_eq!(report["persistent_regions"][0]["provider"], "ACPI.NFIT");
    assert_eq!(report["rdma_devices"][0]["name"], "mlx5_0");
    assert_eq!(
        report["rdma_devices"][0]["firmware"],
        serde_json::Value::Null
    );
    assert_eq!(report["rdma_devices"][0]["relaxed_ordering"], "not-seen");
    assert_eq!(
        report["place"]["map_sync"], false,
        "the folder is on a disk, whatever the machine has beside it"
    );
    assert_eq!(report["profile"]["platform"]["persistence"], "page-file");
    assert_eq!(
        report["profile"]["platform"]["ddio"], true,
        "unknown means on"
    );
    let axes: Vec<&str> = report["declare"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["axis"].as_str().unwrap())
        .collect();
    assert!(
        axes.contains(&"ddio")
            && axes.contains(&"relaxed_ordering")
            && axes.contains(&"persistence"),
        "{axes:?}"
    );
}

/// Needs a profile that `plan` reads: plans are made for the conclusion of the doctor.
#[test]
fn plan_accepts_the_profile_that_the_doctor_writes() {
    let place = Place::on_disk();
    let data = place.path().to_str().unwrap();
    let file = place.path().join("this-machine.toml");
    let told = stonecast([
        "doctor",
        "--data",
        data,
        "--write-profile",
        file.to_str().unwrap(),
    ]);
    for part in [
        "Persistent memory",
        "RDMA devices",
        "MAP_SYNC",
        "Properties to declare",
        "[ddio]",
    ] {
        assert!(
            told.text().contains(part),
            "{part} is not in\n{}",
            told.text()
        );
    }
    let planned = stonecast([
        "plan",
        "--profile",
        file.to_str().unwrap(),
        "--operation",
        "write",
        "--update",
        "single",
    ]);
    assert!(
        planned.text().contains("rsp.write_back(a)"),
        "a file is synced:\n{}",
        planned.text()
    );
    assert!(
        planned.text().contains("ddio = unknown, says nobody"),
        "{}",
        planned.text()
    );
}

#[test]
fn a_profile_that_cannot_be_written_is_an_error_with_its_name() {
    let refused = stonecast(["doctor", "--write-profile", "/no/such/folder/profile.toml"]);
    assert!(refused.refusal(1).contains("/no/such/folder/profile.toml"));
}

#[test]
fn a_folder_that_does_not_exist_fails_with_advice() {
    let refused = stonecast(["doctor", "--data", "/no/such/folder"]);
    let said = refused.refusal(1);
    assert!(
        said.contains("/no/such/folder") && said.contains("--data DIR"),
        "{said}"
    );
    stonecast(["doctor", "--data", "/no/such/folder", "--json"]).json_failure(1, "failed");
}

#[test]
fn the_last_line_is_the_command_that_serves_the_folder() {
    for (place, more) in [
        (Place::on_disk(), ""),
        (Place::in_volatile_memory(), " --durability process"),
    ] {
        let data = place.path().canonicalize().unwrap();
        let data = data.to_str().unwrap();
        let fits = format!("stonecast serve --data {data}{more}");
        let told = stonecast(["doctor", "--data", data]);
        assert_eq!(told.text().lines().last().unwrap().trim(), fits);
        let report = stonecast(["doctor", "--data", data, "--json"]).json();
        assert_eq!(report["serve"], fits);
    }
}
