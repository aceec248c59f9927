//! Receiver-placed appends, on shared memory everywhere and on the RDMA devices of this machine.

use std::rc::Rc;
use std::time::{Duration, Instant};

use stonecast_fabric::{
    Access, CompletionQueue, ConnectionEvent, Device, LocalSpan, MemoryRegion, Operation,
    QueuePair, QueuePairOptions, SharedReceiveQueue, WorkCompletion, WorkRequest,
};
use stonecast_fabric_shm::{ShmDevice, ShmOptions};
use stonecast_fabric_verbs::append::{
    AppendArea, RecordName, SlotClass, decode_record, encode_record,
};

const KEY: [u64; 2] = [11, 12];
const PATIENCE: Duration = Duration::from_secs(20);
const CLASS: SlotClass = SlotClass {
    first: 4096,
    slot_size: 128,
    slot_count: 8,
};

pub fn wait<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(Duration::from_micros(100));
    }
}

fn queue_pair(
    device: &dyn Device,
    cq: CompletionQueue,
    shared: Option<SharedReceiveQueue>,
) -> QueuePair {
    make(device, queue_pair_options(cq, shared))
}

fn make(device: &dyn Device, options: QueuePairOptions) -> QueuePair {
    device.create_queue_pair(options).expect("a queue pair")
}

/// Of a queue pair without windows.
pub fn queue_pair_options(
    cq: CompletionQueue,
    shared: Option<SharedReceiveQueue>,
) -> QueuePairOptions {
    QueuePairOptions {
        send_cq: cq,
        receive_cq: cq,
        shared_receive_queue: shared,
        windows: false,
        send_capacity: 32,
        receive_capacity: 1,
        // A sender that has credits never waits for a slot, so it needs no retry.
        rnr_retry_count: 0,
        rnr_retry_delay_ns: 0,
    }
}

/// A sender: its device, queue pair and memory, and the receiver's queue pair for it.
pub struct Sender {
    pub device: Rc<dyn Device>,
    pub cq: CompletionQueue,
    pub qp: QueuePair,
    pub memory: MemoryRegion,
    pub there: QueuePair,
}

impl Sender {
    /// Sends, and lets `receive` work meanwhile: some providers need the receiver to complete a SEND.
    fn send(&self, bytes: &[u8], mut receive: impl FnMut()) {
        self.device.memory(self.memory).write(0, bytes);
        let local = LocalSpan {
            region: self.memory,
            offset: 0,
            size: bytes.len() as u32,
        };
        let request = WorkRequest {
            wr_id: 1,
            operation: Operation::Send { local },
            signalled: true,
            fence: false,
        };
        self.device
            .post_send(self.qp, &[request])
            .expect("room in the send queue");
        let done = wait("a SEND", || {
            receive();
            one(&*self.device, self.cq)
        });
        assert_eq!(done.status, stonecast_fabric::Status::Success);
    }
}

pub fn one(device: &dyn Device, cq: CompletionQueue) -> Option<WorkCompletion> {
    let mut found = Vec::new();
    device.poll(cq, 1, &mut found);
    found.pop()
}

