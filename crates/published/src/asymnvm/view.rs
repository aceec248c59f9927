//! The memory of an instance as a front-end sees it: its cache, what it has published and what is not applied, and
//! the back-end.

use std::collections::BTreeMap;
use std::rc::Rc;

use stonecast_base::Span;
use stonecast_media::PersistentRegion;
use stonecast_structures::Territory;
use stonecast_structures::shapes::{Places, Stale, Step, Traversal};

use super::cache::{Cache, overlay};
use super::layout::Word;
use super::session::AsymSession;
use crate::PublishedError;

/// Where the data of an instance lie.
pub(super) enum Source {
    /// In the memory of a back-end.
    Remote,
    /// In this machine: the symmetric setting.
    Local(Rc<dyn PersistentRegion>),
}

/// The memory of an instance, for one front-end.
pub(super) struct View {
    pub session: AsymSession,
    pub source: Source,
    pub territory: Territory,
    pub cache: Option<Cache>,
    /// Bytes of a READ, at most.
    pub read_size_max: u64,
    /// Published words that may not be applied, each with the end of its transaction.
    unapplied: BTreeMap<u64, (u64, u64)>,
}

impl View {
    pub fn new(session: AsymSession, source: Source, cache: Option<Cache>) -> Self {
        let territory = session.layout.territory(session.instance);
        Self {
            session,
            source,
            territory,
            cache,
            read_size_max: u64::MAX,
            unapplied: BTreeMap::new(),
        }
    }

    /// Drives a traversal. Everything that it does not know comes from here.
    pub async fn drive<T: Traversal>(
        &mut self,
        mut traversal: T,
    ) -> Result<Result<T::End, Stale>, PublishedError> {
        let (mut bytes, mut level) = (Vec::new(), 0);
        loop {
            let places = match traversal.step(&bytes) {
                Step::Done(end) => return Ok(Ok(end)),
                Step::Stale(stale) => return Ok(Err(stale)),
                Step::Read(places) => places,
            };
            let mut spans = places.iter().map(|place| place.span);
            if let Some(place) = spans.find(|span| !self.territory.holds(*span)) {
                let what = "memory of the instance";
                return Ok(Err(Stale { place, what }));
            }
            bytes = self.fetch(&places, level).await?;
            level += 1;
        }
    }

    async fn fetch(
        &mut self,
        places: &Places,
        level: usize,
    ) -> Result<Vec<Vec<u8>>, PublishedError> {
        if let Source::Local(memory) = &self.source {
            let read = |span: Span| {
                let mut bytes = vec![0; span.size as usize];
                memory.read(span.offset, &mut bytes);
                bytes
            };
            return Ok(places.iter().map(|place| read(place.span)).collect());
        }
        let known: Vec<Option<Vec<u8>>> = places
            .iter()
            .map(|place| self.cache.as_mut().and_then(|cache| cache.find(place.span)))
            .collect();
        let mut missing: Vec<Span> = Vec::new();
        for (place, known) in places.iter().zip(&known) {
            if known.is_none() {
                missing.push(place.span);
            }
        }
        let mut read = self.read(missing).await?.into_iter();
        let bytes = places.iter().zip(known).map(|(place, known)| {
            known.unwrap_or_else(|| {
                let bytes = read.next().expect("each missing place was read");
                if let Some(cache) = &mut self.cache {
                    cache.keep(place.span, &bytes, level);
                }
                bytes
            })
        });
        Ok(bytes.collect())
    }

    /// Reads places of the back-end, and puts published words over them. LPN comes with the same doorbell.
    async fn read(&mut self, mut spans: Vec<Span>) -> Result<Vec<Vec<u8>>, PublishedError> {
        if spans.is_empty() {
            return Ok(Vec::new());
        }
        let asks = !self.unapplied.is_empty();
        if asks {
            let (layout, instance) = (self.session.layout, self.session.instance);
            spans.push(Span::new(layout.word(instance, Word::Applied), 8));
        }
        // Only what was applied before these READs is in all of them, so words go at the next look.
        let mut read = self
            .session
            .read_in_pieces(&spans, self.read_size_max)
            .await?;
        let applied = asks.then(|| read.pop()).flatten();
        for (span, bytes) in spans.iter().zip(&mut read) {
            let first = span.offset.saturating_sub(7);
            for (place, (word, _)) in self.unapplied.range(first..span.offset + span.size) {
                overlay(*span, bytes, *place, &word.to_le_bytes());
            }
        }
        if let Some(applied) = applied {
            let applied = u64::from_le_bytes(*applied.first_chunk().expect("a word"));
            self.unapplied.retain(|_, (_, end)| *end > applied);
        }
        Ok(read)
    }

    /// Notes words of a transaction that ends at `end` of the memory log.
    pub fn note_published(&mut self, offset: u64, data: &[u8], end: Option<u64>) {
        if let Some(cache) = &mut self.cache {
            cache.patch(offset, data);
        }
        let Some(end) = end else {
            return;
        };
        for (index, word) in data.as_chunks::<8>().0.iter().enumerate() {
            let place = offset + index as u64 * 8;
            self.unapplied
                .insert(place, (u64::from_le_bytes(*word), end));
        }
    }
}
