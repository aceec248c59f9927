//! The request parser against hostile input: mutated requests, cut into random pieces.
//!
//! The test runs for STONECAST_FUZZ_SECONDS seconds, from a seed taken from the clock; without that variable, for two
//! seconds from seed zero. A failure prints its seed, and STONECAST_FUZZ_SEED sets the first seed to repeat it.

use std::ops::Range;
use std::time::{Duration, Instant};

use rand::RngExt as _;
use stonecast_base::{Random, random_from_seed};

use super::{Commands, ProtocolError, RequestLimits, RequestParser};

const LIMITS: RequestLimits = RequestLimits {
    arguments: 1 << 20,
    argument_size: 1 << 20,
    size: 2 << 20,
};

type Outcome = (Vec<Vec<Vec<u8>>>, Result<(), ProtocolError>);

/// Parses a stream that arrives in pieces, as a connection does.
fn parse(pieces: &[&[u8]], limits: &RequestLimits) -> Outcome {
    let mut parser = RequestParser::default();
    let (mut input, mut commands, mut found) = (Vec::new(), Commands::default(), Vec::new());
    for piece in pieces {
        input.extend_from_slice(piece);
        loop {
            commands.clear();
            let result = parser.parse(&mut input, limits, 7, &mut commands);
            let text =
                |place: &Range<u32>| input[place.start as usize..place.end as usize].to_vec();
            found.extend(
                (0..commands.len())
                    .map(|index| commands.places(index).iter().map(text).collect::<Vec<_>>()),
            );
            assert!(
                parser.memory() <= 64 * input.len() + 4096,
                "{} bytes for {} of input",
                parser.memory(),
                input.len()
            );
            if result.is_err() {
                return (found, result);
            }
            if commands.len() < 7 {
                break;
            }
        }
        input.drain(..parser.take_consumed());
        assert!(
            input.len() as u64 <= limits.size + piece.len() as u64,
            "what is kept has a bound"
        );
    }
    (found, Ok(()))
}

fn draw_bytes(random: &mut Random, most: usize) -> Vec<u8> {
    (0..random.random_range(0..=most))
        .map(|_| random.random())
        .collect()
}

/// Some requests, most of them valid.
fn draw_stream(random: &mut Random) -> Vec<u8> {
    let mut stream = Vec::new();
    for _ in 0..random.random_range(1..12) {
        match random.random_range(0..10) {
            0 => stream.extend(b"PING\r\n"),
            1 => stream.extend(b"set k \"a\\x00b c\" 'd'\n"),
            2 => stream.extend(b"*1\r\n".repeat(random.random_range(1..50))),
            3 => {
                const NUMBERS: [i64; 8] = [
                    i64::MAX,
                    i64::MIN,
                    -1,
                    0,
                    1 << 31,
                    1 << 32,
                    1 << 20,
                    (1 << 20) + 1,
                ];
                let number = NUMBERS[random.random_range(0..NUMBERS.len())];
                let kind = if random.random() { "*" } else { "*1\r\n$" };
                stream.extend(format!("{kind}{number}\r\n").bytes());
            }
            4 => stream.extend(draw_bytes(random, 40)),
            _ => {
                let arguments = random.random_range(1..6);
                stream.extend(format!("*{arguments}\r\n").bytes());
                for _ in 0..arguments {
                    let bytes = draw_bytes(random, 60);
                    stream.extend(format!("${}\r\n", bytes.len()).bytes());
                    stream.extend(bytes);
                    stream.extend(b"\r\n");
                }
            }
        }
    }
    for _ in 0..random.random_range(0..3) {
        let at = random.random_range(0..=stream.len());
        match random.random_range(0..4) {
            0 if at < stream.len() => stream[at] = random.random(),
            1 if at < stream.len() => drop(stream.remove(at)),
            2 => stream.insert(at, b"*$\r\n:-0 9"[random.random_range(0..9)]),
            _ => stream.truncate(at),
        }
    }
    stream
}

fn cut<'s>(random: &mut Random, stream: &'s [u8]) -> Vec<&'s [u8]> {
    let mut pieces = Vec::new();
    let mut rest = stream;
    while !rest.is_empty() {
        let most = 1 << random.random_range(0..10);
        let size = random.random_range(1..=rest.len().min(most));
        let (piece, after) = rest.split_at(size);
        pieces.push(piece);
        rest = after;
    }
    pieces
}

/// The named seed; otherwise a new seed if the run's length is given, and 0 if not.
fn first_seed() -> u64 {
    let named = std::env::var("STONECAST_FUZZ_SEED")
        .ok()
        .and_then(|text| text.parse().ok());
    let is_long = std::env::var_os("STONECAST_FUZZ_SECONDS").is_some();
    let clock = || {
        std::time::UNIX_EPOCH
            .elapsed()
            .map_or(0, |time| time.as_secs() << 20)
    };
    named.unwrap_or_else(|| if is_long { clock() } else { 0 })
}

fn fuzz(seed: u64) {
    let mut random = random_from_seed(seed);
    let stream = draw_stream(&mut random);
    let limits = if random.random_bool(0.2) {
        RequestLimits::UNAUTHENTICATED
    } else {
        LIMITS
    };
    let whole = parse(&[&stream], &limits);
    for _ in 0..3 {
        let pieces = cut(&mut random, &stream);
        assert_eq!(
            parse(&pieces, &limits),
            whole,
            "seed {seed}: the pieces must not matter"
        );
    }
}

#[test]
fn hostile_streams_cost_bounded_memory_and_mean_the_same_however_they_are_cut() {
    let seconds = std::env::var("STONECAST_FUZZ_SECONDS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(2.0);
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let first = first_seed();
    let mut seed = first;
    while Instant::now() < end {
        let outcome = std::panic::catch_unwind(|| fuzz(seed));
        assert!(
            outcome.is_ok(),
            "seed {seed}: STONECAST_FUZZ_SEED={seed} shows it again"
        );
        seed += 1;
    }
    let streams = seed - first;
    println!("{streams} streams from seed {first}");
    assert!(streams > 100, "{streams} streams are no test");
}

#[test]
fn a_promise_costs_nothing_until_it_is_kept() {
    for stream in [
        &b"*1048576\r\n"[..],
        b"*2\r\n$3\r\nGET\r\n$1048576\r\n",
        b"*1\r\n$1048576\r\nx",
    ] {
        let mut parser = RequestParser::default();
        let mut commands = Commands::default();
        parser
            .parse(&mut stream.to_vec(), &LIMITS, 7, &mut commands)
            .unwrap();
        assert!(parser.memory() < 4096, "{}", stream.escape_ascii());
    }
}

/// Needs the grammar to be flat: a recursive parser runs out of stack.
#[test]
fn nested_arrays_end_at_the_second_level() {
    let stream = b"*1\r\n".repeat(200_000);
    let (commands, result) = parse(&[&stream], &LIMITS);
    assert!(commands.is_empty());
    assert_eq!(result, Err(ProtocolError::NotAnArgument(b'*')));
}
