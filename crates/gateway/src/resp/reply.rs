//! Writes replies.
//!
//! RESP3 has kinds that RESP2 lacks. In RESP2 a map becomes a flat array, a set an array, a null a bulk string of
//! length -1, text a bulk string. A client that asked for RESP3 waits forever at a RESP2 null, so this writer writes
//! every null.

use crate::memory::Chain;

/// The version of the protocol on a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// The version that every client understands, and the default.
    #[default]
    Resp2,
    /// The version that `HELLO 3` asks for.
    Resp3,
}

/// Appends replies to an output buffer.
pub struct ReplyWriter<'a> {
    /// The buffer for the replies.
    pub output: &'a mut Chain,
    /// The form of replies.
    pub protocol: Protocol,
}

impl ReplyWriter<'_> {
    /// `+OK`.
    pub fn ok(&mut self) {
        self.output.extend_from_slice(b"+OK\r\n");
    }

    /// A word of the protocol, without a line end.
    pub fn simple(&mut self, text: &str) {
        debug_assert!(!text.contains(['\r', '\n']));
        self.line(b'+', text.as_bytes());
    }

    /// An error: a code in capitals, then a message for human readers. Line ends become blanks.
    pub fn error(&mut self, text: &str) {
        let line: Vec<u8> = text
            .bytes()
            .map(|byte| match byte {
                b'\r' | b'\n' => b' ',
                other => other,
            })
            .collect();
        self.line(b'-', &line);
    }

    /// A number.
    pub fn integer(&mut self, value: i64) {
        self.number(b':', value);
    }

    /// A string of any bytes, with its length in front.
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.number(b'$', bytes.len() as i64);
        self.output.extend_from_slice(bytes);
        self.output.extend_from_slice(b"\r\n");
    }

    /// The absence of a value.
    pub fn null(&mut self) {
        self.output.extend_from_slice(match self.protocol {
            Protocol::Resp2 => b"$-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// The absence of an array.
    pub fn null_array(&mut self) {
        match self.protocol {
            Protocol::Resp2 => self.output.extend_from_slice(b"*-1\r\n"),
            Protocol::Resp3 => self.null(),
        }
    }

    /// Bytes, or the absence of a value.
    pub fn optional(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.bulk(bytes),
            None => self.null(),
        }
    }

    /// The head of an array of `count` replies that follow.
    pub fn array(&mut self, count: usize) {
        self.number(b'*', count as i64);
    }

    /// The head of a set of `count` replies that follow.
    pub fn set(&mut self, count: usize) {
        let kind = if self.protocol == Protocol::Resp3 {
            b'~'
        } else {
            b'*'
        };
        self.number(kind, count as i64);
    }

    /// The head of a map of `count` pairs of replies that follow.
    pub fn map(&mut self, count: usize) {
        match self.protocol {
            Protocol::Resp2 => self.number(b'*', 2 * count as i64),
            Protocol::Resp3 => self.number(b'%', count as i64),
        }
    }

    /// Text for human readers.
    pub fn text(&mut self, text: &str) {
        if self.protocol == Protocol::Resp2 {
            return self.bulk(text.as_bytes());
        }
        self.number(b'=', text.len() as i64 + 4);
        self.output.extend_from_slice(b"txt:");
        self.output.extend_from_slice(text.as_bytes());
        self.output.extend_from_slice(b"\r\n");
    }

    fn number(&mut self, kind: u8, value: i64) {
        self.line(kind, itoa::Buffer::new().format(value).as_bytes());
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        self.output.push(kind);
        self.output.extend_from_slice(text);
        self.output.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(protocol: Protocol, write: impl Fn(&mut ReplyWriter<'_>)) -> String {
        let mut output = Chain::new(std::rc::Rc::default());
        write(&mut ReplyWriter {
            output: &mut output,
            protocol,
        });
        output.text()
    }

    #[test]
    fn each_kind_has_its_form_in_both_protocols() {
        type Case = (fn(&mut ReplyWriter<'_>), &'static str, &'static str);
        let cases: [Case; 10] = [
            (|reply| reply.ok(), "+OK\r\n", "+OK\r\n"),
            (|reply| reply.simple("PONG"), "+PONG\r\n", "+PONG\r\n"),
            (
                |reply| reply.integer(i64::MIN),
                ":-9223372036854775808\r\n",
                ":-9223372036854775808\r\n",
            ),
            (
                |reply| reply.bulk(b"a\r\n"),
                "$3\r\na\r\n\r\n",
                "$3\r\na\r\n\r\n",
            ),
            (|reply| reply.null(), "$-1\r\n", "_\r\n"),
            (
                |reply| reply.optional(Some(b"")),
                "$0\r\n\r\n",
                "$0\r\n\r\n",
            ),
            (|reply| reply.array(2), "*2\r\n", "*2\r\n"),
            (|reply| reply.set(2), "*2\r\n", "~2\r\n"),
            (|reply| reply.map(2), "*4\r\n", "%2\r\n"),
            (|reply| reply.text("a"), "$1\r\na\r\n", "=5\r\ntxt:a\r\n"),
        ];
        for (write, resp2, resp3) in cases {
            assert_eq!(written(Protocol::Resp2, write), resp2);
            assert_eq!(written(Protocol::Resp3, write), resp3);
        }
    }

    /// Needs the replacement of line ends: some errors contain a name that a client chose.
    #[test]
    fn an_error_is_one_line_whatever_a_client_put_into_it() {
        assert_eq!(
            written(Protocol::Resp2, |reply| reply
                .error("ERR unknown command 'a\r\n+OK'")),
            "-ERR unknown command 'a  +OK'\r\n"
        );
    }
}
