//! File transfers: a number of parallel connections kept busy, a new connection for every file.

use crate::error::TrafficError;
use crate::random::Generator;
use crate::size::LognormalSize;
use crate::source::{check_range, check_span};
use crate::tcp::Direction;
use crate::tcp::job::{Exchange, Job, Volume, check_back_off};
use perhop_units::Duration;

/// Parameters of a client that transfers files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilesConfig {
    /// Files at the same time, above 0.
    pub parallel: u16,
    /// The first file starts.
    pub start: Duration,
    /// Time from the first start of one of the parallel transfers to the next one's.
    pub spacing: Duration,
    /// What has not ended is cut here.
    pub stop: Duration,
    /// Sizes of files.
    pub sizes: LognormalSize,
    /// Time from the end of a file to the next; 0 keeps the connections busy.
    pub pause: Duration,
    /// Which way they go.
    pub direction: Direction,
    /// Time from a failure to the next attempt at the same file, at least [`crate::tcp::MIN_BACK_OFF`].
    pub back_off: Duration,
    /// Number of this application in the run; its randomness follows from it and the seed.
    pub group: u16,
}

impl FilesConfig {
    /// One client of the published measurements (Huttunen 2005): 20 files at a time, from server to client, geometric
    /// mean 3 MB; from the beginning of the run without end. Sigma and the back-off of 1 s are ours.
    pub const FTP_CLIENT: Self = Self {
        parallel: 20,
        start: Duration::ZERO,
        spacing: Duration::ZERO,
        stop: Duration::MAX,
        sizes: LognormalSize::FILE,
        pause: Duration::ZERO,
        direction: Direction::Down,
        back_off: Duration::from_secs(1),
        group: 0,
    };

    pub(crate) fn check(&self) -> Result<(), TrafficError> {
        check_span(self.start, self.stop)?;
        check_back_off(self.back_off)?;
        check_range("number of parallel files", u64::from(self.parallel), 1, u64::from(u16::MAX))?;
        self.sizes.check()
    }
}

/// What the parallel transfers do next.
#[derive(Clone, Debug)]
pub(crate) struct FilesPlan {
    config: FilesConfig,
    begun: Vec<bool>,
}

impl FilesPlan {
    pub(crate) fn new(config: FilesConfig) -> Self {
        Self { config, begun: vec![false; usize::from(config.parallel)] }
    }

    pub(crate) fn job(&mut self, slot: u16, generator: &mut Generator) -> Option<Job> {
        let begun = self.begun.get_mut(usize::from(slot))?;
        let wait = if std::mem::replace(begun, true) {
            self.config.pause
        } else {
            self.config.spacing.saturating_mul(u64::from(slot))
        };
        let volume = Volume::Bytes(self.config.sizes.draw(generator));
        Some(Job {
            wait,
            reuse: false,
            exchange: Exchange::one_way(volume, self.config.direction),
            page_ends: false,
        })
    }
}
