//! Cuts the input of a connection into commands.
//!
//! ```text
//!   *3\r\n $3\r\nSET\r\n $1\r\nk\r\n $5\r\nvalue\r\n        an array of byte strings
//!   SET k "a value"\r\n                                   or a line
//!   ^start                        ^at
//! ```
//!
//! Nothing is copied: a command is a list of places in the input. Invariants:
//! - Memory is used for bytes that have arrived, never for bytes that were announced.
//! - Every byte is examined a bounded number of times, however the input is cut into pieces.
//! - A request that breaks the grammar or a limit ends the connection: the start of the next one is unknown.

use std::ops::Range;

use memchr::memchr;

use super::inline;
use super::limits::{INLINE_SIZE_MAX, NUMBER_LINE_SIZE_MAX, RequestLimits};

/// Commands, as places in the input from which they were cut.
#[derive(Debug, Default)]
pub struct Commands {
    arguments: Vec<Range<u32>>,
    /// The end of each command's arguments in `arguments`.
    ends: Vec<u32>,
}

/// The number of arguments after which a batch ends: each argument takes memory for its place, and the shortest is sent
/// in two bytes.
pub const BATCH_ARGUMENTS_MAX: usize = 16 << 10;

/// The reason why a connection's input cannot be read any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// The count of arguments is not a number, or is above the limit.
    #[error("invalid multibulk length")]
    ArgumentCount,
    /// The count of arguments is above the limit for clients that are not authenticated.
    #[error("unauthenticated multibulk length")]
    UnauthenticatedArgumentCount,
    /// A byte other than `$` stands where an argument must start.
    #[error("expected '$', got '{}'", (*.0 as char).escape_default())]
    NotAnArgument(u8),
    /// The length of an argument is not a number, or is above the limit.
    #[error("invalid bulk length")]
    ArgumentSize,
    /// The length of an argument is above the limit for clients that are not authenticated.
    #[error("unauthenticated bulk length")]
    UnauthenticatedArgumentSize,
    /// The arguments together are above the limit.
    #[error("the request is longer than {0} bytes")]
    RequestSize(u64),
    /// An argument is not followed by a line end.
    #[error("an argument does not end where its length says")]
    ArgumentEnd,
    /// A line does not end within the longest length of a line.
    #[error("too big inline request")]
    InlineSize,
    /// Quotes of an inline command do not match.
    #[error("unbalanced quotes in request")]
    Quotes,
}

/// The position in a connection's input. The input may lose only the bytes at its front that
/// [`RequestParser::take_consumed`] returns.
#[derive(Debug, Default)]
pub struct RequestParser {
    /// The first byte that belongs to no complete command.
    start: usize,
    /// The first byte that was not yet examined.
    at: usize,
    /// Arguments of the incomplete command, relative to `start`.
    arguments: Vec<(u32, u32)>,
    /// The number of arguments that are still missing; 0 between commands.
    missing: u32,
    /// Size of the argument that was announced and is not complete.
    announced: Option<u32>,
}

impl Commands {
    /// Forgets all commands.
    pub fn clear(&mut self) {
        self.arguments.clear();
        self.ends.clear();
    }

    /// The number of commands.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether there are `count_max` commands, or so many arguments that later commands wait for the next
    /// batch.
    pub fn are_enough(&self, count_max: usize) -> bool {
        self.len() >= count_max || self.arguments.len() >= BATCH_ARGUMENTS_MAX
    }

    /// The number of arguments of all commands.
    pub fn argument_count(&self) -> usize {
        self.arguments.len()
    }

    /// Places of the arguments of command number `index`, its name first. Never empty.
    pub fn places(&self, index: usize) -> &[Range<u32>] {
        let start = if index == 0 {
            0
        } else {
            self.ends[index - 1] as usize
        };
        &self.arguments[start..self.ends[index] as usize]
    }
}

impl RequestParser {
    /// Cuts commands out of `input` until it ends, until `commands` holds `count_max`, or until the next request breaks
    /// a rule. The commands before that request are then in `commands`.
    pub fn parse(
        &mut self,
        input: &mut [u8],
        limits: &RequestLimits,
        count_max: usize,
        commands: &mut Commands,
    ) -> Result<(), ProtocolError> {
        while !commands.are_enough(count_max) && self.step(input, limits, commands)? {}
        Ok(())
    }

