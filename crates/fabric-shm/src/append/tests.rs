use super::requester::{Place, mark};
use super::*;
use crate::primitive::Memory;
use crate::primitive::testing::Words;
use crate::ring::Hostile;

const LAYOUT: AppendLayout = AppendLayout {
    capacity: 4,
    slots: 32,
    stride: 64,
};

/// A receiver, the shared memory, and intents of four requesters.
struct Scene {
    memory: Words,
    intents: Words,
    queue: AppendQueue,
}

impl Scene {
    fn new(buffers: &[u64]) -> Self {
        let memory = Words::new(LAYOUT.size().unwrap());
        let mut queue = AppendQueue::new(LAYOUT);
        for (index, &strides) in buffers.iter().enumerate() {
            queue.post(&memory, 100 + index as u64, 7, 4096 * index as u64, strides);
        }
        Self {
            memory,
            intents: Words::new(32),
            queue,
        }
    }

    fn reserve(&self, who: u64, size: u32) -> Result<Reservation, Refusal> {
        self.reserve_run(who, &[size])
    }

    fn reserve_run(&self, who: u64, sizes: &[u32]) -> Result<Reservation, Refusal> {
        let sizes = sizes.iter().copied();
        reserve(LAYOUT, &self.memory, &self.intents, who * 8, sizes)
    }

    fn publish(&self, who: u64, place: Place, size: u32) {
        publish(LAYOUT, &self.memory, place, who as u32, size);
    }

    fn finish(&self, who: u64) {
        finish(&self.intents, who * 8);
    }

    fn append(&self, who: u64, size: u32) -> (u64, u64) {
        let reservation = self.reserve(who, size).expect("there is room");
        self.publish(who, reservation.first, size);
        self.finish(who);
        (reservation.buffer.offset, reservation.first.offset(LAYOUT))
    }

    /// The arrivals, with `living` requesters.
    fn arrivals(&mut self, living: &[u64]) -> Vec<Arrival> {
        let (memory, intents) = (&self.memory, &self.intents);
        let claimed = |named| living.iter().any(|who| intents.load(who * 8) == named);
        std::iter::from_fn(|| {
            self.queue
                .next(memory, claimed)
                .expect("all parties are honest")
        })
        .collect()
    }
}

fn message(buffer: u64, queue_pair: u32, offset: u64, size: u32) -> Arrival {
    Arrival::Message {
        wr_id: 100 + buffer,
        queue_pair,
        offset,
        size,
    }
}

fn consumed(buffer: u64) -> Arrival {
    Arrival::Consumed {
        wr_id: 100 + buffer,
    }
}

#[test]
fn messages_lie_next_to_each_other_in_the_strides_that_they_need() {
    let mut scene = Scene::new(&[8]);
    assert_eq!(scene.append(1, 65), (0, 0));
    assert_eq!(scene.append(2, 0), (0, 128));
    assert_eq!(scene.append(1, 64), (0, 192));
    assert_eq!(
        scene.arrivals(&[1, 2]),
        [
            message(0, 1, 0, 65),
            message(0, 2, 128, 0),
            message(0, 1, 192, 64)
        ]
    );
    assert!(scene.queue.is_empty(&scene.memory));
}

#[test]
fn a_message_that_does_not_fit_the_rest_goes_to_the_next_buffer_and_ends_this_one() {
    let mut scene = Scene::new(&[3, 4, 4]);
    assert_eq!(scene.append(1, 128), (0, 0));
    assert_eq!(scene.append(1, 128), (4096, 0));
    assert_eq!(scene.append(1, 128), (4096, 128));
    assert_eq!(
        scene.arrivals(&[1]),
        [
            message(0, 1, 0, 128),
            consumed(0),
            message(1, 1, 0, 128),
            message(1, 1, 128, 128),
            consumed(1)
        ]
    );
}

