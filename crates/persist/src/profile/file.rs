//! The text of a profile.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use serde::Deserialize;
use serde::de::{Deserializer, Visitor};
use stonecast_media::{Ddio, UnknownName};
use toml::Spanned;

use crate::platform::{Axis, Platform};

use super::{Declaration, PlatformProfile, PortDdio, ProfileError};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: Spanned<String>,
    summary: String,
    persistence: Declared,
    ddio: Declared,
    receive_buffers: Declared,
    transport: Declared,
    flush: Declared,
    atomic_write: Declared,
    relaxed_ordering: Declared,
    trusted_nic_buffers: Declared,
    #[serde(default)]
    port: Vec<Port>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Port {
    name: Spanned<String>,
    ddio: Declared,
}

/// A value with its source. One type for all values: the code that reads a type with all its errors is long.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Declared {
    value: Spanned<Value>,
    by: Spanned<String>,
    evidence: Spanned<String>,
}

enum Value {
    Word(String),
    Switch(bool),
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl Visitor<'_> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a string or a boolean")
    }

    fn visit_str<E>(self, word: &str) -> Result<Value, E> {
        Ok(Value::Word(word.to_owned()))
    }

    fn visit_bool<E>(self, is_on: bool) -> Result<Value, E> {
        Ok(Value::Switch(is_on))
    }
}

/// DDIO, as far as it is known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DdioAnswer {
    On,
    Off,
    /// Unexamined or undetectable: treated as on.
    Unknown,
}

crate::words::words! { DdioAnswer, "DDIO state", "on, off or unknown (which counts as on)",
    On = "on";
    Off = "off";
    Unknown = "unknown";
}

impl DdioAnswer {
    fn state(self) -> Ddio {
        if self == Self::Off {
            Ddio::Off
        } else {
            Ddio::On
        }
    }
}

/// Parses a profile, as [`PlatformProfile::parse`] describes.
pub(super) fn parse(origin: &str, text: &str) -> Result<PlatformProfile, ProfileError> {
    let source = Source { origin, text };
    let file: File = toml::from_str(text)
        .map_err(|error| source.invalid(error.span(), error.message().to_owned()))?;
    if file.name.get_ref().trim().is_empty() {
        return Err(source.invalid(
            Some(file.name.span()),
            "the name is empty; give the profile a name".to_owned(),
        ));
    }
    let platform = Platform {
        persistence: source.word(&file.persistence)?,
        ddio: source.word::<DdioAnswer>(&file.ddio)?.state(),
        receive_buffers: source.word(&file.receive_buffers)?,
        transport: source.word(&file.transport)?,
        flush: source.word(&file.flush)?,
        atomic_write: source.switch(&file.atomic_write)?,
        relaxed_ordering: source.switch(&file.relaxed_ordering)?,
        trusted_nic_buffers: source.switch(&file.trusted_nic_buffers)?,
    };
    if let Err(contradiction) = platform.check() {
        let (line, column) = source.place(Some(file.span_of(contradiction.axis)));
        return Err(ProfileError::Contradiction {
            origin: origin.to_owned(),
            line,
            column,
            contradiction,
        });
    }
    let mut declarations = vec![
        source.declaration(Axis::Persistence, None, &file.persistence)?,
        source.declaration(Axis::Ddio, None, &file.ddio)?,
        source.declaration(Axis::ReceiveBuffers, None, &file.receive_buffers)?,
        source.declaration(Axis::Transport, None, &file.transport)?,
        source.declaration(Axis::Flush, None, &file.flush)?,
        source.declaration(Axis::AtomicWrite, None, &file.atomic_write)?,
        source.declaration(Axis::RelaxedOrdering, None, &file.relaxed_ordering)?,
        source.declaration(Axis::TrustedNicBuffers, None, &file.trusted_nic_buffers)?,
    ];
    let mut ports: Vec<PortDdio> = Vec::with_capacity(file.port.len());
    for port in &file.port {
        let name = port.name.get_ref();
        if ports.iter().any(|earlier| earlier.port == *name) {
            let problem = format!("port {name:?} is declared twice; keep one");
            return Err(source.invalid(Some(port.name.span()), problem));
        }
        declarations.push(source.declaration(Axis::Ddio, Some(name.clone()), &port.ddio)?);
        ports.push(PortDdio {
            port: name.clone(),
            ddio: source.word::<DdioAnswer>(&port.ddio)?.state() == Ddio::On,
        });
    }
    Ok(PlatformProfile {
        name: file.name.into_inner(),
        summary: file.summary,
        platform,
        ports,
        declarations,
    })
}