    /// Returns the number of consumed bytes at the front of the input, which the caller removes.
    pub fn take_consumed(&mut self) -> usize {
        let consumed = self.start;
        self.start = 0;
        self.at -= consumed;
        consumed
    }

    /// Arguments that the incomplete command has or announces.
    pub fn argument_count(&self) -> usize {
        self.arguments.len() + self.missing as usize
    }

    /// The end of the argument that was announced and is not complete, which must be read as a whole.
    pub fn announced_end(&self) -> Option<usize> {
        self.announced.map(|size| self.at + size as usize + 2)
    }

    /// Bytes that the parser holds beside the input.
    #[cfg(test)]
    pub fn memory(&self) -> usize {
        self.arguments.capacity() * size_of::<(u32, u32)>()
    }

    /// Reads one item: a line or an argument. Returns false if more input is needed.
    fn step(
        &mut self,
        input: &mut [u8],
        limits: &RequestLimits,
        commands: &mut Commands,
    ) -> Result<bool, ProtocolError> {
        if let Some(size) = self.announced {
            return self.take_argument(input, size, limits, commands);
        }
        let Some(&kind) = input.get(self.line_start()) else {
            return Ok(false);
        };
        if self.missing > 0 {
            if kind != b'$' {
                return Err(ProtocolError::NotAnArgument(kind));
            }
            let size_error = if *limits == RequestLimits::UNAUTHENTICATED {
                ProtocolError::UnauthenticatedArgumentSize
            } else {
                ProtocolError::ArgumentSize
            };
            let Some(size) = self
                .number_line(input)
                .map_err(|()| ProtocolError::ArgumentSize)?
            else {
                return Ok(false);
            };
            let size = u64::try_from(size).map_err(|_| ProtocolError::ArgumentSize)?;
            if size > limits.argument_size {
                return Err(size_error);
            }
            if (self.at - self.start) as u64 + size > limits.size {
                return Err(ProtocolError::RequestSize(limits.size));
            }
            self.announced = Some(size as u32);
            return Ok(true);
        }
        if kind == b'*' {
            let Some(count) = self
                .number_line(input)
                .map_err(|()| ProtocolError::ArgumentCount)?
            else {
                return Ok(false);
            };
            if count > i64::from(limits.arguments) {
                return Err(match *limits == RequestLimits::UNAUTHENTICATED {
                    true => ProtocolError::UnauthenticatedArgumentCount,
                    false => ProtocolError::ArgumentCount,
                });
            }
            // An empty command has no answer.
            self.missing = u32::try_from(count).unwrap_or(0);
            if self.missing == 0 {
                self.start = self.at;
            }
            return Ok(true);
        }
        self.take_inline(input, commands)
    }

    fn take_argument(
        &mut self,
        input: &[u8],
        size: u32,
        limits: &RequestLimits,
        commands: &mut Commands,
    ) -> Result<bool, ProtocolError> {
        let end = self.at + size as usize;
        let Some(line_end) = input.get(end..end + 2) else {
            return Ok(false);
        };
        if line_end != b"\r\n" {
            return Err(ProtocolError::ArgumentEnd);
        }
        let relative = (self.at - self.start) as u32;
        self.at = end + 2;
        if (self.at - self.start) as u64 > limits.size {
            return Err(ProtocolError::RequestSize(limits.size));
        }
        self.arguments.push((relative, relative + size));
        self.announced = None;
        self.missing -= 1;
        if self.missing == 0 {
            self.finish(commands);
        }
        Ok(true)
    }

    fn take_inline(
        &mut self,
        input: &mut [u8],
        commands: &mut Commands,
    ) -> Result<bool, ProtocolError> {
        let Some(length) = memchr(b'\n', &input[self.at..]) else {
            self.at = input.len();
            let too_long = self.at - self.start > INLINE_SIZE_MAX;
            return if too_long {
                Err(ProtocolError::InlineSize)
            } else {
                Ok(false)
            };
        };
        let end = self.at + length;
        if end - self.start > INLINE_SIZE_MAX {
            return Err(ProtocolError::InlineSize);
        }
        self.arguments.clear();
        // A carriage return at the end is a blank.
        inline::split(&mut input[self.start..end], &mut self.arguments)
            .map_err(|inline::Unbalanced| ProtocolError::Quotes)?;
        self.at = end + 1;
        if self.arguments.is_empty() {
            self.start = self.at;
        } else {
            self.finish(commands);
        }
        Ok(true)
    }

