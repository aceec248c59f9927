//! Queues of appends as large as programs ask for.

use std::rc::Rc;

use stonecast_fabric::append::{AppendOptions, AppendQueue};
use stonecast_fabric::{Access, Device, DeviceError, LocalSpan};
use stonecast_fabric_shm::{ShmDevice, ShmOptions};

fn fill(options: AppendOptions) -> Result<(), DeviceError> {
    let device: Rc<dyn Device> = ShmDevice::new(ShmOptions::default())?;
    let size = u64::from(options.buffer_size_max);
    let region = device.allocate(size, Access::NONE)?;
    let mut queue = AppendQueue::new(device, options)?;
    // Nothing is appended, so all of them may be the same memory.
    let local = LocalSpan {
        region,
        offset: 0,
        size: options.buffer_size_max,
    };
    (0..u64::from(options.buffers)).try_for_each(|wr_id| queue.post(wr_id, local))
}

/// Needs the number of strides that the queue of appends tells the device: the device's own is a quarter of what these have.
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
