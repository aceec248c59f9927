//! The part of HTTP/1.1 that is needed at a port that answers one request of each connection.
//!
//! The head of a request decides the answer. A body is not read, so it need not be understood: the connection ends
//! after the answer.

use std::sync::Arc;
use std::time::SystemTime;

/// Longest head of a request, in bytes.
pub const HEAD_SIZE_MAX: usize = 16 << 10;
/// The most header fields of a request.
const FIELDS_MAX: usize = 100;

/// The status of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Ok,
    BadRequest,
    Unauthorized,
    NotFound,
    MethodNotAllowed,
    HeadTooLarge,
    ServiceUnavailable,
}

impl Status {
    fn line(self) -> &'static str {
        match self {
            Self::Ok => "200 OK",
            Self::BadRequest => "400 Bad Request",
            Self::Unauthorized => "401 Unauthorized",
            Self::NotFound => "404 Not Found",
            Self::MethodNotAllowed => "405 Method Not Allowed",
            Self::HeadTooLarge => "431 Request Header Fields Too Large",
            Self::ServiceUnavailable => "503 Service Unavailable",
        }
    }
}

/// The parts of a request's head that matter here.
#[derive(Debug, PartialEq, Eq)]
pub struct Head {
    pub method: String,
    /// The path of the target, without a query.
    pub path: String,
    /// The values of `Accept`, in their order.
    pub accept: Vec<String>,
    pub authorization: Option<String>,
}

impl Head {
    /// Parses the bytes that have arrived. `Ok(None)`: the head is not complete.
    ///
    /// # Errors
    ///
    /// The status that refuses the request.
    pub fn parse(bytes: &[u8]) -> Result<Option<Self>, Status> {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut request = httparse::Request::new(&mut fields);
        match request.parse(bytes) {
            Ok(httparse::Status::Complete(size)) if size <= HEAD_SIZE_MAX => {}
            Ok(httparse::Status::Partial) if bytes.len() < HEAD_SIZE_MAX => return Ok(None),
            Ok(_) | Err(httparse::Error::TooManyHeaders) => return Err(Status::HeadTooLarge),
            Err(_) => return Err(Status::BadRequest),
        }
        let (Some(method), Some(target)) = (request.method, request.path) else {
            return Err(Status::BadRequest);
        };
        let values = |name: &str| {
            let named = move |field: &&httparse::Header<'_>| field.name.eq_ignore_ascii_case(name);
            let fields = request.headers.iter().filter(named);
            // A value that is no text says nothing that this port understands.
            let texts = fields.filter_map(|field| std::str::from_utf8(field.value).ok());
            texts.map(str::to_owned).collect::<Vec<String>>()
        };
        Ok(Some(Self {
            method: method.to_owned(),
            path: path_of(target).to_owned(),
            accept: values("accept"),
            authorization: values("authorization").into_iter().next(),
        }))
    }
}

/// The path of a target in one of its forms: a path with or without a query, or an address.
fn path_of(target: &str) -> &str {
    let scheme = ["http://", "https://"].into_iter().find(|scheme| {
        let start = target.get(..scheme.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    });
    let path = match scheme {
        Some(scheme) => {
            let rest = &target[scheme.len()..];
            rest.find('/').map_or("/", |start| &rest[start..])
        }
        None => target,
    };
    path.split(['?', '#']).next().unwrap_or(path)
}

/// An answer to a request.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: Status,
    /// The media type of the body.
    pub content_type: &'static str,
    /// Name and value of one more header field.
    pub field: Option<(&'static str, &'static str)>,
    pub body: Arc<str>,
}

impl Answer {
    /// A plain-text answer.
    pub fn text(status: Status, words: &'static str) -> Self {
        Self {
            status,
            content_type: "text/plain; charset=utf-8",
            field: None,
            body: words.into(),
        }
    }

    /// The answer with one more header field.
    pub fn with(self, name: &'static str, value: &'static str) -> Self {
        Self {
            field: Some((name, value)),
            ..self
        }
    }

    /// The bytes of the answer, without the body if the request asks for the head alone.
    pub fn encode(&self, is_head_only: bool, now: SystemTime) -> Vec<u8> {
        let mut text = format!(
            "HTTP/1.1 {}\r\ncontent-type: {}\r\ncontent-length: {}\r\ndate: {}\r\nconnection: close\r\n",
            self.status.line(),
            self.content_type,
            self.body.len(),
            httpdate::fmt_http_date(now),
        );
        if let Some((name, value)) = self.field {
            text += &format!("{name}: {value}\r\n");
        }
        text += "\r\n";
        if !is_head_only {
            text += &self.body;
        }
        text.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_complete_with_its_empty_line_and_not_before() {
        let text = b"GET /metrics?x HTTP/1.1\r\nAccept: a\r\nHost: h\r\naccept: b;q=1\r\nAuthorization: Basic x\r\n\r\nbody";
        let head = Head::parse(text).unwrap().unwrap();
        assert_eq!((&*head.method, &*head.path), ("GET", "/metrics"));
        assert_eq!(head.accept, ["a", "b;q=1"]);
        assert_eq!(head.authorization.as_deref(), Some("Basic x"));
        for size in 0..text.len() - "body".len() {
            assert_eq!(Head::parse(&text[..size]), Ok(None), "{size}");
        }
    }

    #[test]
    fn a_target_in_any_form_names_its_path() {
        for (target, path) in [
            ("/healthz", "/healthz"),
            ("/healthz?a/b", "/healthz"),
            ("HTTP://a:1/healthz?x", "/healthz"),
            ("https://a", "/"),
            ("*", "*"),
            ("/../healthz", "/../healthz"),
        ] {
            assert_eq!(path_of(target), path);
        }
    }

    #[test]
    fn a_head_that_never_ends_is_refused() {
        let endless = [b"GET / HTTP/1.1\r\nX: ".as_slice(), &[b'y'; HEAD_SIZE_MAX]].concat();
        assert_eq!(Head::parse(&endless), Err(Status::HeadTooLarge));
        assert_eq!(
            Head::parse(b"*1\r\n$4\r\nPING\r\n"),
            Err(Status::BadRequest)
        );
    }

    #[test]
    fn the_head_alone_tells_the_size_of_the_body() {
        let answer = Answer::text(Status::NotFound, "nothing\n").with("vary", "Accept");
        let text = |is_head_only| {
            String::from_utf8(answer.encode(is_head_only, SystemTime::UNIX_EPOCH)).unwrap()
        };
        let head = "HTTP/1.1 404 Not Found\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: 8\r\n\
                    date: Thu, 01 Jan 1970 00:00:00 GMT\r\nconnection: close\r\nvary: Accept\r\n\r\n";
        assert_eq!(text(true), head);
        assert_eq!(text(false), format!("{head}nothing\n"));
    }
}