    fn finish(&mut self, commands: &mut Commands) {
        let start = self.start as u32;
        commands.arguments.extend(
            self.arguments
                .drain(..)
                .map(|(from, to)| start + from..start + to),
        );
        commands.ends.push(commands.arguments.len() as u32);
        self.start = self.at;
        // An idle connection does not keep the places of a million arguments.
        if self.arguments.capacity() > 64 {
            self.arguments = Vec::new();
        }
    }

    /// The beginning of the next line: the first byte of an inline command may lie before `at`.
    fn line_start(&self) -> usize {
        if self.missing == 0 {
            self.start
        } else {
            self.at
        }
    }

    /// Reads a line `KIND NUMBER CR LF`. Returns `None` if the line is incomplete.
    fn number_line(&mut self, input: &[u8]) -> Result<Option<i64>, ()> {
        let start = self.line_start();
        let line = &input[start..input.len().min(start + NUMBER_LINE_SIZE_MAX)];
        let Some(end) = memchr(b'\n', line) else {
            return if line.len() == NUMBER_LINE_SIZE_MAX {
                Err(())
            } else {
                Ok(None)
            };
        };
        let number = line[1..end].strip_suffix(b"\r").ok_or(())?;
        self.at = start + end + 1;
        decimal(number).ok_or(()).map(Some)
    }
}

