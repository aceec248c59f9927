//! Bytes of a memory: sparse pages that clones share until one of them writes.
//!
//! Untouched memory costs nothing, so a gigabyte that is registered and never used is free. The clone of an image costs
//! one counter per touched page: crash exploration makes thousands of clones per second.

use std::rc::Rc;

/// Bytes of a page: small enough that a copy after a clone is cheap, large enough that tables of pages stay short.
pub(crate) const PAGE_SIZE: usize = 4096;

type Page = [u8; PAGE_SIZE];

/// Unwritten bytes are zero.
#[derive(Clone, Default)]
pub(crate) struct Image {
    /// Ends with the last touched page.
    pages: Vec<Option<Rc<Page>>>,
}

/// Splits `size` bytes from `offset` at page borders: calls `with(page, start in the page, range of the bytes)`.
fn each_page(offset: u64, size: usize, mut with: impl FnMut(usize, usize, std::ops::Range<usize>)) {
    let mut done = 0;
    while done < size {
        let at = offset as usize + done;
        let (page, start) = (at / PAGE_SIZE, at % PAGE_SIZE);
        let count = (PAGE_SIZE - start).min(size - done);
        with(page, start, done..done + count);
        done += count;
    }
}

impl Image {
    /// Copies out.
    pub fn read(&self, offset: u64, into: &mut [u8]) {
        each_page(offset, into.len(), |page, start, range| {
            match self.page(page) {
                Some(bytes) => {
                    into[range.clone()].copy_from_slice(&bytes[start..start + range.len()])
                }
                None => into[range].fill(0),
            }
        });
    }

    /// Copies in.
    pub fn write(&mut self, offset: u64, from: &[u8]) {
        each_page(offset, from.len(), |page, start, range| {
            self.page_mut(page)[start..start + range.len()].copy_from_slice(&from[range]);
        });
    }

    /// The aligned word at `offset`.
    #[inline]
    pub fn load(&self, offset: u64) -> u64 {
        let (page, start) = (offset as usize / PAGE_SIZE, offset as usize % PAGE_SIZE);
        match self.page(page) {
            Some(bytes) => u64::from_le_bytes(
                *bytes[start..]
                    .first_chunk()
                    .expect("words do not cross pages"),
            ),
            None => 0,
        }
    }

    /// Stores the aligned word at `offset`.
    #[inline]
    pub fn store(&mut self, offset: u64, value: u64) {
        let (page, start) = (offset as usize / PAGE_SIZE, offset as usize % PAGE_SIZE);
        self.page_mut(page)[start..start + 8].copy_from_slice(&value.to_le_bytes());
    }

    /// The written pages, in order.
    pub fn touched(&self) -> impl Iterator<Item = usize> {
        self.pages
            .iter()
            .enumerate()
            .filter(|(_, page)| page.is_some())
            .map(|(index, _)| index)
    }

    /// Whether page `index` was ever written.
    pub fn has_page(&self, index: usize) -> bool {
        self.page(index).is_some()
    }

    #[inline]
    fn page(&self, index: usize) -> Option<&Page> {
        self.pages.get(index)?.as_deref()
    }

    fn page_mut(&mut self, index: usize) -> &mut Page {
        if self.pages.len() <= index {
            self.pages.resize(index + 1, None);
        }
        Rc::make_mut(self.pages[index].get_or_insert_with(|| Rc::new([0; PAGE_SIZE])))
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng as _, RngExt as _};

    use super::*;

    /// Needs the copy on write: with permanently shared pages, the clone changes with the original.
    #[test]
    fn an_image_and_its_clones_are_as_separate_as_plain_arrays() {
        const SIZE: usize = 5 * PAGE_SIZE;
        let mut random = stonecast_base::random_from_seed(1);
        let mut images = vec![(Image::default(), vec![0u8; SIZE])];
        for _ in 0..2000 {
            let index = random.random_range(0..images.len());
            let (image, array) = &mut images[index];
            let offset = random.random_range(0..SIZE);
            let size = random.random_range(0..=(SIZE - offset).min(2 * PAGE_SIZE));
            match random.random_range(0..4) {
                0 => {
                    let mut bytes = vec![0; size];
                    random.fill_bytes(&mut bytes);
                    image.write(offset as u64, &bytes);
                    array[offset..offset + size].copy_from_slice(&bytes);
                }
                1 => {
                    let (offset, value) = (offset & !7, random.next_u64());
                    image.store(offset as u64, value);
                    array[offset..offset + 8].copy_from_slice(&value.to_le_bytes());
                }
                2 => {
                    let mut bytes = vec![1; size];
                    image.read(offset as u64, &mut bytes);
                    assert_eq!(bytes, array[offset..offset + size]);
                    let word = offset & !7;
                    assert_eq!(image.load(word as u64).to_le_bytes(), array[word..word + 8]);
                }
                _ if images.len() < 8 => {
                    let copy = images[index].clone();
                    images.push(copy);
                }
                _ => drop(images.swap_remove(index)),
            }
            if images.is_empty() {
                images.push((Image::default(), vec![0; SIZE]));
            }
        }
    }

    #[test]
    fn untouched_memory_takes_no_room() {
        let mut image = Image::default();
        image.write(1 << 30, &[1]);
        assert_eq!(image.touched().collect::<Vec<_>>(), [(1 << 30) / PAGE_SIZE]);
    }
}
