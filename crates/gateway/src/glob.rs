//! Patterns of keys for `KEYS` and `SCAN MATCH`: `*`, `?`, `[a-c]`, `[^a]`, and `\` before a byte that stands for
//! itself.
//!
//! Only the last `*` is tried again, so a match costs at most the length of the pattern times the length of the key.

/// Returns whether `pattern` matches the whole of `text`.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut position) = (0, 0);
    // The place after the last star, and the end of the star's match so far.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        if pattern.get(at) == Some(&b'*') {
            at += 1;
            retry = Some((at, position));
            continue;
        }
        if position == text.len() && at == pattern.len() {
            return true;
        }
        let next = text
            .get(position)
            .and_then(|&byte| match_one(pattern, at, byte));
        if let Some(after) = next {
            (at, position) = (after, position + 1);
            continue;
        }
        match retry {
            Some((after_star, end)) if end < text.len() => {
                retry = Some((after_star, end + 1));
                (at, position) = (after_star, end + 1);
            }
            _ => return false,
        }
    }
}

/// Matches the item of `pattern` at `at` against `byte`. Returns the start of the next item if it matches.
fn match_one(pattern: &[u8], at: usize, byte: u8) -> Option<usize> {
    match *pattern.get(at)? {
        b'?' => Some(at + 1),
        b'[' => {
            let (is_in, after) = match_class(pattern, at + 1, byte);
            is_in.then_some(after)
        }
        // A backslash at the end stands for itself.
        b'\\' if at + 1 < pattern.len() => (pattern[at + 1] == byte).then_some(at + 2),
        literal => (literal == byte).then_some(at + 1),
    }
}

/// Returns whether `byte` is in the class whose inside starts at `at`, and the end of the class. A class that is not
/// closed ends with the pattern.
fn match_class(pattern: &[u8], mut at: usize, byte: u8) -> (bool, usize) {
    let negated = pattern.get(at) == Some(&b'^');
    at += usize::from(negated);
    let mut is_in = false;
    loop {
        match pattern[at.min(pattern.len())..] {
            [] => return (is_in != negated, pattern.len()),
            [b']', ..] => return (is_in != negated, at + 1),
            [b'\\', escaped, ..] => {
                is_in |= escaped == byte;
                at += 2;
            }
            [first, b'-', last, ..] => {
                is_in |= (first.min(last)..=first.max(last)).contains(&byte);
                at += 3;
            }
            [literal, ..] => {
                is_in |= literal == byte;
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_what_redis_says() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("*", "anything", true),
            ("", "", true),
            ("", "a", false),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h*llo", "heeeello", true),
            ("h*l*o", "hello world o", true),
            ("*.txt", "a.txt.bak", false),
            ("h[ae]llo", "hallo", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-c]llo", "hbllo", true),
            ("h[c-a]llo", "hbllo", true),
            ("h[a-c]llo", "hdllo", false),
            (r"h\*llo", "h*llo", true),
            (r"h\*llo", "hello", false),
            (r"[\]]", "]", true),
            ("[a", "a", true),
            ("[", "a", false),
            ("[^", "a", true),
            (r"a\", r"a\", true),
            ("user:*:name", "user:17:name", true),
        ] {
            assert_eq!(
                matches(pattern.as_bytes(), text.as_bytes()),
                expected,
                "{pattern} {text}"
            );
        }
    }

    /// Needs the single retry: a recursive match, star by star, would not end within the time of the test.
    #[test]
    fn many_stars_cost_no_more_than_length_times_length() {
        let pattern = b"*a".repeat(100);
        assert!(!matches(&[&pattern[..], b"b"].concat(), &[b'a'; 1024]));
        assert!(matches(&pattern, &[b'a'; 1024]));
    }

    #[test]
    fn every_pattern_of_bytes_ends() {
        let bytes = b"[]^-\\*?a";
        let mut pattern = [0u8; 5];
        for number in 0..bytes.len().pow(5) {
            let mut rest = number;
            for slot in &mut pattern {
                *slot = bytes[rest % bytes.len()];
                rest /= bytes.len();
            }
            for text in [&b""[..], b"a", b"a-", b"]["] {
                matches(&pattern, text);
            }
        }
    }
}