/// Parses an integer in its shortest form, with nothing before or after it.
pub fn decimal(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text.split_first()? {
        (b'-', digits) => (true, digits),
        _ => (false, text),
    };
    if digits.is_empty() || (digits[0] == b'0' && text.len() > 1) {
        return None;
    }
    let mut number: i64 = 0;
    for digit in digits {
        let value = i64::from(digit.wrapping_sub(b'0'));
        if value > 9 {
            return None;
        }
        number = number.checked_mul(10)?;
        number = if negative {
            number.checked_sub(value)?
        } else {
            number.checked_add(value)?
        };
    }
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: RequestLimits = RequestLimits {
        arguments: 1 << 20,
        argument_size: 8 << 20,
        size: 16 << 20,
    };

    fn cut(input: &[u8]) -> (Vec<Vec<Vec<u8>>>, Result<(), ProtocolError>, usize) {
        let mut input = input.to_vec();
        let mut parser = RequestParser::default();
        let mut commands = Commands::default();
        let result = parser.parse(&mut input, &LIMITS, usize::MAX, &mut commands);
        (texts(&commands, &input), result, parser.take_consumed())
    }

    fn texts(commands: &Commands, input: &[u8]) -> Vec<Vec<Vec<u8>>> {
        let text = |place: &Range<u32>| input[place.start as usize..place.end as usize].to_vec();
        (0..commands.len())
            .map(|index| commands.places(index).iter().map(text).collect())
            .collect()
    }

    #[test]
    fn arrays_and_lines_are_commands() {
        let (commands, result, consumed) =
            cut(b"*2\r\n$3\r\nGET\r\n$1\r\n\0\r\nPING a\r\n\r\n*0\r\n*-1\r\nping\n*1\r\n$4\r\nQU");
        assert_eq!(
            commands,
            [
                vec![b"GET".to_vec(), b"\0".to_vec()],
                vec![b"PING".to_vec(), b"a".to_vec()],
                vec![b"ping".to_vec()]
            ]
        );
        assert_eq!((result, consumed), (Ok(()), 20 + 8 + 2 + 4 + 5 + 5));
    }

    #[test]
    fn input_in_single_bytes_gives_the_same_commands() {
        let whole = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\nset \"a b\" c\r\n*1\r\n$4\r\nPING\r\n".to_vec();
        let (expected, ..) = cut(&whole);
        let mut parser = RequestParser::default();
        let (mut input, mut found) = (Vec::new(), Vec::new());
        for byte in whole {
            input.push(byte);
            let mut commands = Commands::default();
            parser
                .parse(&mut input, &LIMITS, usize::MAX, &mut commands)
                .unwrap();
            found.extend(texts(&commands, &input));
            input.drain(..parser.take_consumed());
        }
        assert_eq!(found, expected);
        assert!(input.is_empty());
    }

    #[test]
    fn errors_of_the_grammar_are_named() {
        for (input, error) in [
            (&b"*x\r\n"[..], ProtocolError::ArgumentCount),
            (b"*9999999999\r\n", ProtocolError::ArgumentCount),
            (b"*99999999999999999999\r\n", ProtocolError::ArgumentCount),
            (b"*1\n", ProtocolError::ArgumentCount),
            (
                b"*0000000000000000000000000000000000000001",
                ProtocolError::ArgumentCount,
            ),
            (b"*1\r\n:1\r\n", ProtocolError::NotAnArgument(b':')),
            (b"*1\r\n*1\r\n", ProtocolError::NotAnArgument(b'*')),
            (b"*1\r\n$-1\r\n", ProtocolError::ArgumentSize),
            (
                b"*1\r\n$9223372036854775807\r\n",
                ProtocolError::ArgumentSize,
            ),
            (b"*1\r\n$1073741824\r\n", ProtocolError::ArgumentSize),
            (b"*1\r\n$1\r\nabc", ProtocolError::ArgumentEnd),
            (b"set \"a\r\n", ProtocolError::Quotes),
        ] {
            let (commands, result, _) = cut(input);
            assert_eq!(result, Err(error), "{}", input.escape_ascii());
            assert!(commands.is_empty());
        }
        assert_eq!(
            ProtocolError::NotAnArgument(b'\n').to_string(),
            r"expected '$', got '\n'",
            "an error is one line"
        );
    }

    #[test]
    fn commands_before_a_broken_one_are_found() {
        let (commands, result, _) = cut(b"PING\r\n*1\r\n!");
        assert_eq!(commands, [[b"PING".to_vec()]]);
        assert_eq!(result, Err(ProtocolError::NotAnArgument(b'!')));
    }

    #[test]
    fn a_line_that_does_not_end_is_cut_off() {
        assert_eq!(cut(&[b'a'; INLINE_SIZE_MAX]).1, Ok(()));
        assert_eq!(
            cut(&[b'a'; INLINE_SIZE_MAX + 1]).1,
            Err(ProtocolError::InlineSize)
        );
    }

    #[test]
    fn a_request_of_many_arguments_is_cut_off_at_the_limit_of_bytes() {
        let mut input = b"*1048576\r\n".to_vec();
        let argument = [b"$65536\r\n".to_vec(), vec![b'x'; 65536], b"\r\n".to_vec()].concat();
        for _ in 0..=256 {
            input.extend(&argument);
        }
        assert_eq!(cut(&input).1, Err(ProtocolError::RequestSize(LIMITS.size)));
    }

    #[test]
    fn before_the_password_only_small_requests_are_accepted() {
        for (input, error) in [
            (&b"*11\r\n"[..], ProtocolError::UnauthenticatedArgumentCount),
            (
                b"*1\r\n$16385\r\n",
                ProtocolError::UnauthenticatedArgumentSize,
            ),
        ] {
            let mut parser = RequestParser::default();
            let mut commands = Commands::default();
            let result = parser.parse(
                &mut input.to_vec(),
                &RequestLimits::UNAUTHENTICATED,
                1,
                &mut commands,
            );
            assert_eq!(result, Err(error));
        }
    }

    #[test]
    fn a_batch_ends_at_its_bound_and_the_next_one_continues_there() {
        let mut input = b"PING\r\n".repeat(5);
        let mut parser = RequestParser::default();
        let mut counts = Vec::new();
        for _ in 0..4 {
            let mut commands = Commands::default();
            parser.parse(&mut input, &LIMITS, 2, &mut commands).unwrap();
            counts.push(commands.len());
        }
        assert_eq!(counts, [2, 2, 1, 0]);
    }

    #[test]
    fn numbers_are_decimal_and_whole() {
        assert_eq!(decimal(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(decimal(b"9223372036854775807"), Some(i64::MAX));
        assert_eq!(decimal(b"0"), Some(0));
        for text in [
            &b""[..],
            b"-",
            b"-0",
            b"007",
            b"+1",
            b" 1",
            b"1 ",
            b"1.0",
            b"9223372036854775808",
            b"0x1",
        ] {
            assert_eq!(decimal(text), None, "{}", text.escape_ascii());
        }
    }
}
