//! Memory that is a mapping of an ordinary file: peers may read it, and no peer may write it.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use stonecast_fabric::{
    Access, CompletionQueue, Device, LocalSpan, Operation, QueuePairOptions, RemoteAddress, Rkey,
    Status, WorkRequest,
};
use stonecast_fabric_verbs::VerbsDevice;
use stonecast_media::{MappedRegion, Region as _, Writable};

use crate::device::{devices_or_note, note};
use crate::pairs::{Client, connect, one, queue_pair_options, wait};
use crate::world::{free_address, options};

const SIZE: u64 = 65_536;

/// The server's options of a queue pair for a client that gets windows.
pub fn made_for_windows(cq: CompletionQueue) -> QueuePairOptions {
    QueuePairOptions {
        windows: true,
        ..queue_pair_options(cq, None)
    }
}

/// READs 64 bytes.
pub fn read(client: &Client, remote: RemoteAddress) -> (Status, Vec<u8>) {
    let local = LocalSpan {
        region: client.memory,
        offset: 0,
        size: 64,
    };
    let request = WorkRequest {
        wr_id: 1,
        operation: Operation::Read { local, remote },
        signalled: true,
        fence: false,
    };
    client
        .device
        .post_send(client.qp, &[request])
        .expect("room in the send queue");
    let status = wait("a READ", || one(&*client.device, client.cq)).status;
    let mut bytes = vec![0; 64];
    client.device.memory(client.memory).read(0, &mut bytes);
    (status, bytes)
}

pub fn invalidate(device: &dyn Device, rkey: Rkey) {
    let mut ending = std::pin::pin!(poll_fn(|context| device.poll_invalidate(rkey, context)));
    let ended = wait("the end of a key", || {
        match ending
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Ready(ended) => Some(ended),
            Poll::Pending => None,
        }
    });
    ended.expect("the key can end");
}

/// Needs the registration for reading if a window cannot be bound, and its end with its key.
#[test]
fn a_file_is_opened_for_reading_as_long_as_its_key_and_never_for_writing() {
    let test = "a_file_is_opened_for_reading_as_long_as_its_key_and_never_for_writing";
    let Some(names) = devices_or_note(test) else {
        return;
    };
    let file = tempfile::tempfile().expect("a file");
    file.set_len(SIZE).expect("room");
    let memory =
        Rc::new(MappedRegion::map(file.into(), 0, SIZE, Writable::Yes).expect("it can be mapped"));
    let device = |name: &str| -> Rc<dyn Device> {
        VerbsDevice::open(options(name)).expect("the device that is named")
    };
    let server = device(names.last().expect("there is a device"));
    let region = server
        .register(memory.clone(), Access::NONE)
        .expect("a file can be pinned for reading");
    let (cq, address) = (
        server
            .create_completion_queue(64)
            .expect("a completion queue"),
        free_address(),
    );
    server.listen(&address).expect("a free address");
    let client = connect(device(&names[0]), &*server, made_for_windows(cq), &address);
    match server.bind_window(client.there, region, 0, SIZE, Access::REMOTE_WRITE) {
        Ok(_) => {
            return note(
                test,
                "temporary files lie in memory, not on a disk (TMPDIR)",
            );
        }
        Err(refused) => assert!(refused.to_string().contains("ordinary file"), "{refused}"),
    }
    // A part of the file, of a length that is not a multiple of a page.
    let (start, size) = (4096, 10_000);
    let rkey = server
        .bind_window(client.there, region, start, size, Access::REMOTE_READ)
        .expect("it can be read");
    let at = |offset| RemoteAddress {
        address: region.address + offset,
        rkey,
    };
    for round in 1..=3u8 {
        memory.write(start + 64, &[round; 64]);
        assert_eq!(
            read(&client, at(start + 64)),
            (Status::Success, vec![round; 64]),
            "the data of the server are read"
        );
    }
    assert_eq!(
        read(&client, at(start + size - 64)).0,
        Status::Success,
        "up to the end"
    );
    invalidate(&*server, rkey);
    assert_eq!(
        read(&client, at(start + 64)).0,
        Status::RemoteAccess,
        "a key that has ended opens nothing"
    );
}
