//! Counts of the calls on a store and of their cost, for each of the two paths to the store.
//!
//! ```text
//!   one-sided client --reads, round trips, times: a report at intervals--> server <--asks-- any client
//!   gateway          --the same-------------------------------------------^
//!   the server itself counts writes, their bytes, and the persists that made them durable
//! ```
//!
//! A read does not pass the server, so only the client can count reads. Each client counts in its own memory, measures
//! the time of one call in [`SAMPLE`], and reports to the server at most once a second, at the end of a call, and when
//! the client closes. A read costs two more additions. The reports lack the calls of the last second of a client's
//! activity, and all calls of a killed client since its last report. Reports are believed: a client that lies spoils
//! these numbers and nothing else.

use stonecast_base::Nanoseconds;

use crate::cleaning::Cleaning;
use crate::copying::Copying;
use crate::stat::{COUNTERS, Stat};

/// One call in this many is timed.
pub const SAMPLE: u32 = 64;

/// The path by which a client reaches the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientPath {
    /// The client uses the store's memory itself.
    #[default]
    OneSided,
    /// The client is a gateway, and uses the store's memory for its own clients.
    Gateway,
}

impl ClientPath {
    /// Both paths.
    pub const ALL: [Self; 2] = [Self::OneSided, Self::Gateway];

    /// The path as a label.
    pub fn name(self) -> &'static str {
        match self {
            Self::OneSided => "one-sided",
            Self::Gateway => "gateway",
        }
    }
}

/// Buckets of a histogram of times: up to 250 ns, up to 500 ns, and so on to half a second; and one for all above.
pub const LATENCY_BUCKETS: usize = 23;
const SMALLEST_NS: Nanoseconds = 250;

/// The bucket of a time.
pub fn latency_bucket(time: Nanoseconds) -> usize {
    let steps = time.saturating_sub(1) / SMALLEST_NS;
    ((u64::BITS - steps.leading_zeros()) as usize).min(LATENCY_BUCKETS - 1)
}

/// The largest time of a bucket in nanoseconds; `None` if the bucket has no bound.
pub fn latency_bound(bucket: usize) -> Option<Nanoseconds> {
    (bucket < LATENCY_BUCKETS - 1).then_some(SMALLEST_NS << bucket)
}

/// Times of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// Sum of all times.
    pub sum_ns: u64,
    /// Count of each bucket.
    pub buckets: [u64; LATENCY_BUCKETS],
}

const _: () = assert!(
    LATENCY_BUCKETS < COUNTERS,
    "a histogram with its sum is one page"
);

impl Latencies {
    /// Notes one call.
    pub fn note(&mut self, time: Nanoseconds) {
        self.sum_ns = self.sum_ns.saturating_add(time);
        self.buckets[latency_bucket(time)] += 1;
    }

    /// Adds the times of `other`.
    pub fn add(&mut self, other: &Self) {
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.buckets
            .iter_mut()
            .zip(other.buckets)
            .for_each(|(sum, more)| *sum = sum.saturating_add(more));
    }

    /// The times since `before`.
    pub fn since(&self, before: &Self) -> Self {
        let mut since = *self;
        since.sum_ns = since.sum_ns.saturating_sub(before.sum_ns);
        let counts = since.buckets.iter_mut().zip(before.buckets);
        counts.for_each(|(count, before)| *count = count.saturating_sub(before));
        since
    }