#[test]
fn without_a_buffer_there_is_no_reservation_and_the_cursor_stays() {
    let mut scene = Scene::new(&[2]);
    assert_eq!(scene.reserve(1, 129).unwrap_err(), Refusal::TooLong);
    scene.append(1, 100);
    assert_eq!(scene.reserve(1, 64).unwrap_err(), Refusal::NoBuffer);
    assert_eq!(scene.arrivals(&[1]), [message(0, 1, 0, 100), consumed(0)]);
    scene.queue.post(&scene.memory, 101, 7, 4096, 2);
    assert_eq!(scene.append(1, 64), (4096, 0));
    assert_eq!(
        scene.reserve(1, 65).unwrap_err(),
        Refusal::NoBuffer,
        "the next buffer is not posted yet"
    );
    assert_eq!(scene.append(1, 64), (4096, 64));
}

#[test]
fn a_run_takes_the_messages_that_fit_its_buffer_and_is_seen_with_its_first_message() {
    let mut scene = Scene::new(&[2, 8]);
    scene.append(2, 64);
    let run = scene.reserve_run(1, &[128, 10, 64, 200, 64]).unwrap();
    assert_eq!(
        (run.buffer.offset, run.first.offset(LAYOUT), run.messages),
        (4096, 0, 4),
        "in the next buffer, which has no room for the fifth message"
    );
    let (second, third, fourth) = run_places(&run);
    for (place, size) in [(second, 10), (third, 64), (fourth, 200)] {
        scene.publish(1, place, size);
    }
    assert_eq!(scene.arrivals(&[1, 2]), [message(0, 2, 0, 64)]);
    scene.publish(1, run.first, 128);
    scene.finish(1);
    assert_eq!(
        scene.arrivals(&[1, 2]),
        [
            consumed(0),
            message(1, 1, 0, 128),
            message(1, 1, 128, 10),
            message(1, 1, 192, 64),
            message(1, 1, 256, 200),
            consumed(1)
        ]
    );
}

/// The places after the first message of the run of the story above.
fn run_places(run: &Reservation) -> (Place, Place, Place) {
    let second = run.behind(LAYOUT, run.first, 128);
    let third = run.behind(LAYOUT, second, 10);
    (second, third, run.behind(LAYOUT, third, 64))
}

/// Needs the clearing of slots in `skip_hole`: without it a publication that a dead requester left in the middle of a
/// run would be taken for a message of the slot's next round, before that message is written.
#[test]
fn a_publication_of_a_dead_requester_is_not_a_message_of_the_next_round() {
    let mut scene = Scene::new(&[8, 8, 8, 8]);
    let dead = scene.reserve_run(0, &[64, 64, 64]).unwrap();
    scene.publish(0, dead.behind(LAYOUT, dead.first, 64), 64);
    scene.append(1, 64);
    assert_eq!(scene.arrivals(&[1]), [message(0, 1, 192, 64)]);
    for _ in 0..28 {
        scene.append(1, 64);
        scene.arrivals(&[1]);
    }
    scene.queue.post(&scene.memory, 104, 7, 0, 8);
    scene.append(1, 64);
    assert_eq!(scene.arrivals(&[1]), [message(4, 1, 0, 64)]);
    let slow = scene.reserve(2, 64).unwrap();
    assert_eq!(scene.arrivals(&[1, 2]), [], "no message is published there");
    scene.publish(2, slow.first, 60);
    scene.finish(2);
    assert_eq!(scene.arrivals(&[1, 2]), [message(4, 2, 64, 60)]);
}

/// Needs the intents: without `is_claimed` the receiver would jump over the live requester.
#[test]
fn the_receiver_waits_for_the_living_and_skips_the_dead() {
    let mut scene = Scene::new(&[16]);
    let dead = scene.reserve(0, 200).unwrap();
    let slow = scene.reserve(1, 64).unwrap();
    scene.append(2, 64);
    assert_eq!(scene.arrivals(&[0, 1, 2]), [], "no requester is dead yet");
    assert_eq!(
        scene.arrivals(&[1, 2]),
        [],
        "the receiver skips the hole of the dead requester and waits for the living one"
    );
    scene.publish(1, slow.first, 60);
    scene.finish(1);
    assert_eq!(
        scene.arrivals(&[1, 2]),
        [message(0, 1, 256, 60), message(0, 2, 320, 64)]
    );
    assert_eq!(dead.first.offset(LAYOUT), 0);
}

