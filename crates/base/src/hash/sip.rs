//! SipHash-2-4 of whole words, as straight-line code.
//!
//! Each write has a stamp, whose tag covers five words. The library's implementation takes bytes in pieces of any
//! length. Here the length is known at compile time, which saves instructions. The value is the same: SipHash-2-4 is a
//! specified algorithm, and a test compares the two implementations.

/// The four words of the state.
type State = [u64; 4];

/// The hash of the bytes of `words`, each in little-endian order.
#[inline]
pub(super) fn siphash24<const COUNT: usize>([low, high]: [u64; 2], words: [u64; COUNT]) -> u64 {
    let mut state = [
        low ^ 0x736f_6d65_7073_6575,
        high ^ 0x646f_7261_6e64_6f6d,
        low ^ 0x6c79_6765_6e65_7261,
        high ^ 0x7465_6462_7974_6573,
    ];
    for word in words {
        state = with(state, word);
    }
    // The last word has the bytes that are no whole word, of which there are none, and the length.
    let [a, b, c, d] = with(state, (8 * COUNT as u64) << 56);
    let [a, b, c, d] = round(round(round(round([a, b, c ^ 0xff, d]))));
    a ^ b ^ c ^ d
}

/// The state after one more word of the input.
#[inline(always)]
fn with([a, b, c, d]: State, word: u64) -> State {
    let [a, b, c, d] = round(round([a, b, c, d ^ word]));
    [a ^ word, b, c, d]
}

/// One round of the specification.
#[inline(always)]
fn round([mut a, mut b, mut c, mut d]: State) -> State {
    a = a.wrapping_add(b);
    c = c.wrapping_add(d);
    b = b.rotate_left(13) ^ a;
    d = d.rotate_left(16) ^ c;
    a = a.rotate_left(32);
    c = c.wrapping_add(b);
    a = a.wrapping_add(d);
    b = b.rotate_left(17) ^ c;
    d = d.rotate_left(21) ^ a;
    c = c.rotate_left(32);
    [a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::siphash24;

    #[test]
    fn words_have_the_same_value_as_their_bytes_in_the_library() {
        let words = [0, u64::MAX, 1, 0x0123_4567_89ab_cdef, 1 << 63];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        for key in [[0, 0], [1, u64::MAX], [0x0706_0504_0302_0100, 5]] {
            let of_bytes = |count: usize| crate::hash::siphash24(key, &bytes[..8 * count]);
            assert_eq!(siphash24(key, []), of_bytes(0));
            assert_eq!(siphash24(key, [words[0], words[1]]), of_bytes(2));
            assert_eq!(siphash24(key, words), of_bytes(5));
        }
    }
}
