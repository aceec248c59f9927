//! Model checks of every interleaving of two requesters and a receiver. Each weakened twin fails.

use loom::sync::Arc;

use super::*;
use crate::primitive::Memory;
use crate::primitive::testing::{Weakness, Words};

const LAYOUT: AppendLayout = AppendLayout {
    capacity: 1,
    slots: 2,
    stride: 8,
};
/// The buffer itself lies after the shared structures, and the intents after the buffer.
const BUFFER: u64 = HEAD_SIZE + DESCRIPTOR_SIZE + 2 * SLOT_SIZE;
const INTENTS: u64 = BUFFER + 16;

fn memory(weakness: Weakness) -> (Arc<Words>, AppendQueue) {
    let memory = Words::weakened(INTENTS + 16, weakness);
    let mut queue = AppendQueue::new(LAYOUT);
    queue.post(&memory, 5, 0, 0, 2);
    (Arc::new(memory), queue)
}

fn append(memory: &Words, who: u64) {
    append_run(memory, who, 1);
}

/// Appends messages of 8 bytes, with one reservation.
fn append_run(memory: &Words, who: u64, messages: usize) {
    let intent = INTENTS + who * 8;
    let sizes = std::iter::repeat_n(8, messages);
    let run = reserve(LAYOUT, memory, memory, intent, sizes).expect("there is room for all");
    assert_eq!(run.messages, messages);
    let mut place = run.first;
    memory.copy_in(BUFFER + place.offset(LAYOUT), &(who + 1).to_le_bytes());
    for _ in 1..messages {
        place = run.behind(LAYOUT, place, 8);
        memory.copy_in(BUFFER + place.offset(LAYOUT), &(who + 1).to_le_bytes());
        publish(LAYOUT, memory, place, who as u32, 8);
    }
    publish(LAYOUT, memory, run.first, who as u32, 8);
    finish(memory, intent);
}

fn claimed(memory: &Words) -> impl Fn(u64) -> bool {
    move |named| memory.load(INTENTS) == named || memory.load(INTENTS + 8) == named
}

/// Two live requesters append one message each; the receiver finds both, whole, and skips neither.
fn two_appends(weakness: Weakness) {
    loom::model(move || {
        let (memory, mut queue) = memory(weakness);
        let theirs = memory.clone();
        let other = loom::thread::spawn(move || append(&theirs, 1));
        append(&memory, 0);
        let mut seen = [false; 2];
        loop {
            match queue
                .next(&*memory, claimed(&memory))
                .expect("all parties are honest")
            {
                Some(Arrival::Message {
                    queue_pair,
                    offset,
                    size,
                    ..
                }) => {
                    assert_eq!(size, 8);
                    let mut found = [0; 8];
                    memory.copy_out(BUFFER + offset, &mut found);
                    assert_eq!(
                        u64::from_le_bytes(found),
                        u64::from(queue_pair) + 1,
                        "the message is whole"
                    );
                    seen[queue_pair as usize] = true;
                }
                Some(Arrival::Consumed { .. }) => break,
                None => loom::thread::yield_now(),
            }
        }
        assert_eq!(seen, [true; 2], "a live requester was skipped");
        other.join().unwrap();
    });
}

#[test]
fn loom_appends_of_two_requesters_are_both_found_whole() {
    two_appends(Weakness::None);
}

/// The swap of the cursor carries the intent. Without its order the receiver skips a live requester.
#[test]
#[should_panic]
fn loom_append_needs_the_order_of_the_reservation() {
    two_appends(Weakness::Store(CURSOR));
}

/// The publication carries the bytes.
#[test]
#[should_panic]
fn loom_append_needs_the_release_of_the_publication() {
    two_appends(Weakness::Store(LAYOUT.publication(0)));
}

#[test]
#[should_panic]
fn loom_append_needs_the_acquire_of_the_publication() {
    two_appends(Weakness::Load(LAYOUT.publication(0)));
}

/// The end of the intent carries the publication. Without its order the receiver skips a published message.
#[test]
#[should_panic]
fn loom_append_needs_the_release_of_the_intent() {
    two_appends(Weakness::Store(INTENTS + 8));
}

/// One requester dies right after its reservation, the other lives: the receiver finds the message of the live
/// requester and continues to the end, whichever requester was first.
#[test]
fn loom_only_the_hole_of_a_dead_requester_is_skipped() {
    loom::model(|| {
        let (memory, mut queue) = memory(Weakness::None);
        let theirs = memory.clone();
        let dead = loom::thread::spawn(move || {
            let sizes = std::iter::once(8);
            reserve(LAYOUT, &*theirs, &*theirs, INTENTS + 8, sizes)
                .expect("there is room for both");
        });
        append(&memory, 0);
        dead.join().unwrap();
        // The receiver knows of the death, so the intent does not count.
        let live = |named| memory.load(INTENTS) == named;
        let mut messages = 0;
        loop {
            match queue.next(&*memory, live).expect("all parties are honest") {
                Some(Arrival::Message { queue_pair, .. }) => {
                    assert_eq!(queue_pair, 0);
                    messages += 1;
                }
                Some(Arrival::Consumed { .. }) => break,
                None => panic!("the dead requester blocks the receiver"),
            }
        }
        assert_eq!(messages, 1);
    });
}

/// One requester appends a run of two messages; the receiver finds both, whole and in order, and skips neither.
#[test]
fn loom_a_run_is_found_whole() {
    loom::model(|| {
        let (memory, mut queue) = memory(Weakness::None);
        let theirs = memory.clone();
        let requester = loom::thread::spawn(move || append_run(&theirs, 1, 2));
        let mut offsets = Vec::new();
        let mut take = || {
            let next = queue.next(&*memory, claimed(&memory));
            if let Some(Arrival::Message { offset, .. }) = next.expect("all parties are honest") {
                let mut found = [0; 8];
                memory.copy_out(BUFFER + offset, &mut found);
                assert_eq!(u64::from_le_bytes(found), 2, "the message is whole");
                offsets.push(offset);
            }
        };
        // No yield here: a yield would hide old values from the receiver.
        (0..3).for_each(|_| take());
        requester.join().unwrap();
        (0..3).for_each(|_| take());
        assert_eq!(offsets, [0, 8], "a live requester was skipped");
    });
}