impl File {
    fn span_of(&self, axis: Axis) -> Range<usize> {
        match axis {
            Axis::Persistence => self.persistence.value.span(),
            Axis::Ddio => self.ddio.value.span(),
            Axis::ReceiveBuffers => self.receive_buffers.value.span(),
            Axis::Transport => self.transport.value.span(),
            Axis::Flush => self.flush.value.span(),
            Axis::AtomicWrite => self.atomic_write.value.span(),
            Axis::RelaxedOrdering => self.relaxed_ordering.value.span(),
            Axis::TrustedNicBuffers => self.trusted_nic_buffers.value.span(),
        }
    }
}

/// The text of a profile, for locating errors.
struct Source<'a> {
    origin: &'a str,
    text: &'a str,
}

impl Source<'_> {
    /// The choice that a declaration makes by its word; the error of an unknown word lists the known ones.
    fn word<T: FromStr<Err = UnknownName>>(&self, declared: &Declared) -> Result<T, ProfileError> {
        let problem = match declared.value.get_ref() {
            Value::Word(word) => match word.parse() {
                Ok(choice) => return Ok(choice),
                Err(unknown) => unknown.to_string(),
            },
            Value::Switch(is_on) => format!("invalid type: boolean `{is_on}`, expected a string"),
        };
        Err(self.invalid(Some(declared.value.span()), problem))
    }

    fn switch(&self, declared: &Declared) -> Result<bool, ProfileError> {
        let problem = match declared.value.get_ref() {
            Value::Switch(is_on) => return Ok(*is_on),
            Value::Word(word) => format!("invalid type: string {word:?}, expected a boolean"),
        };
        Err(self.invalid(Some(declared.value.span()), problem))
    }

    fn declaration(
        &self,
        axis: Axis,
        port: Option<String>,
        declared: &Declared,
    ) -> Result<Declaration, ProfileError> {
        for (text, what) in [
            (&declared.by, "by: who declares it"),
            (&declared.evidence, "evidence: why to believe it"),
        ] {
            if text.get_ref().trim().is_empty() {
                return Err(self.invalid(
                    Some(text.span()),
                    format!("{axis} lacks {what}; \"nobody\" and \"none\" are answers, too"),
                ));
            }
        }
        let value = match declared.value.get_ref() {
            Value::Word(word) => word.clone(),
            Value::Switch(is_on) => is_on.to_string(),
        };
        let (by, evidence) = (
            declared.by.get_ref().clone(),
            declared.evidence.get_ref().clone(),
        );
        Ok(Declaration {
            axis,
            port,
            value,
            by,
            evidence,
        })
    }

    fn invalid(&self, span: Option<Range<usize>>, problem: String) -> ProfileError {
        let (line, column) = self.place(span);
        ProfileError::Invalid {
            origin: self.origin.to_owned(),
            line,
            column,
            problem,
        }
    }

    /// Line and column of the start of a span; the start of the text if there is none.
    fn place(&self, span: Option<Range<usize>>) -> (usize, usize) {
        let start = span.map_or(0, |span| span.start.min(self.text.len()));
        let before = self.text.get(..start).unwrap_or(self.text);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        let column = before
            .rsplit('\n')
            .next()
            .map_or(0, |last| last.chars().count())
            + 1;
        (line, column)
    }
}
