//! Bulk transfers: a number of connections, each endless or of one size, that start one after the other.

use crate::error::TrafficError;
use crate::random::Generator;
use crate::size::MAX_OBJECT_BYTES;
use crate::source::{check_range, check_span};
use crate::tcp::Direction;
use crate::tcp::job::{Exchange, Job, Volume, check_back_off};
use perhop_units::Duration;

/// Parameters of bulk transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransfersConfig {
    /// Number of transfers, above 0.
    pub transfers: u16,
    /// First transfer.
    pub start: Duration,
    /// Time from the start of one transfer, or of several that start together, to the next.
    pub spacing: Duration,
    /// How many start together, above 0.
    pub at_once: u16,
    /// Each starts later than that by a random time, uniform up to this.
    pub stagger: Duration,
    /// What has not ended is cut here.
    pub stop: Duration,
    /// Bytes of each, or `None` for as many as the time allows; above 0.
    pub bytes: Option<u64>,
    /// Which way they go.
    pub direction: Direction,
    /// Time from a failure to the next attempt, at least [`crate::tcp::MIN_BACK_OFF`].
    pub back_off: Duration,
    /// Number of this application in the run; its randomness follows from it and the seed.
    pub group: u16,
}

impl TransfersConfig {
    pub(crate) fn check(&self) -> Result<(), TrafficError> {
        check_span(self.start, self.stop)?;
        check_back_off(self.back_off)?;
        check_range("number of transfers", u64::from(self.transfers), 1, u64::from(u16::MAX))?;
        check_range("transfers that start together", u64::from(self.at_once), 1, u64::from(u16::MAX))?;
        check_range("bytes of a transfer", self.bytes.unwrap_or(1), 1, MAX_OBJECT_BYTES)
    }
}

/// What the transfers do next.
#[derive(Clone, Debug)]
pub(crate) struct TransfersPlan {
    config: TransfersConfig,
    begun: Vec<bool>,
}

impl TransfersPlan {
    pub(crate) fn new(config: TransfersConfig) -> Self {
        Self { config, begun: vec![false; usize::from(config.transfers)] }
    }

    /// Each slot has one job.
    pub(crate) fn job(&mut self, slot: u16, generator: &mut Generator) -> Option<Job> {
        let begun = self.begun.get_mut(usize::from(slot))?;
        if std::mem::replace(begun, true) {
            return None;
        }
        let volume = self.config.bytes.map_or(Volume::Endless, Volume::Bytes);
        let mut wait = self.config.spacing.saturating_mul(u64::from(slot / self.config.at_once.max(1)));
        if self.config.stagger > Duration::ZERO {
            wait = wait + generator.between(Duration::ZERO, self.config.stagger);
        }
        Some(Job {
            wait,
            reuse: false,
            exchange: Exchange::one_way(volume, self.config.direction),
            page_ends: false,
        })
    }
}
