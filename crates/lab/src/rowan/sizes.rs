//! Sizes of objects.

use rand::RngExt as _;
use stonecast_base::Random;

/// The objects of a published service: means and standard deviations of the bytes of keys and values (Cao et al.,
/// *Characterizing, Modeling, and Benchmarking RocksDB Key-Value Workloads at Facebook*, FAST 2020, table 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Objects {
    /// ZippyDB: keys 47.9 (3.7), values 42.9 (26.1).
    ZippyDb,
    /// UP2X: keys 10.45 (1.4), values 46.8 (11.6).
    Up2x,
    /// UDB: keys 27.1 (2.6), values 126.7 (22.1).
    Udb,
}

impl Objects {
    /// All kinds of objects.
    pub const ALL: [Self; 3] = [Self::ZippyDb, Self::Up2x, Self::Udb];

    /// The name in figures.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ZippyDb => "ZippyDB",
            Self::Up2x => "UP2X",
            Self::Udb => "UDB",
        }
    }

    /// Bytes of an object: the mean key, and a value between two bounds, all equally likely. The bounds give the
    /// published mean, and the published deviation unless a value would have fewer than 0 bytes.
    pub fn draw(self, random: &mut Random) -> usize {
        let (key, least, most) = match self {
            Self::ZippyDb => (48, 0, 86),
            Self::Up2x => (10, 27, 67),
            Self::Udb => (27, 89, 165),
        };
        key + random.random_range(least..=most)
    }
}

#[cfg(test)]
mod tests {
    use stonecast_base::random_from_seed;

    use super::*;

    #[test]
    fn objects_have_their_published_mean_size() {
        let mut random = random_from_seed(1);
        for (objects, published) in [
            (Objects::ZippyDb, 90.8),
            (Objects::Up2x, 57.25),
            (Objects::Udb, 153.8),
        ] {
            let draws = 100_000;
            let sum: usize = (0..draws).map(|_| objects.draw(&mut random)).sum();
            let mean = sum as f64 / f64::from(draws);
            assert!((mean / published - 1.0).abs() < 0.01, "{objects:?}: {mean}");
        }
    }
}
