//! One examination of a segment, for recovery and for inspection alike: header, seal, records, rules.

use stonecast_base::Corruption;
use stonecast_media::Region;

use crate::format::{LogFormat, SEGMENT_HEADER_UNITS};
use crate::judge::{Judge, Loss, Place};
use crate::record::{RecordFault, RecordHeader};
use crate::recovery::{SegmentReport, SegmentVerdict};
use crate::seal::Seal;
use crate::segment::{self, HeaderFound, SegmentKind};
use crate::state::SegmentState;
use crate::walk::{Found, Sink, Source, walk};

/// The generation of a segment without evidence of another one.
const FIRST_GENERATION: u32 = 1;

/// Receives the findings of an examination, and decides whether it continues after a loss.
pub(crate) trait Listener {
    /// Receives records that are not void, in ascending order of position.
    fn records(&mut self, batch: &[Found<'_>]);
    /// Receives a stamped header whose record is not whole.
    fn torn(&mut self, position: u64, header: &RecordHeader, fault: RecordFault);
    /// Receives the newest seal.
    fn seal(&mut self, seal: &Seal);
    /// Receives a loss that no crash explains.
    fn loss(&mut self, loss: Loss) -> Result<(), Corruption>;
}

/// Examines segment `number`, from its start or from the unit up to which a checkpoint knows it.
pub(crate) fn examine(
    region: &dyn Region,
    place: Place<'_>,
    from: Option<&SegmentState>,
    listener: &mut dyn Listener,
) -> Result<SegmentVerdict, Corruption> {
    let Place { format, number, .. } = place;
    assert!(
        number < format.segment_count,
        "segment {number} of {}",
        format.segment_count
    );
    assert!(
        from.is_none_or(|known| known.number == number),
        "the caller finds a checkpoint's segment by its number"
    );
    let (generation, header_whole) = match segment::read(region, format, number) {
        HeaderFound::Valid {
            kind: SegmentKind::Appends,
            generation,
            both,
        } => return appended(region, &place, from, (generation, both), listener),
        HeaderFound::Valid {
            kind: SegmentKind::Records,
            generation,
            both,
        } => (generation, both),
        HeaderFound::Lost { written } => {
            match generation_without_header(region, &place, from, listener)? {
                Some(generation) => (generation, false),
                None => {
                    return Ok(SegmentVerdict::Free {
                        torn_header: written,
                    });
                }
            }
        }
        HeaderFound::Foreign { number, uuid } => {
            hear_foreign_header(&place, (number, uuid), listener)?;
            let generation = generation_without_header(region, &place, from, listener)?;
            (generation.unwrap_or(FIRST_GENERATION), false)
        }
    };
    let mut examination = Examination {
        place,
        listener,
        losses: 0,
        torn_at: None,
        report: SegmentReport::default(),
    };
    let seal = examination.newest_seal(region, generation)?;
    let judge = examination.judge(seal, from, generation)?;
    let start = judge.start();
    let source = Source {
        region,
        format,
        number,
        generation: Some(generation),
    };
    let mut judged = Judged { judge, examination };
    let walked = walk(source, start, &mut judged)?;
    let Judged {
        mut judge,
        mut examination,
    } = judged;
    examination.hear(judge.finish())?;
    let gap = judge.gap();
    let torn_at = gap.into_iter().chain(examination.torn_at).min();
    let mut state = judge.into_state();
    let report = SegmentReport {
        bytes_scanned: walked.bytes,
        whole_end: gap.unwrap_or(state.end),
        torn_tail: torn_at.map(|unit| format.position(number, unit)),
        header_damaged: !header_whole,
        ..examination.report
    };
    if examination.losses > 0 {
        // The seal contradicts the segment.
        state.seal_end = 0;
    }
    Ok(SegmentVerdict::Used(state, report))
}

/// Tells `listener` that the header in the place of a segment's own is that of another segment.
fn hear_foreign_header(
    place: &Place<'_>,
    (number, uuid): (u32, u128),
    listener: &mut dyn Listener,
) -> Result<(), Corruption> {
    let found = format!("the header of segment {number} of pool {}", pool_name(uuid));
    let expected = format!(
        "the header of segment {} of pool {}, or none",
        place.number,
        pool_name(place.format.uuid)
    );
    let corruption = place.corruption("segment header", 0, found, expected);
    listener.loss(Loss {
        records: 0,
        corruption,
    })
}

/// The verdict on a segment that appends fill: none of its bytes is searched for records.
fn appended(
    region: &dyn Region,
    place: &Place<'_>,
    from: Option<&SegmentState>,
    (generation, both): (u32, bool),
    listener: &mut dyn Listener,
) -> Result<SegmentVerdict, Corruption> {
    if let Some(known) = from.filter(|known| known.generation > generation) {
        let found = format!("generation {generation}, filled by appends");
        let expected = format!("at least {}: the checkpoint knows it", known.generation);
        listener.loss(Loss {
            records: known.count.into(),
            corruption: place.corruption("segment header", 0, found, expected),
        })?;
    }
    let (seal, damage) = Seal::newest(region, place, generation);
    let lost = (seal.is_none() && generation > FIRST_GENERATION).then(|| {
        let expected = format!("one of generation {generation}, with the log's heritage");
        place.corruption("segment seal", 1, "no whole seal".to_owned(), expected)
    });
    for corruption in damage.into_iter().chain(lost) {
        let records = 0;
        listener.loss(Loss {
            records,
            corruption,
        })?;
    }
    let state = SegmentState {
        seal_serial: seal.map_or(0, |seal| seal.serial),
        heritage: seal.map_or_else(Default::default, |seal| seal.heritage),
        ..SegmentState::fresh(place.number, generation)
    };
    Ok(SegmentVerdict::Appended {
        state,
        header_damaged: !both,
    })
}

struct Examination<'a, 'l> {
    place: Place<'a>,
    listener: &'l mut dyn Listener,
    losses: u64,
    torn_at: Option<u32>,
    report: SegmentReport,
}

impl<'a> Examination<'a, '_> {
    fn hear(&mut self, outcome: Result<(), Loss>) -> Result<(), Corruption> {
        let Err(loss) = outcome else { return Ok(()) };
        self.losses += 1;
        self.report.missing += loss.records;
        self.listener.loss(loss)
    }

    /// The newest seal of the segment, and tells the listener what it found.
    fn newest_seal(
        &mut self,
        region: &dyn Region,
        generation: u32,
    ) -> Result<Option<Seal>, Corruption> {
        let (seal, damage) = Seal::newest(region, &self.place, generation);
        if let Some(seal) = &seal {
            self.listener.seal(seal);
        }
        self.hear(damage.map_or(Ok(()), |corruption| {
            Err(Loss {
                records: 0,
                corruption,
            })
        }))?;
        Ok(seal)
    }

    /// A judge that starts from the checkpoint's knowledge, if that is possible.
    fn judge(
        &mut self,
        seal: Option<Seal>,
        from: Option<&SegmentState>,
        generation: u32,
    ) -> Result<Judge<'a>, Corruption> {
        let place = self.place;
        if let Some(known) = from.filter(|known| known.generation > generation) {
            let found = format!("generation {generation}");
            let expected = format!("at least {}: the checkpoint knows it", known.generation);
            let corruption = place.corruption("segment header", 0, found, expected);
            self.hear(Err(Loss {
                records: known.count.into(),
                corruption,
            }))?;
        }
        // A segment with another generation than in the checkpoint is examined from its start.
        if let Some(known) = from.filter(|known| known.generation == generation) {
            match Judge::new(place, seal, *known) {
                Ok(judge) => return Ok(judge),
                Err(corruption) => self.hear(Err(Loss {
                    records: 0,
                    corruption,
                }))?,
            }
        }
        let fresh = SegmentState::fresh(place.number, generation);
        Ok(Judge::new(place, seal, fresh)
            .unwrap_or_else(|_| unreachable!("without a checkpoint no seal contradicts one")))
    }
}