    /// Number of calls.
    pub fn count(&self) -> u64 {
        self.buckets
            .iter()
            .fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// A time that `share` of the calls did not exceed: the bound of a bucket; `None` without calls, or above all
    /// bounds.
    pub fn quantile(&self, share: f64) -> Option<Nanoseconds> {
        let wanted = ((self.count() as f64 * share).ceil() as u64).max(1);
        let mut sum = 0;
        let bucket = self.buckets.iter().position(|count| {
            sum += count;
            sum >= wanted
        });
        bucket.and_then(latency_bound)
    }

    fn from_words(words: &[u64]) -> Self {
        Self {
            sum_ns: words[0],
            buckets: std::array::from_fn(|index| words[1 + index]),
        }
    }

    fn words(&self) -> impl Iterator<Item = u64> {
        std::iter::once(self.sum_ns).chain(self.buckets)
    }
}

/// Calls of the clients of one path since the server was started. Bytes and round trips are those of the fabric.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathMetrics {
    /// Connected clients.
    pub clients: u64,
    /// Keys read, as reported.
    pub reads: u64,
    /// Bytes fetched by READs, index included, as reported.
    pub read_bytes: u64,
    /// Round trips: READs with one doorbell, or a request and its answer; as reported.
    pub round_trips: u64,
    /// Keys read by a remembered place that was right, in one round trip; as reported.
    pub location_hits: u64,
    /// All other keys read; as reported.
    pub location_misses: u64,
    /// Puts done.
    pub puts: u64,
    /// Deletes done.
    pub deletes: u64,
    /// Writes refused: conflict, absent, no space, invalid.
    pub refused: u64,
    /// Bytes of the records that were written.
    pub written_bytes: u64,
    /// Times of reads, one call in [`SAMPLE`], as reported.
    pub read_latencies: Latencies,
    /// Times of writes, one call in [`SAMPLE`], as reported.
    pub write_latencies: Latencies,
}

/// A server's report of everything that it counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// The content and state of the store.
    pub stat: Stat,
    /// Clients that use the store's memory themselves.
    pub one_sided: PathMetrics,
    /// Clients that are gateways for other protocols.
    pub gateway: PathMetrics,
    /// Leases of extents that clients hold.
    pub leases: u64,
    /// Cache lines written back, since the pool was opened.
    pub write_backs: u64,
    /// Fences since the pool was opened.
    pub fences: u64,
    /// Syncs of files since the pool was opened.
    pub syncs: u64,
    /// The work of the cleaner.
    pub cleaning: Cleaning,
    /// The work as a node of a cluster.
    pub copying: Copying,
}

/// Numbers of a report before its histograms.
const REPORT_COUNTS: usize = 5;
/// Numbers in a client's report: reads, bytes, round trips, hits and misses of places, and two histograms.
const REPORT_WORDS: usize = REPORT_COUNTS + 2 * (1 + LATENCY_BUCKETS);
/// Bytes of a client's report.
pub(crate) const REPORT_SIZE: usize = REPORT_WORDS * 8;
/// More calls than a client can have done since its last report: a larger number is invalid.
const REPORTED_MAX: u64 = 1 << 48;

/// Calls of a client since its last report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    pub reads: u64,
    pub read_bytes: u64,
    pub round_trips: u64,
    pub location_hits: u64,
    pub location_misses: u64,
    pub read_latencies: Latencies,
    pub write_latencies: Latencies,
}

impl Report {
    pub fn encode(&self) -> Vec<u8> {
        let first = [
            self.reads,
            self.read_bytes,
            self.round_trips,
            self.location_hits,
            self.location_misses,
        ];
        let words = first
            .into_iter()
            .chain(self.read_latencies.words())
            .chain(self.write_latencies.words());
        words.flat_map(u64::to_le_bytes).collect()
    }

    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let (words, rest) = bytes.as_chunks::<8>();
        let words: [u64; REPORT_WORDS] = words
            .iter()
            .map(|word| u64::from_le_bytes(*word))
            .collect::<Vec<_>>()
            .try_into()
            .ok()?;
        if !rest.is_empty() || words.iter().any(|word| *word > REPORTED_MAX) {
            return None;
        }
        let (reads, writes) = words[REPORT_COUNTS..].split_at(1 + LATENCY_BUCKETS);
        Some(Self {
            reads: words[0],
            read_bytes: words[1],
            round_trips: words[2],
            location_hits: words[3],
            location_misses: words[4],
            read_latencies: Latencies::from_words(reads),
            write_latencies: Latencies::from_words(writes),
        })
    }
}

