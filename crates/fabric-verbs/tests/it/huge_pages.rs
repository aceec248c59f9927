//! Memory of huge pages. Available only if the administrator has reserved some (`/proc/sys/vm/nr_hugepages`).

use std::io;
use std::rc::Rc;

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use stonecast_fabric::{Access, Device, LocalSpan, Operation, RemoteAddress, Status, WorkRequest};
use stonecast_fabric_verbs::VerbsDevice;
use stonecast_media::{MappedRegion, Region as _, Writable};

use crate::device::{devices_or_note, note};
use crate::files::{made_for_windows, read};
use crate::pairs::{connect, one, wait};
use crate::world::{free_address, options};

const HUGE_PAGE: u64 = 2 << 20;

fn huge_pages(count: u64) -> io::Result<MappedRegion> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
    let file = memfd_create("stonecast-huge-pages", flags)?;
    ftruncate(&file, count * HUGE_PAGE)?;
    MappedRegion::map(file, 0, count * HUGE_PAGE, Writable::Yes)
}

/// Written and read across the border of two huge pages, which are adjacent for peers as they are here.
#[test]
fn huge_pages_are_registered_and_reached_by_peers() {
    let test = "huge_pages_are_registered_and_reached_by_peers";
    let Some(names) = devices_or_note(test) else {
        return;
    };
    let memory = match huge_pages(2) {
        Ok(memory) => Rc::new(memory),
        Err(error) => return note(test, &format!("no huge pages are available: {error}")),
    };
    let device = |name: &str| -> Rc<dyn Device> {
        VerbsDevice::open(options(name)).expect("the device that is named")
    };
    let server = device(names.last().expect("there is a device"));
    let region = server
        .register(memory.clone(), Access::NONE)
        .expect("huge pages can be registered");
    let (cq, address) = (
        server
            .create_completion_queue(64)
            .expect("a completion queue"),
        free_address(),
    );
    server.listen(&address).expect("a free address");
    let client = connect(device(&names[0]), &*server, made_for_windows(cq), &address);
    let access = Access::REMOTE_READ.and(Access::REMOTE_WRITE);
    let rkey = server
        .bind_window(client.there, region, 0, region.size, access)
        .expect("a window");
    let remote = RemoteAddress {
        address: region.address + HUGE_PAGE - 32,
        rkey,
    };
    client.device.memory(client.memory).write(0, &[9; 64]);
    let local = LocalSpan {
        region: client.memory,
        offset: 0,
        size: 64,
    };
    let write = WorkRequest {
        wr_id: 1,
        operation: Operation::Write { local, remote },
        signalled: true,
        fence: false,
    };
    client
        .device
        .post_send(client.qp, &[write])
        .expect("room in the send queue");
    assert_eq!(
        wait("a WRITE", || one(&*client.device, client.cq)).status,
        Status::Success
    );
    let mut found = [0; 66];
    memory.read(HUGE_PAGE - 33, &mut found);
    assert_eq!(
        (found[0], &found[1..65], found[65]),
        (0, [9; 64].as_slice(), 0),
        "exactly these bytes"
    );
    memory.write(HUGE_PAGE - 32, &[5; 64]);
    assert_eq!(read(&client, remote), (Status::Success, vec![5; 64]));
}
