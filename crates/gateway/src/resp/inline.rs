//! Splits an inline command, as a person types, into words: blanks between words, quotes around blanks.
//!
//! Between double quotes, each of `\n \r \t \b \a \\ \" \xHH` stands for one byte; between single quotes, `\'` does. A
//! word is never longer than its spelling, so the word is written over its own line.

/// Quotes that do not end, or that end in the middle of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unbalanced;

/// Splits `line` and appends the place of each word to `words`. The line's bytes change.
pub fn split(line: &mut [u8], words: &mut Vec<(u32, u32)>) -> Result<(), Unbalanced> {
    let mut read = 0;
    let mut write = 0;
    loop {
        while read < line.len() && is_blank(line[read]) {
            read += 1;
        }
        if read == line.len() {
            return Ok(());
        }
        let start = write;
        while read < line.len() && !is_blank(line[read]) {
            match line[read] {
                quote @ (b'"' | b'\'') => {
                    (read, write) = unquote(line, read + 1, write, quote)?;
                    if line.get(read).is_some_and(|&next| !is_blank(next)) {
                        return Err(Unbalanced);
                    }
                }
                byte => {
                    line[write] = byte;
                    (read, write) = (read + 1, write + 1);
                }
            }
        }
        words.push((start as u32, write as u32));
    }
}

/// Copies the inside of quotes, and returns the positions at which reading and writing continue.
fn unquote(
    line: &mut [u8],
    mut read: usize,
    mut write: usize,
    quote: u8,
) -> Result<(usize, usize), Unbalanced> {
    loop {
        let byte = *line.get(read).ok_or(Unbalanced)?;
        read += 1;
        if byte == quote {
            return Ok((read, write));
        }
        let meant = match (byte, line.get(read).copied()) {
            (b'\\', Some(b'\'')) if quote == b'\'' => {
                read += 1;
                b'\''
            }
            (b'\\', Some(escaped)) if quote == b'"' => {
                read += 1;
                match (escaped, hexadecimal(line, read)) {
                    (b'x', Some(value)) => {
                        read += 2;
                        value
                    }
                    (b'n', _) => b'\n',
                    (b'r', _) => b'\r',
                    (b't', _) => b'\t',
                    (b'b', _) => 8,
                    (b'a', _) => 7,
                    (other, _) => other,
                }
            }
            _ => byte,
        };
        line[write] = meant;
        write += 1;
    }
}

fn hexadecimal(line: &[u8], at: usize) -> Option<u8> {
    let digit = |at: usize| char::from(*line.get(at)?).to_digit(16);
    Some((digit(at)? << 4 | digit(at + 1)?) as u8)
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0 | 0x0b | 0x0c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &[u8]) -> Result<Vec<Vec<u8>>, Unbalanced> {
        let mut line = line.to_vec();
        let mut places = Vec::new();
        split(&mut line, &mut places)?;
        Ok(places
            .iter()
            .map(|&(start, end)| line[start as usize..end as usize].to_vec())
            .collect())
    }

    #[test]
    fn blanks_separate_words_and_quotes_keep_them() {
        assert_eq!(
            words(b"  set\tkey  a b ").unwrap(),
            [&b"set"[..], b"key", b"a", b"b"]
        );
        assert_eq!(
            words(br#"set "a b" 'c d'"#).unwrap(),
            [&b"set"[..], b"a b", b"c d"]
        );
        assert_eq!(
            words(br#"set "\x00\xfF\n\"\q" 'it\'s \n'"#).unwrap(),
            [&b"set"[..], b"\x00\xff\n\"q", br"it's \n"]
        );
        assert_eq!(words(br#"get """#).unwrap(), [&b"get"[..], b""]);
        assert_eq!(words(b"   ").unwrap(), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn quotes_without_an_end_or_with_an_end_in_a_word_are_refused() {
        for line in [
            &br#"set "a"#[..],
            br#"set 'a"#,
            br#"set "a"b"#,
            br#"set "a\"#,
            br#"""""#,
        ] {
            assert_eq!(
                words(line),
                Err(Unbalanced),
                "{}",
                String::from_utf8_lossy(line)
            );
        }
    }
}