impl PathMetrics {
    /// The calls since `before`, an earlier report of the same server, and the clients of now.
    ///
    /// A count that fell, because the server was started again in between, is 0 here.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            clients: self.clients,
            reads: self.reads.saturating_sub(before.reads),
            read_bytes: self.read_bytes.saturating_sub(before.read_bytes),
            round_trips: self.round_trips.saturating_sub(before.round_trips),
            location_hits: self.location_hits.saturating_sub(before.location_hits),
            location_misses: self.location_misses.saturating_sub(before.location_misses),
            puts: self.puts.saturating_sub(before.puts),
            deletes: self.deletes.saturating_sub(before.deletes),
            refused: self.refused.saturating_sub(before.refused),
            written_bytes: self.written_bytes.saturating_sub(before.written_bytes),
            read_latencies: self.read_latencies.since(&before.read_latencies),
            write_latencies: self.write_latencies.since(&before.write_latencies),
        }
    }

    pub(crate) fn take_report(&mut self, report: &Report) {
        self.reads = self.reads.saturating_add(report.reads);
        self.read_bytes = self.read_bytes.saturating_add(report.read_bytes);
        self.round_trips = self.round_trips.saturating_add(report.round_trips);
        self.location_hits = self.location_hits.saturating_add(report.location_hits);
        self.location_misses = self.location_misses.saturating_add(report.location_misses);
        self.read_latencies.add(&report.read_latencies);
        self.write_latencies.add(&report.write_latencies);
    }
}

/// Pages of a report: the server's state, all counts, four histograms, cleaning, and copies.
pub(crate) const PAGES: u8 = 8;
/// Numbers about each path on the second page.
const PATH_WORDS: usize = 10;

impl Metrics {
    /// Page number `page`, below [`PAGES`].
    pub(crate) fn page(&self, page: u8) -> [u64; COUNTERS] {
        let histogram = |latencies: &Latencies| latencies.words().collect::<Vec<_>>();
        let words = match page {
            0 => return self.stat.words(),
            1 => [&self.one_sided, &self.gateway]
                .into_iter()
                .flat_map(|path| {
                    [
                        path.clients,
                        path.reads,
                        path.read_bytes,
                        path.round_trips,
                        path.puts,
                        path.deletes,
                        path.refused,
                        path.written_bytes,
                        path.location_hits,
                        path.location_misses,
                    ]
                })
                .chain([self.leases, self.write_backs, self.fences, self.syncs])
                .collect(),
            2 => histogram(&self.one_sided.read_latencies),
            3 => histogram(&self.one_sided.write_latencies),
            4 => histogram(&self.gateway.read_latencies),
            6 => self.cleaning.words().to_vec(),
            7 => self.copying.words().to_vec(),
            _ => histogram(&self.gateway.write_latencies),
        };
        let mut all = [0; COUNTERS];
        all[..words.len()].copy_from_slice(&words);
        all
    }

    /// Bytes written to the log for each byte of records that clients and other nodes gave this server to keep: records
    /// of clients, entries of other nodes where they arrive, the records that are made of them, and records that the
    /// cleaner moves.
    pub fn write_amplification(&self) -> f64 {
        let (cleaning, copying) = (&self.cleaning, &self.copying);
        let given = cleaning.written_bytes + copying.digested_bytes;
        let written = given + copying.appended_bytes + cleaning.moved_bytes;
        if given == 0 {
            1.0
        } else {
            written as f64 / given as f64
        }
    }

