//! The text of a profile.

use std::fmt::Display;
use std::ops::Range;
use std::str::FromStr;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use stonecast_media::{Ddio, PersistenceDomain, ReceiveBuffers};
use toml::Spanned;

use crate::platform::{Axis, FlushKind, Platform, Transport};

use super::{Declaration, PlatformProfile, PortDdio, ProfileError};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: Spanned<String>,
    summary: String,
    persistence: Declared<Word<PersistenceDomain>>,
    ddio: Declared<Word<DdioAnswer>>,
    receive_buffers: Declared<Word<ReceiveBuffers>>,
    transport: Declared<Word<Transport>>,
    flush: Declared<Word<FlushKind>>,
    atomic_write: Declared<bool>,
    relaxed_ordering: Declared<bool>,
    trusted_nic_buffers: Declared<bool>,
    #[serde(default)]
    port: Vec<Port>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Port {
    name: Spanned<String>,
    ddio: Declared<Word<DdioAnswer>>,
}

/// A value with its source.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Declared<T> {
    value: Spanned<T>,
    by: Spanned<String>,
    evidence: Spanned<String>,
}

/// A choice by its word; the error of an unknown word lists the known ones.
struct Word<T>(T);

impl<'de, T: FromStr<Err: Display>> Deserialize<'de> for Word<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map(Self)
            .map_err(D::Error::custom)
    }
}

impl<T: Display> Display for Word<T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(formatter)
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
        persistence: file.persistence.value.get_ref().0,
        ddio: file.ddio.value.get_ref().0.state(),
        receive_buffers: file.receive_buffers.value.get_ref().0,
        transport: file.transport.value.get_ref().0,
        flush: file.flush.value.get_ref().0,
        atomic_write: *file.atomic_write.value.get_ref(),
        relaxed_ordering: *file.relaxed_ordering.value.get_ref(),
        trusted_nic_buffers: *file.trusted_nic_buffers.value.get_ref(),
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
            ddio: port.ddio.value.get_ref().0.state() == Ddio::On,
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
    fn declaration<T: Display>(
        &self,
        axis: Axis,
        port: Option<String>,
        declared: &Declared<T>,
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
        let value = declared.value.get_ref().to_string();
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
