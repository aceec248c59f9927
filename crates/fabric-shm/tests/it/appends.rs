//! Queues of appends as large as programs request.

use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use stonecast_fabric::append::{AppendOptions, AppendQueue};
use stonecast_fabric::{
    Access, ConnectionEvent, Device, DeviceError, LocalSpan, MultiPacketOptions, Operation,
    ReceiveQueue, SharedReceiveQueueOptions, Status, WorkRequest,
};
use stonecast_fabric_shm::{ShmDevice, ShmOptions};

use crate::node::Node;

fn fill(options: AppendOptions) -> Result<(), DeviceError> {
    let device: Rc<dyn Device> = ShmDevice::new(ShmOptions::default())?;
    let size = u64::from(options.buffer_size_max);
    let region = device.allocate(size, Access::NONE)?;
    let mut queue = AppendQueue::new(device, options)?;
    // Nothing is appended, so all buffers may be the same memory.
    let local = LocalSpan {
        region,
        offset: 0,
        size: options.buffer_size_max,
    };
    (0..u64::from(options.buffers)).try_for_each(|wr_id| queue.post(wr_id, local))
}

/// Needs the number of strides that the queue of appends passes to the device: the device's default is a quarter of
/// what these buffers have.
#[test]
fn all_buffers_of_the_default_options_can_be_posted() {
    fill(AppendOptions::default()).unwrap();
}

#[test]
fn more_strides_than_a_device_can_have_are_refused_when_the_queue_is_made() {
    let options = AppendOptions {
        buffers: 1 << 20,
        ..AppendOptions::default()
    };
    let device: Rc<dyn Device> = ShmDevice::new(ShmOptions::default()).unwrap();
    let refused = AppendQueue::new(device, options).map(drop);
    assert!(
        matches!(refused, Err(DeviceError::Limit { .. })),
        "{refused:?}"
    );
}

/// Needs the count of the messages that were placed: with the count of the run, a lost message would complete as sent.
/// The first append to a queue waits for the memory of its buffer, so the run is reserved and not placed when the
/// region goes.
#[test]
fn a_message_whose_region_goes_before_its_copy_fails_and_earlier_messages_arrive() {
    let folder = tempfile::tempdir().unwrap();
    let address = format!("shm:{}", folder.path().join("socket").display());
    let (mut sender, mut receiver) = (
        Node::new(ShmOptions::default()),
        Node::new(ShmOptions::default()),
    );
    receiver.device.listen(&address).unwrap();
    let options = SharedReceiveQueueOptions {
        capacity: 4,
        multi_packet: Some(MultiPacketOptions::telling(64)),
        in_order: false,
    };
    let queue = receiver
        .device
        .create_shared_receive_queue(options)
        .unwrap();
    receiver.receive(ReceiveQueue::Shared(queue), 1, 0, 4096);
    let qp = sender.queue_pair(None);
    sender.device.connect(qp, &address, b"").unwrap();
    let theirs = receiver.queue_pair(Some(queue));
    receiver.answer(theirs);
    sender.event(|event| matches!(event, ConnectionEvent::Established { .. }));

    let passing = sender.device.allocate(4096, Access::NONE).unwrap();
    let second = LocalSpan {
        region: passing,
        offset: 0,
        size: 16,
    };
    let run = [sender.local(0, 8), second].map(|local| WorkRequest {
        wr_id: 1,
        operation: Operation::Send { local },
        signalled: true,
        fence: false,
    });
    sender.device.post_send(qp, &run).unwrap();
    let mut context = Context::from_waker(Waker::noop());
    let closed = sender.device.poll_invalidate(passing.rkey, &mut context);
    assert!(
        matches!(closed, Poll::Ready(Ok(()))),
        "no peer has that key"
    );
    sender.device.deregister(passing).unwrap();
    let mut statuses = Vec::new();
    while statuses.len() < run.len() {
        sender.pump();
        receiver.pump();
        statuses.extend(sender.completions.drain(..).map(|sent| sent.status));
    }
    assert_eq!(statuses, [Status::Success, Status::LocalProtection]);
    let arrived = receiver.completion();
    assert_eq!(
        (arrived.status, arrived.placement.size),
        (Status::Success, 8)
    );
}
