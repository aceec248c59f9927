//! Threads beside the device's own thread wake its tasks.

use std::rc::Rc;

use stonecast_fabric::Park;
use stonecast_fabric_verbs::VerbsDevice;

use crate::device::devices_or_note;
use crate::foreign_wakes::{
    answers_of_another_thread_end_the_pause, the_last_of_many_wakes_is_not_lost,
};
use crate::world::options;

/// A device with nothing to do. If there is none, `test` is noted as not run.
fn park_or_note(test: &str) -> Option<Rc<dyn Park>> {
    let names = devices_or_note(test)?;
    Some(VerbsDevice::open(options(&names[0])).expect("the device can be opened"))
}

#[test]
fn an_answer_of_another_thread_ends_the_sleep_on_the_channel() {
    if let Some(park) = park_or_note("an_answer_of_another_thread_ends_the_sleep_on_the_channel") {
        answers_of_another_thread_end_the_pause("verbs", park, 500);
    }
}

#[test]
fn no_wake_of_another_thread_is_lost() {
    if let Some(park) = park_or_note("no_wake_of_another_thread_is_lost") {
        the_last_of_many_wakes_is_not_lost("verbs", park, 500);
    }
}