struct Judged<'a, 'l> {
    judge: Judge<'a>,
    examination: Examination<'a, 'l>,
}

impl Sink for Judged<'_, '_> {
    fn records(&mut self, batch: &[Found<'_>]) -> Result<(), Corruption> {
        let Self { judge, examination } = self;
        let report = &mut examination.report;
        report.records += batch.iter().filter(|found| !found.is_void).count() as u64;
        report.sequence_max = batch
            .iter()
            .map(|found| found.header.sequence())
            .fold(report.sequence_max, u64::max);
        let mut told = 0;
        for (index, found) in batch.iter().enumerate() {
            let judged = judge.record(found);
            if judged.is_err() || found.is_void {
                examination.listener.records(&batch[told..index]);
                told = index + usize::from(found.is_void);
            }
            examination.hear(judged)?;
        }
        examination.listener.records(&batch[told..]);
        Ok(())
    }

    fn torn(
        &mut self,
        position: u64,
        header: &RecordHeader,
        fault: RecordFault,
    ) -> Result<(), Corruption> {
        let Self { judge, examination } = self;
        if let Some(unit) = judge.torn(position) {
            examination.torn_at.get_or_insert(unit);
        }
        examination.listener.torn(position, header, fault);
        Ok(())
    }
}

/// The generation of a segment without a valid copy of the header; `None` if the segment was never
/// used.
///
/// The header is persisted together with the first records. So a crash destroys it only in a
/// segment in which nothing was durable, and each stamp there says so. Whole records then count
/// like others of a torn batch. The segment may have its first seal, if a crash came while recovery
/// settled the segment.
fn generation_without_header(
    region: &dyn Region,
    place: &Place<'_>,
    from: Option<&SegmentState>,
    listener: &mut dyn Listener,
) -> Result<Option<u32>, Corruption> {
    let mut traces = Traces::new(place.format);
    let source = Source {
        region,
        format: place.format,
        number: place.number,
        generation: None,
    };
    let walked = walk(source, SEGMENT_HEADER_UNITS, &mut traces)?;
    let generation = traces
        .generations
        .map_or(FIRST_GENERATION, |(_, newest)| newest);
    let (seal, _) = Seal::newest(region, place, generation);
    // Each segment that a checkpoint knows had a durable header.
    let proof = if let Some(known) = from {
        let (generation, count) = (known.generation, known.count);
        Some(format!(
            "the checkpoint knows generation {generation} with {count} records"
        ))
    } else if traces.durable > SEGMENT_HEADER_UNITS {
        Some(format!(
            "the record at unit {} was stamped when others were durable",
            traces.durable_unit
        ))
    } else if let Some((oldest, newest)) = traces
        .generations
        .filter(|(oldest, newest)| oldest != newest)
    {
        Some(format!(
            "there are records of generations {oldest} and {newest}"
        ))
    } else {
        seal.filter(|seal| seal.serial > 1)
            .map(|seal| format!("there is seal {}", seal.serial))
    };
    if let Some(proof) = proof {
        let corruption = place.corruption(
            "segment header",
            0,
            "no valid copy".to_owned(),
            format!("a header: {proof}"),
        );
        listener.loss(Loss {
            records: 0,
            corruption,
        })?;
    }
    let used = traces.generations.is_some() || walked.remains || seal.is_some() || from.is_some();
    Ok(used.then_some(generation))
}

/// A pool's UUID as shown to users.
fn pool_name(uuid: u128) -> String {
    let digits = format!("{uuid:032x}");
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]);
    parts.join("-")
}

/// Collects, from stamps, the facts about a segment whose header is lost.
struct Traces<'a> {
    format: &'a LogFormat,
    generations: Option<(u32, u32)>,
    durable: u32,
    durable_unit: u32,
}

impl<'a> Traces<'a> {
    fn new(format: &'a LogFormat) -> Self {
        Self {
            format,
            generations: None,
            durable: SEGMENT_HEADER_UNITS,
            durable_unit: 0,
        }
    }

    fn note(&mut self, position: u64, header: &RecordHeader) {
        let generation = header.generation();
        let (oldest, newest) = self.generations.unwrap_or((generation, generation));
        self.generations = Some((oldest.min(generation), newest.max(generation)));
        if header.durable() > self.durable {
            self.durable = header.durable();
            self.durable_unit = self.format.locate(position).1;
        }
    }
}

impl Sink for Traces<'_> {
    fn records(&mut self, batch: &[Found<'_>]) -> Result<(), Corruption> {
        batch
            .iter()
            .for_each(|found| self.note(found.position, &found.header));
        Ok(())
    }

    fn torn(
        &mut self,
        position: u64,
        header: &RecordHeader,
        _: RecordFault,
    ) -> Result<(), Corruption> {
        self.note(position, header);
        Ok(())
    }
}
