//! Entries that are loaded together.

/// Bytes of the sizes of key and value.
const SIZES: usize = 8;

/// The value of a load: entries whose keys ascend, each after the sizes of its key and its value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Run(Vec<u8>);

impl Run {
    /// Adds an entry at the end. Its key has to be above the one before.
    pub fn push(&mut self, key: &[u8], value: &[u8]) {
        for size in [key.len(), value.len()] {
            let size = u32::try_from(size).expect("records are shorter");
            self.0.extend_from_slice(&size.to_le_bytes());
        }
        self.0.extend_from_slice(key);
        self.0.extend_from_slice(value);
    }

    /// The value of the operation.
    pub fn value(&self) -> &[u8] {
        &self.0
    }

    /// Bytes that an entry adds to the value.
    pub fn size_of(key: &[u8], value: &[u8]) -> usize {
        SIZES + key.len() + value.len()
    }

    /// Reads the value of an operation; `None`: the bytes are not a run, or the keys do not ascend.
    pub fn parse(value: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
        let (mut entries, mut rest) = (Vec::<(&[u8], &[u8])>::new(), value);
        while !rest.is_empty() {
            let (key_size, behind) = rest.split_first_chunk()?;
            let (value_size, behind) = behind.split_first_chunk()?;
            let (key, behind) = behind.split_at_checked(u32::from_le_bytes(*key_size) as usize)?;
            let (value, behind) =
                behind.split_at_checked(u32::from_le_bytes(*value_size) as usize)?;
            if entries.last().is_some_and(|(before, _)| *before >= key) {
                return None;
            }
            entries.push((key, value));
            rest = behind;
        }
        Some(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_read_as_it_was_made_if_its_keys_ascend() {
        let entries = [(&b"a"[..], &b"one"[..]), (b"ab", b""), (b"b", b"three")];
        let mut run = Run::default();
        let mut size = 0;
        for (key, value) in entries {
            run.push(key, value);
            size += Run::size_of(key, value);
        }
        assert_eq!(run.value().len(), size);
        assert_eq!(Run::parse(run.value()), Some(entries.to_vec()));
        let ends = [0, SIZES + 4, 2 * SIZES + 6, size];
        for cut in 0..=size {
            let is_whole = Run::parse(&run.value()[..cut]).is_some();
            assert_eq!(is_whole, ends.contains(&cut), "{cut}");
        }
        run.push(b"b", b"again");
        assert_eq!(Run::parse(run.value()), None);
    }
}
