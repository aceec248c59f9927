//! Behaviour beyond the contract: registration of each kind of memory, sleep, errors with remedies.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::rc::Rc;
use std::time::{Duration, Instant};

use stonecast_fabric::{
    Access, Device, DeviceError, LocalSpan, MultiPacketOptions, Park, ReceiveQueue, ReceiveRequest,
    SharedReceiveQueueOptions,
};
use stonecast_fabric_verbs::{VerbsDevice, VerbsOptions};
use stonecast_media::{MappedRegion, Writable};

use crate::world::{Dax, dax, devices, options};

/// The devices to test on. If there are none, `test` is noted as not run.
pub fn devices_or_note(test: &str) -> Option<Vec<String>> {
    devices().map_err(|reason| note(test, &reason)).ok()
}

/// Records that a test could not run, for `cargo xtask ci`.
pub fn note(test: &str, reason: &str) {
    println!("not run: {test} ({reason})");
    let Some(path) = std::env::var_os("STONECAST_NOT_RUN") else {
        return;
    };
    let mut file = OpenOptions::new()
        .append(true)
        .create(true)
        .open(&path)
        .expect("the list of tests not run can be opened");
    file.write_all(format!("verbs: {test}\t{reason}\n").as_bytes())
        .expect("the list of tests not run can be appended to");
}

#[test]
fn a_missing_device_is_refused_with_a_remedy() {
    let wanted = VerbsOptions {
        device: Some("no-such-device".into()),
        ..VerbsOptions::default()
    };
    let refused = VerbsDevice::open(wanted)
        .err()
        .expect("the device does not exist");
    let DeviceError::System { source, .. } = refused else {
        panic!("{refused}")
    };
    let text = source.to_string();
    assert!(
        ["libibverbs", "no RDMA device", "there is no"]
            .iter()
            .any(|words| text.contains(words)),
        "{text}"
    );
}

#[test]
fn multi_packet_queues_are_refused_with_the_reason() {
    let Some(names) = devices_or_note("multi_packet_queues_are_refused_with_the_reason") else {
        return;
    };
    let device = VerbsDevice::open(options(&names[0])).expect("the device can be opened");
    let wanted = SharedReceiveQueueOptions {
        capacity: 4,
        multi_packet: Some(MultiPacketOptions::telling(64)),
        in_order: false,
    };
    let refused = device
        .create_shared_receive_queue(wanted)
        .expect_err("no device has them")
        .to_string();
    assert!(
        refused.contains("multi-packet") && refused.contains("slots of one size"),
        "{refused}"
    );
}

#[test]
fn persistent_memory_is_registered_and_ordinary_memory_is_refused_as_such() {
    let test = "persistent_memory_is_registered_and_ordinary_memory_is_refused_as_such";
    let Some(names) = devices_or_note(test) else {
        return;
    };
    let Ok(path) = dax().map_err(|reason| note(test, &reason)) else {
        return;
    };
    let device = VerbsDevice::open(options(&names[0])).expect("the device can be opened");
    let access = Access::REMOTE_WRITE.and(Access::REMOTE_FLUSH);
    device
        .register_persistent(Rc::new(Dax::map(&path, 8192)), access)
        .expect("devdax memory can be registered");
    if device.capabilities().flush_persistent {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(8192).expect("room");
        let ordinary = Dax::of(
            MappedRegion::map(file.into(), 0, 8192, Writable::Yes).expect("it can be mapped"),
        );
        let refused = device
            .register_persistent(Rc::new(ordinary), access)
            .expect_err("the memory is not persistent")
            .to_string();
        assert!(
            refused.contains("not persistent memory") || refused.contains("ordinary file"),
            "{refused}"
        );
    }
}

/// Needs the check of the means: the file lies in memory here, which every kernel pins for writing.
#[test]
fn pages_that_only_a_sync_makes_durable_may_be_read_but_not_written_by_devices() {
    let test = "pages_that_only_a_sync_makes_durable_may_be_read_but_not_written_by_devices";
    let Some(names) = devices_or_note(test) else {
        return;
    };
    let device = VerbsDevice::open(options(&names[0])).expect("the device can be opened");
    let file = tempfile::tempfile().expect("a file");
    file.set_len(8192).expect("room");
    let memory = MappedRegion::map(file.into(), 0, 8192, Writable::Yes).expect("it can be mapped");
    let memory = Rc::new(Dax::synced(memory));
    let refused = |outcome: Result<(), DeviceError>| {
        let refused = outcome.expect_err("a sync does not cover what a device writes");
        let said = refused.to_string();
        assert!(
            matches!(refused, DeviceError::SyncedFile { size: 8192, .. })
                && said.contains(&names[0])
                && said.contains("let the device write other memory and copy from there"),
            "{said}"
        );
    };
    for access in [Access::REMOTE_WRITE, Access::REMOTE_ATOMIC] {
        refused(device.register_persistent(memory.clone(), access).map(drop));
    }
    let region = device
        .register_persistent(memory, Access::REMOTE_READ)
        .expect("peers may read it");
    let queue = device
        .create_shared_receive_queue(SharedReceiveQueueOptions {
            capacity: 4,
            multi_packet: None,
            in_order: false,
        })
        .expect("a shared receive queue");
    let local = LocalSpan {
        region,
        offset: 0,
        size: 64,
    };
    let buffer = ReceiveRequest { wr_id: 1, local };
    refused(device.post_receive(ReceiveQueue::Shared(queue), &[buffer]));
}

/// The sleep ends with its timeout, and not much earlier: nothing wakes an idle device.
#[test]
fn an_idle_device_sleeps() {
    let Some(names) = devices_or_note("an_idle_device_sleeps") else {
        return;
    };
    let device = VerbsDevice::open(options(&names[0])).expect("the device can be opened");
    device
        .create_completion_queue(16)
        .expect("a completion queue");
    // The first sleeps may end early because of events while the device was opened.
    let slept = (0..5).any(|_| {
        let start = Instant::now();
        device.park(50_000_000);
        start.elapsed() >= Duration::from_millis(50)
    });
    assert!(slept);
}