/// Needs the marks: without them the two holes and the message after them could not be told apart.
#[test]
fn several_dead_requesters_in_a_row_and_across_buffers_leave_nothing_behind() {
    let mut scene = Scene::new(&[4, 4, 4]);
    scene.reserve(0, 128).unwrap();
    scene.reserve(1, 64).unwrap();
    scene.reserve(2, 128).unwrap();
    assert_eq!(scene.append(3, 64), (4096, 128));
    scene.reserve(0, 256).unwrap();
    assert_eq!(
        scene.arrivals(&[3]),
        [
            consumed(0),
            message(1, 3, 128, 64),
            consumed(1),
            consumed(2)
        ]
    );
    assert!(scene.queue.is_empty(&scene.memory));
    for index in 3..6 {
        scene
            .queue
            .post(&scene.memory, 100 + index, 7, 4096 * index, 4);
    }
    scene.append(3, 1);
    assert_eq!(scene.arrivals(&[3]), [message(3, 3, 0, 1)]);
}

/// Needs the rule that marks only rise. The requester sleeps between reading the cursor and marking while the slots
/// complete a round; its old mark must not hide the start that lies there.
#[test]
fn a_mark_of_another_round_changes_nothing() {
    let mut scene = Scene::new(&[8, 8, 8, 8]);
    let old = Cursor::unpack(scene.memory.load(CURSOR));
    for round in 0..5 {
        for _ in 0..8 {
            scene.append(1, 64);
        }
        scene.arrivals(&[1]);
        scene.queue.post(&scene.memory, 104 + round, 7, 0, 8);
    }
    // The cursor is at the first stride of serial 5, whose slots are those of serial 1.
    let at = LAYOUT.mark(8);
    scene.reserve(0, 64).unwrap();
    let now = scene.memory.load(at);
    mark(&scene.memory, at, old.named());
    assert_eq!(scene.memory.load(at), now);
}

/// Needs the checks in `next`, `take` and `place`.
#[test]
fn nonsense_in_shared_memory_is_detected() {
    let cursor = |serial, stride| Cursor { serial, stride }.pack();
    let receive = |cursor: u64, publication: u64| {
        let mut scene = Scene::new(&[4, 4]);
        scene.memory.store(LAYOUT.publication(0), publication);
        scene.memory.store(CURSOR, cursor);
        scene.queue.next(&scene.memory, |_| false)
    };
    assert_eq!(
        receive(cursor(9, 0), 0),
        Err(Hostile),
        "a cursor beyond the posted buffers"
    );
    assert_eq!(
        receive(cursor(2, 1), 0),
        Err(Hostile),
        "a cursor inside a buffer that was not posted"
    );
    assert_eq!(
        receive(cursor(0, 1), PUBLISHED | 1000 << 32),
        Err(Hostile),
        "a message longer than the buffer"
    );
    let mut scene = Scene::new(&[4]);
    scene.memory.store(CURSOR, cursor(0, 1));
    scene
        .memory
        .store(LAYOUT.publication(0), PUBLISHED | IN_NEXT);
    assert_eq!(
        scene.queue.next(&scene.memory, |_| false),
        Err(Hostile),
        "a message in a buffer that was not posted"
    );

    let reserve_after = |change: fn(&Words)| {
        let scene = Scene::new(&[4, 4]);
        change(&scene.memory);
        scene.reserve(1, 64).unwrap_err()
    };
    assert_eq!(
        reserve_after(|memory| memory.store(LAYOUT.descriptor(0), 9)),
        Refusal::Hostile,
        "another buffer"
    );
    assert_eq!(
        reserve_after(|memory| memory.store(LAYOUT.descriptor(0) + 24, 0)),
        Refusal::Hostile,
        "no strides"
    );
    assert_eq!(
        reserve_after(|memory| memory.store(LAYOUT.descriptor(0) + 8, u64::MAX)),
        Refusal::Hostile,
        "no region"
    );
    assert_eq!(
        reserve_after(|memory| memory.store(CURSOR, 9 << STRIDE_BITS)),
        Refusal::Hostile,
        "a cursor beyond all buffers"
    );
    assert_eq!(
        reserve_after(|memory| memory.store(CURSOR, 5)),
        Refusal::Hostile,
        "a stride beyond the buffer"
    );
}
