//! Threads beside the device's own thread wake its tasks.

use std::rc::Rc;

use stonecast_fabric::Park;
use stonecast_fabric_shm::{ShmDevice, ShmOptions};

use crate::foreign_wakes::{
    answers_of_another_thread_end_the_pause, the_last_of_many_wakes_is_not_lost,
};

fn park() -> Rc<dyn Park> {
    ShmDevice::new(ShmOptions::default()).expect("a device")
}

#[test]
fn an_answer_of_another_thread_ends_the_sleep_on_the_bell() {
    answers_of_another_thread_end_the_pause("shared memory", park(), 2_000);
}

#[test]
fn no_wake_of_another_thread_is_lost() {
    the_last_of_many_wakes_is_not_lost("shared memory", park(), 5_000);
}
