//! What only the gateway knows, asked for at its admin port.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// The admin port answers from memory, after one question to the store.
const PATIENCE: Duration = Duration::from_secs(3);
/// Longer than any status.
const STATUS_SIZE_MAX: u64 = 1 << 20;

/// The `gateway` part of `/status`. An error is for people.
pub fn status(admin: SocketAddr) -> Result<Value, String> {
    let failed = |error: std::io::Error| format!("{admin} does not answer: {error}");
    let mut stream = TcpStream::connect_timeout(&admin, PATIENCE).map_err(failed)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    write!(
        stream,
        "GET /status HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\r\n"
    )
    .map_err(failed)?;
    let mut answer = Vec::new();
    stream
        .take(STATUS_SIZE_MAX)
        .read_to_end(&mut answer)
        .map_err(failed)?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .ok_or_else(|| format!("{admin} does not speak HTTP (is it TLS?)"))?;
    match head.split(' ').nth(1) {
        Some("200") => {}
        Some("401") => {
            return Err(format!(
                "{admin} asks for a password; ask it yourself, at /status"
            ));
        }
        _ => {
            return Err(format!(
                "{admin} answers {}",
                head.lines().next().unwrap_or_default()
            ));
        }
    }
    let status: Value =
        serde_json::from_str(body).map_err(|_| format!("{admin} is no admin port of stonecast"))?;
    status
        .get("gateway")
        .cloned()
        .ok_or_else(|| format!("{admin} is no admin port of stonecast"))
}

/// For people.
pub fn rows(status: &Value) -> Vec<(&'static str, String)> {
    let number = |name: &str| status[name].as_u64().unwrap_or(0);
    let commands = status["commands"].as_object().map(|commands| {
        let mut counts: Vec<(&String, u64)> = commands
            .iter()
            .map(|(name, count)| (name, count.as_u64().unwrap_or(0)))
            .collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        counts
            .iter()
            .map(|(name, count)| format!("{count} {name}"))
            .collect::<Vec<_>>()
            .join(", ")
    });
    let time = |kind: &str| {
        let microseconds = |name: &str| match status["latency"][kind][name].as_u64() {
            Some(time) => format!("{:.1} us", time as f64 / 1e3),
            None => "-".to_owned(),
        };
        format!(
            "{} on average, 99 % at most {}",
            microseconds("mean_ns"),
            microseconds("p99_ns")
        )
    };
    vec![
        (
            "gateway",
            status["resp"]
                .as_str()
                .unwrap_or("no Redis clients, metrics alone")
                .to_owned(),
        ),
        (
            "connections",
            format!(
                "{} of at most {}; {} accepted, {} refused, {} cut off",
                number("connections"),
                number("connections_max"),
                number("connections_accepted"),
                number("connections_refused"),
                number("connections_cut")
            ),
        ),
        (
            "commands",
            commands
                .filter(|text| !text.is_empty())
                .unwrap_or_else(|| "none".to_owned()),
        ),
        (
            "errors",
            format!(
                "{} replies, {} broken requests",
                number("error_replies"),
                number("protocol_errors")
            ),
        ),
        ("reading", time("read")),
        ("writing", time("write")),
    ]
}