    /// The counts of two nodes together; see [`Stat::and`].
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let mut pages = [[0; COUNTERS]; PAGES as usize];
        for (number, page) in (0..).zip(&mut pages) {
            let words = self.page(number).into_iter().zip(other.page(number));
            let sums = words.map(|(word, more)| word.saturating_add(more));
            page.iter_mut()
                .zip(sums)
                .for_each(|(word, sum)| *word = sum);
        }
        let stat = self.stat.and(&other.stat);
        Self {
            stat,
            copying: self.copying.and(&other.copying),
            ..Self::from_pages(&pages)
        }
    }

    pub(crate) fn from_pages(pages: &[[u64; COUNTERS]; PAGES as usize]) -> Self {
        let [
            state,
            counts,
            one_sided_reads,
            one_sided_writes,
            gateway_reads,
            gateway_writes,
            cleaning,
            copying,
        ] = pages;
        let path = |first: usize, reads: &[u64], writes: &[u64]| PathMetrics {
            clients: counts[first],
            reads: counts[first + 1],
            read_bytes: counts[first + 2],
            round_trips: counts[first + 3],
            puts: counts[first + 4],
            deletes: counts[first + 5],
            refused: counts[first + 6],
            written_bytes: counts[first + 7],
            location_hits: counts[first + 8],
            location_misses: counts[first + 9],
            read_latencies: Latencies::from_words(reads),
            write_latencies: Latencies::from_words(writes),
        };
        let rest = 2 * PATH_WORDS;
        Self {
            stat: Stat::from_words(state),
            one_sided: path(0, one_sided_reads, one_sided_writes),
            gateway: path(PATH_WORDS, gateway_reads, gateway_writes),
            leases: counts[rest],
            write_backs: counts[rest + 1],
            fences: counts[rest + 2],
            syncs: counts[rest + 3],
            cleaning: Cleaning::from_words(cleaning),
            copying: Copying::from_words(copying),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_lies_at_or_below_the_bound_of_its_bucket_and_above_the_one_before() {
        for time in [
            0,
            1,
            249,
            250,
            251,
            500,
            501,
            1_000_000,
            524_288_000,
            1_048_576_000,
            1_048_576_001,
            u64::MAX,
        ] {
            let bucket = latency_bucket(time);
            assert!(
                latency_bound(bucket).is_none_or(|bound| time <= bound),
                "{time}"
            );
            assert!(
                bucket == 0 || latency_bound(bucket - 1).is_some_and(|bound| time > bound),
                "{time}"
            );
        }
    }

    #[test]
    fn a_quantile_is_the_bound_that_its_share_of_the_calls_did_not_exceed() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.quantile(0.5), None);
        [100, 100, 600, 100_000_000_000]
            .into_iter()
            .for_each(|time| latencies.note(time));
        assert_eq!(
            (
                latencies.quantile(0.5),
                latencies.quantile(0.75),
                latencies.quantile(1.0)
            ),
            (Some(250), Some(1000), None)
        );
    }

    fn latencies(seed: u64) -> Latencies {
        Latencies {
            sum_ns: seed,
            buckets: std::array::from_fn(|index| seed + index as u64),
        }
    }

    #[test]
    fn reports_and_pages_survive_the_wire() {
        let report = Report {
            reads: 1,
            read_bytes: 2,
            round_trips: 3,
            location_hits: 4,
            location_misses: 5,
            read_latencies: latencies(100),
            write_latencies: latencies(200),
        };
        let mut bytes = report.encode();
        assert_eq!(bytes.len(), REPORT_SIZE);
        assert_eq!(Report::parse(&bytes), Some(report));
        assert_eq!(Report::parse(&bytes[1..]), None);
        assert_eq!(Report::parse(&bytes[8..]), None);
        // Fails without the bound: a client that lies this much would stop the counters forever.
        bytes[7] = 0xff;
        assert_eq!(Report::parse(&bytes), None);
        let path = |seed| PathMetrics {
            clients: seed,
            reads: seed + 1,
            read_bytes: seed + 2,
            round_trips: seed + 3,
            puts: seed + 4,
            deletes: seed + 5,
            refused: seed + 6,
            written_bytes: seed + 7,
            location_hits: seed + 8,
            location_misses: seed + 9,
            read_latencies: latencies(seed + 10),
            write_latencies: latencies(seed + 50),
        };
        let metrics = Metrics {
            stat: Stat {
                keys: 9,
                ..Stat::default()
            },
            one_sided: path(1000),
            gateway: path(2000),
            leases: 1,
            write_backs: 2,
            fences: 3,
            syncs: 4,
            cleaning: Cleaning {
                segments: 5,
                moved_bytes: 6,
                written_bytes: 7,
                ..Cleaning::default()
            },
            copying: Copying {
                epoch: 8,
                digested_bytes: 9,
                ..Copying::default()
            },
        };
        let pages = std::array::from_fn(|page| metrics.page(page as u8));
        assert_eq!(Metrics::from_pages(&pages), metrics);
    }
}
