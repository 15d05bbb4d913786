//! Who forwards in turns.

use super::layout::Layout;
use super::path::Io;
use super::ports::RouterReport;
use super::threads::Way;
use crate::error::BenchError;

/// Who forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The router under test.
    Perhop,
    /// From ring to ring.
    Bare,
    /// The kernel, plain.
    Kernel,
    /// The kernel with four HTB classes and u32 filters.
    KernelShaped,
}

impl Who {
    /// The thread that does it; none of ours for the kernel.
    pub const fn way(self) -> Option<Way> {
        match self {
            Self::Perhop => Some(Way::Router),
            Self::Bare => Some(Way::Bare),
            Self::Kernel | Self::KernelShaped => None,
        }
    }
}

/// What every run of one forwarder gave.
#[derive(Clone, Debug, Default)]
pub struct Runs {
    /// Packets a second at the sink.
    pub received: Vec<f64>,
    /// Packets a second that the sender's socket took.
    pub sent: Vec<f64>,
    /// What the router saw, of a forwarder of ours.
    pub reports: Vec<RouterReport>,
}

/// One that takes its turns, and what they gave.
#[derive(Clone, Debug)]
pub struct Contender {
    /// Who.
    pub who: Who,
    /// Whether received frames are handed to the router's processor.
    pub steered: bool,
    /// Its runs.
    pub runs: Runs,
}

impl Contender {
    /// Those of a turn, in order. Classes of the kernel say nothing about AF_XDP.
    pub fn all(io: Io, steering: bool) -> Vec<Self> {
        let all: &[(Who, bool)] = match io {
            Io::AfPacket => &[
                (Who::Perhop, false),
                (Who::Perhop, true),
                (Who::Kernel, false),
                (Who::KernelShaped, false),
                (Who::Kernel, true),
                (Who::KernelShaped, true),
            ],
            Io::AfXdp => {
                &[(Who::Perhop, false), (Who::Bare, false), (Who::Kernel, false), (Who::Kernel, true)]
            }
        };
        let there = all.iter().filter(|(_, steered)| steering || !steered);
        there.map(|(who, steered)| Self { who: *who, steered: *steered, runs: Runs::default() }).collect()
    }

    /// As a peer is called.
    pub fn name(&self) -> &'static str {
        match (self.who, self.steered) {
            (Who::Perhop, false) => "perhop",
            (Who::Perhop, true) => "perhop, steered",
            (Who::Bare, _) => "bare AF_XDP forwarder",
            (Who::Kernel, false) => "linux forwarding",
            (Who::Kernel, true) => "linux forwarding, steered",
            (Who::KernelShaped, false) => "linux forwarding, 4 HTB classes, u32 filters",
            (Who::KernelShaped, true) => "linux forwarding, 4 HTB classes, u32 filters, steered",
        }
    }

    /// Has the kernel do what is its part. Inside: why this one cannot run here.
    ///
    /// # Errors
    /// The kernel's forwarding cannot be switched.
    pub fn prepare(&self, layout: &Layout) -> Result<Result<(), String>, BenchError> {
        if matches!(self.who, Who::Kernel | Who::KernelShaped) {
            layout.forward_by_kernel(true)?;
        }
        if self.who == Who::KernelShaped
            && let Err(why) = layout.shape()
        {
            self.put_back(layout)?;
            return Ok(Err(why.to_string()));
        }
        Ok(Ok(()))
    }

    /// Takes it back.
    ///
    /// # Errors
    /// The kernel's forwarding cannot be switched.
    pub fn put_back(&self, layout: &Layout) -> Result<(), BenchError> {
        if self.who == Who::KernelShaped {
            layout.unshape();
        }
        if matches!(self.who, Who::Kernel | Who::KernelShaped) {
            layout.forward_by_kernel(false)?;
        }
        Ok(())
    }
}
