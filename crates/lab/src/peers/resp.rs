//! The part of the Redis protocol that GET, SET and INCR need: requests are appended to a buffer, and replies are taken
//! from a buffer.

/// A reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// `+text`.
    Simple(&'a [u8]),
    /// `-text`.
    Error(&'a [u8]),
    /// `$size`, bytes.
    Bulk(&'a [u8]),
    /// `:number`.
    Integer(i64),
    /// `$-1`.
    Nil,
}

/// Bytes that are not a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Appends `GET key`.
#[inline]
pub fn encode_get(key: &[u8], into: &mut Vec<u8>) {
    into.extend_from_slice(b"*2\r\n$3\r\nGET\r\n");
    encode_bulk(key, into);
}

/// Appends `SET key value`.
#[inline]
pub fn encode_set(key: &[u8], value: &[u8], into: &mut Vec<u8>) {
    into.extend_from_slice(b"*3\r\n$3\r\nSET\r\n");
    encode_bulk(key, into);
    encode_bulk(value, into);
}

/// Appends any command.
pub fn encode(arguments: &[&[u8]], into: &mut Vec<u8>) {
    into.extend_from_slice(format!("*{}\r\n", arguments.len()).as_bytes());
    arguments
        .iter()
        .for_each(|argument| encode_bulk(argument, into));
}

fn encode_bulk(bytes: &[u8], into: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut start = digits.len();
    let mut rest = bytes.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    into.push(b'$');
    into.extend_from_slice(&digits[start..]);
    into.extend_from_slice(b"\r\n");
    into.extend_from_slice(bytes);
    into.extend_from_slice(b"\r\n");
}

/// The first reply in `bytes` and its size; `None` if it is incomplete.
#[inline]
pub fn parse(bytes: &[u8]) -> Result<Option<(Reply<'_>, usize)>, Malformed> {
    let Some(&kind) = bytes.first() else {
        return Ok(None);
    };
    let Some(line_end) = bytes.iter().position(|&byte| byte == b'\n') else {
        return Ok(None);
    };
    let line = bytes
        .get(1..line_end)
        .and_then(|line| line.strip_suffix(b"\r"))
        .ok_or(Malformed)?;
    let start = line_end + 1;
    match kind {
        b'+' => Ok(Some((Reply::Simple(line), start))),
        b'-' => Ok(Some((Reply::Error(line), start))),
        b':' => std::str::from_utf8(line)
            .ok()
            .and_then(|digits| digits.parse().ok())
            .map(|number| Some((Reply::Integer(number), start)))
            .ok_or(Malformed),
        b'$' if line == b"-1" => Ok(Some((Reply::Nil, start))),
        b'$' => {
            let size = parse_size(line).ok_or(Malformed)?;
            let end = start.checked_add(size).ok_or(Malformed)?;
            let Some(bulk) = bytes.get(start..end) else {
                return Ok(None);
            };
            match bytes.get(end..end + 2) {
                None => Ok(None),
                Some(b"\r\n") => Ok(Some((Reply::Bulk(bulk), end + 2))),
                Some(_) => Err(Malformed),
            }
        }
        _ => Err(Malformed),
    }
}

/// A size in digits: at most a GiB, more than any reply of a measurement.
fn parse_size(digits: &[u8]) -> Option<usize> {
    if digits.is_empty() || digits.len() > 10 {
        return None;
    }
    let size = digits.iter().try_fold(0usize, |size, digit| {
        digit
            .is_ascii_digit()
            .then(|| size * 10 + usize::from(digit - b'0'))
    })?;
    (size <= 1 << 30).then_some(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_encoded_as_the_protocol_says() {
        let mut bytes = Vec::new();
        encode_get(b"k", &mut bytes);
        encode_set(b"key", &[b'v'; 12], &mut bytes);
        encode(&[b"SET", b"", b""], &mut bytes);
        let expected = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$12\r\nvvvvvvvvvvvv\r\n\
            *3\r\n$3\r\nSET\r\n$0\r\n\r\n$0\r\n\r\n";
        assert_eq!(bytes, expected);
    }

    #[test]
    fn a_reply_is_taken_when_all_of_it_has_come_and_not_before() {
        let stream = b"+OK\r\n:-12\r\n$5\r\na\r\nb\n\r\n$-1\r\n-ERR no\r\n$0\r\n\r\n";
        let expected = [
            Reply::Simple(b"OK"),
            Reply::Integer(-12),
            Reply::Bulk(b"a\r\nb\n"),
            Reply::Nil,
            Reply::Error(b"ERR no"),
            Reply::Bulk(b""),
        ];
        let mut rest = stream.as_slice();
        for reply in expected {
            let (found, size) = parse(rest).unwrap().unwrap();
            assert_eq!(found, reply);
            for shorter in 0..size {
                assert_eq!(
                    parse(&rest[..shorter]),
                    Ok(None),
                    "{reply:?} cut to {shorter}"
                );
            }
            rest = &rest[size..];
        }
        assert!(rest.is_empty());
    }

    #[test]
    fn bytes_that_are_no_reply_are_refused() {
        for bytes in [
            &b"OK\r\n"[..],
            b"+OK\n",
            b"$x\r\n",
            b"$\r\n",
            b"$2\r\nabc\r\n",
            b"$99999999999\r\n",
            b"$-2\r\n",
            b"*1\r\n",
            b":1x\r\n",
            b"\n",
        ] {
            assert_eq!(parse(bytes), Err(Malformed), "{}", bytes.escape_ascii());
        }
    }
}
