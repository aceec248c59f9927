//! Damage of a medium that no persistence domain allows: flipped bits, lost writes, blocks written to the wrong place,
//! stale content, unreadable lines.
//!
//! ```text
//!   durable line <- written -> the content before it is remembered, for the last lines
//!                                 '-> lost write, stale content, a memory controller that did not save its queue
//! ```

use std::collections::VecDeque;

use rand::RngExt as _;
use stonecast_base::{LINE_SIZE, Random, Span};
use stonecast_media::Blob;

use crate::image::Image;
use crate::persistent::module::Survivor;

/// Lines that are remembered: the content of a memory controller's queue (64) and a medium's buffer (16 KiB).
const REMEMBERED: usize = 320;
/// Of these, the content of a memory controller's queue.
const QUEUE_LINES: usize = 64;

/// The content of lines before their last writes, the latest at the end.
#[derive(Clone, Default)]
pub(crate) struct Recent(VecDeque<(u64, [u8; LINE_SIZE])>);

impl Recent {
    /// Notes that `line` is about to be written in `durable`.
    pub fn note(&mut self, line: u64, durable: &Image) {
        let mut content = [0; LINE_SIZE];
        durable.read(line * LINE_SIZE as u64, &mut content);
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back((line, content));
    }
}

impl Survivor {
    /// Loses the queue of the memory controller: any of the lines that it took last revert to their earlier content.
    /// Returns their number.
    pub fn lose_queue(&mut self, random: &mut Random) -> usize {
        let Recent(recent) = std::mem::take(&mut self.recent);
        let mut lost = 0;
        // From the latest on, so that a line that was written twice may lose one or both writes.
        for (line, before) in recent
            .iter()
            .rev()
            .take(QUEUE_LINES)
            .filter(|_| random.random())
        {
            self.image.write(line * LINE_SIZE as u64, before);
            lost += 1;
        }
        lost
    }

    /// Reverts a recently written line to the content before its last write, or before its first remembered write.
    /// Returns whether there was a line whose content changes by that.
    pub fn bring_back(&mut self, oldest: bool, random: &mut Random) -> bool {
        let Recent(recent) = &self.recent;
        if recent.is_empty() {
            return false;
        }
        let line = recent[random.random_range(0..recent.len())].0;
        let mut of_line = recent.iter().filter(|(other, _)| *other == line);
        let found = if oldest {
            of_line.next()
        } else {
            of_line.next_back()
        };
        let before = found.expect("the line was chosen among them").1;
        let mut now = [0; LINE_SIZE];
        self.image.read(line * LINE_SIZE as u64, &mut now);
        self.image.write(line * LINE_SIZE as u64, &before);
        now != before
    }

    /// Flips a bit of the written parts of the log. Returns its place.
    pub fn flip_bit(&mut self, random: &mut Random) -> Option<u64> {
        let at =
            self.used_line(random)? * LINE_SIZE as u64 + random.random_range(0..LINE_SIZE as u64);
        let mut byte = [0];
        self.image.read(at, &mut byte);
        byte[0] ^= 1 << random.random_range(0..8);
        self.image.write(at, &byte);
        Some(at)
    }

    /// Flips a bit of `blob`, if it exists.
    pub fn flip_bit_of(&mut self, blob: Blob, random: &mut Random) -> bool {
        let Some(bytes) = self.blobs.get(&blob).filter(|bytes| !bytes.is_empty()) else {
            return false;
        };
        let mut bytes = bytes.to_vec();
        let at = random.random_range(0..bytes.len());
        bytes[at] ^= 1 << random.random_range(0..8);
        self.blobs.insert(blob, bytes.into());
        true
    }

    /// Writes a block of the log to the place of another one.
    pub fn misdirect(&mut self, random: &mut Random) -> bool {
        let size = LINE_SIZE << random.random_range(0..4);
        let (Some(from), Some(to)) = (self.used_line(random), self.used_line(random)) else {
            return false;
        };
        let mut block = vec![0; size];
        let [from, to] = [from, to].map(|line| line * LINE_SIZE as u64 / size as u64 * size as u64);
        self.image.read(from, &mut block);
        self.image.write(to, &block);
        from != to
    }

    /// Makes a line of the written parts unreadable.
    pub fn poison_line(&mut self, random: &mut Random) -> bool {
        let line = self.used_line(random);
        self.poisoned.extend(line);
        line.is_some()
    }

    /// Replaces bytes of the log.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.image.write(offset, bytes);
    }

    /// The written parts of the log.
    pub fn touched(&self) -> Vec<Span> {
        let page = crate::image::PAGE_SIZE as u64;
        self.image
            .touched()
            .map(|index| Span::new(index as u64 * page, page))
            .collect()
    }

    /// A line that is not all zeros, mostly: lines next to other written lines.
    fn used_line(&self, random: &mut Random) -> Option<u64> {
        let pages: Vec<usize> = self.image.touched().collect();
        let lines = crate::image::PAGE_SIZE / LINE_SIZE;
        let mut found = None;
        for _ in 0..TRIES {
            let page = *pages.get(random.random_range(0..pages.len().max(1)))?;
            let line = (page * lines + random.random_range(0..lines)) as u64;
            let mut content = [0; LINE_SIZE];
            self.image.read(line * LINE_SIZE as u64, &mut content);
            found = Some(line);
            if content != [0; LINE_SIZE] {
                break;
            }
        }
        found
    }
}

/// Number of searches for a line with content before an empty line is taken.
const TRIES: usize = 16;