/// Two senders append records over three rounds of the area; each round is taken over, cleared and posted again.
fn story(new: &dyn Fn() -> Rc<dyn Device>, address: &str) {
    let receiver = new();
    let region = receiver
        .allocate(CLASS.first + 128 * 8, Access::NONE)
        .expect("memory");
    let cq = receiver
        .create_completion_queue(64)
        .expect("a completion queue");
    let mut area = AppendArea::new(receiver.clone(), region, CLASS).expect("an area");
    // Memory without persistence counts as durable here: what is tested is the order of things.
    area.post().expect("slots can be posted");
    receiver.listen(address).expect("a free address");
    let senders: Vec<Sender> = (0..2)
        .map(|_| {
            connect(
                new(),
                &*receiver,
                queue_pair_options(cq, Some(area.queue())),
                address,
            )
        })
        .collect();
    assert_eq!(area.grant(senders[0].there, 5), 5);
    assert_eq!(
        area.grant(senders[1].there, 5),
        3,
        "no more credits are out than slots are posted"
    );
    let mut sequence = 0;
    for round in 0..3 {
        let (mut names, mut arrivals) = (Vec::new(), Vec::new());
        for (index, count) in [(0, 5), (1, 3)] {
            for _ in 0..count {
                sequence += 1;
                let name = RecordName {
                    epoch: 1,
                    sender: index as u32,
                    sequence,
                };
                let bytes = encode_record(KEY, name, &[sequence as u8; 40]);
                senders[index].send(&bytes, || {
                    receiver.poll(cq, 8, &mut arrivals);
                });
                names.push(name);
            }
        }
        let mut appended = Vec::new();
        wait("the arrivals", || {
            receiver.poll(cq, 8, &mut arrivals);
            (arrivals.len() == names.len()).then_some(())
        });
        for (name, completion) in names.iter().zip(&arrivals) {
            let found = area.arrived(completion).expect("a message");
            let mut bytes = vec![0; found.span.size as usize];
            receiver.memory(region).read(found.span.offset, &mut bytes);
            let (decoded, content) = decode_record(KEY, &bytes).expect("a record");
            assert_eq!(
                (&decoded, content),
                (name, [name.sequence as u8; 40].as_slice())
            );
            appended.push(found);
        }
        assert!(
            appended.is_sorted_by_key(|found| found.position),
            "slots are filled in ascending order"
        );
        let mut scanned: Vec<_> = CLASS
            .scan(&*receiver.memory(region), KEY)
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        scanned.sort();
        names.sort();
        assert_eq!(
            scanned, names,
            "round {round}: a scan finds what arrived in this round and nothing older"
        );
        assert_eq!(area.grant(senders[0].there, 1), 0, "no slot is posted");
        appended.into_iter().for_each(|found| area.free(found));
        assert_eq!(area.clear_freed().len(), 8);
        assert!(
            CLASS.scan(&*receiver.memory(region), KEY).is_empty(),
            "a cleared slot holds nothing"
        );
        area.post().expect("slots can be posted again");
        area.forget(senders[1].there);
        assert_eq!(
            (
                area.grant(senders[0].there, 5),
                area.grant(senders[1].there, 3)
            ),
            (5, 3)
        );
    }
}

/// Connects to `receiver`, which makes its queue pair as `there` says.
pub fn connect(
    device: Rc<dyn Device>,
    receiver: &dyn Device,
    there: QueuePairOptions,
    address: &str,
) -> Sender {
    let cq = device
        .create_completion_queue(64)
        .expect("a completion queue");
    let qp = queue_pair(&*device, cq, None);
    let memory = device.allocate(4096, Access::NONE).expect("memory");
    device.connect(qp, address, b"").expect("connecting starts");
    let request = wait("a request", || match receiver.poll_connection() {
        Some(ConnectionEvent::Request { request, .. }) => Some(request),
        _ => None,
    });
    let there = make(receiver, there);
    receiver
        .accept(request, there, b"")
        .expect("the request can be accepted");
    let mut open = 0;
    wait("a connection", || {
        for side in [&*device, receiver] {
            open += usize::from(matches!(
                side.poll_connection(),
                Some(ConnectionEvent::Established { .. })
            ));
        }
        (open == 2).then_some(())
    });
    Sender {
        device,
        cq,
        qp,
        memory,
        there,
    }
}

#[test]
fn senders_with_credits_fill_ascending_slots_and_never_find_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let new = || -> Rc<dyn Device> { ShmDevice::new(ShmOptions::default()).expect("a device") };
    story(
        &new,
        &format!("shm:{}", folder.path().join("receiver").display()),
    );
}

#[cfg(feature = "verbs")]
#[test]
fn senders_over_rdma_fill_ascending_slots_and_never_find_none() {
    use stonecast_fabric_verbs::VerbsDevice;

    let Some(names) = crate::device::devices_or_note(
        "senders_over_rdma_fill_ascending_slots_and_never_find_none",
    ) else {
        return;
    };
    let new = || -> Rc<dyn Device> {
        VerbsDevice::open(crate::world::options(&names[0])).expect("a device")
    };
    story(&new, &crate::world::free_address());
}
