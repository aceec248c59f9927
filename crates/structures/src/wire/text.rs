//! Short texts of messages and pages.

/// Bytes of the longest text.
pub(super) const SIZE_MAX: usize = 64;

/// A text of at most 64 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ShortText {
    pub size: u8,
    pub text: [u8; SIZE_MAX],
}

impl ShortText {
    pub const EMPTY: Self = Self {
        size: 0,
        text: [0; SIZE_MAX],
    };

    /// `None`: the text is too long.
    pub fn new(text: &str) -> Option<Self> {
        let mut short = Self::EMPTY;
        let place = short.text.get_mut(..text.len())?;
        place.copy_from_slice(text.as_bytes());
        short.size = text.len() as u8;
        Some(short)
    }

    pub fn as_str(&self) -> &str {
        let text = &self.text[..usize::from(self.size)];
        std::str::from_utf8(text).expect("checked when the text was made")
    }

    /// Words of a message: the size, and the text.
    pub fn to_words(self) -> [u64; 9] {
        let mut words = [self.size.into(); 9];
        let (text, _) = self.text.as_chunks::<8>();
        for (word, bytes) in words[1..].iter_mut().zip(text) {
            *word = u64::from_le_bytes(*bytes);
        }
        words
    }

    /// The text in size and bytes, one after the other; `None`: the bytes hold no text.
    pub fn of_words(bytes: &[u8]) -> Option<Self> {
        let (size, text) = bytes.split_first_chunk::<8>()?;
        let size = usize::try_from(u64::from_le_bytes(*size)).ok()?;
        let text: &[u8; SIZE_MAX] = text.try_into().ok()?;
        let (text, rest) = text.split_at_checked(size)?;
        if rest.iter().any(|byte| *byte != 0) {
            return None;
        }
        Self::new(std::str::from_utf8(text).ok()?)
    }
}
