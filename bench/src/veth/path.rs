//! What can be asked of benches with a sender, a router and a sink.

use crate::error::BenchError;
use crate::machine;
use crate::report::Point;
use crate::traffic::MIN_FRAME;
use perhop_io::af_xdp::Place;
use perhop_routerfile::PortIo;

/// The way of packets from a sender through the router, and where both run.
#[derive(Clone, Debug, clap::Args)]
pub struct Path {
    /// How packets enter and leave the router
    #[arg(long, value_enum, default_value_t = Io::AfPacket)]
    pub io: Io,
    /// Where AF_XDP's program runs
    #[arg(long, value_enum, default_value_t = Xdp::Auto)]
    pub xdp: Xdp,
    /// Concurrent flows
    #[arg(long, default_value_t = 1000)]
    pub flows: usize,
    /// Filters of the router, none of which matches
    #[arg(long, default_value_t = 4)]
    pub filters: usize,
    /// Processor of the sender
    #[arg(long, default_value_t = 0)]
    pub sender_cpu: usize,
    /// Processor of the router
    #[arg(long, default_value_t = 1)]
    pub router_cpu: usize,
    /// Seed of traffic and router
    #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
    pub seed: u64,
}

/// How packets enter and leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Io {
    /// Packet sockets with memory-mapped rings.
    #[value(name = "af_packet")]
    AfPacket,
    /// AF_XDP sockets.
    #[value(name = "af_xdp")]
    AfXdp,
}

impl Io {
    /// As it is given.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AfPacket => "af_packet",
            Self::AfXdp => "af_xdp",
        }
    }

    /// The same for a router.
    pub const fn of_port(self) -> PortIo {
        match self {
            Self::AfPacket => PortIo::AfPacket,
            Self::AfXdp => PortIo::AfXdp,
        }
    }
}

/// Where the program of AF_XDP runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Xdp {
    /// In the driver if it can, else behind it.
    Auto,
    /// In the driver.
    Native,
    /// Behind the driver.
    Generic,
}

impl Xdp {
    /// The same for a port.
    pub const fn place(self) -> Place {
        match self {
            Self::Auto => Place::Anywhere,
            Self::Native => Place::Driver,
            Self::Generic => Place::Generic,
        }
    }
}

impl Path {
    /// # Errors
    /// [`BenchError::Options`], or processors that are not there.
    pub fn check(&self) -> Result<(), BenchError> {
        if self.flows == 0 || self.filters > 99_999 {
            let text = "--flows must be at least 1 and --filters below 100,000";
            return Err(BenchError::Options(text.to_owned()));
        }
        check_processors(self.sender_cpu, self.router_cpu)
    }

    /// Puts it into a point.
    pub fn describe(&self, point: &mut Point) {
        point.params.extend([
            ("io", self.io.name().into()),
            ("flows", self.flows.into()),
            ("filters", self.filters.into()),
            ("sender_cpu", self.sender_cpu.into()),
            ("router_cpu", self.router_cpu.into()),
            ("seed", self.seed.into()),
        ]);
    }
}

/// # Errors
/// Those processors are not there.
pub fn check_processors(sender_cpu: usize, router_cpu: usize) -> Result<(), BenchError> {
    let processors = machine::processors();
    if sender_cpu.max(router_cpu) < processors {
        return Ok(());
    }
    Err(BenchError::Environment {
        what: format!("processors {sender_cpu} and {router_cpu}"),
        why: format!("there are {processors}; choose with --sender-cpu and --router-cpu"),
    })
}

/// # Errors
/// The length is none of a frame of the traffic.
pub fn check_length(packet: usize) -> Result<(), BenchError> {
    if (MIN_FRAME..=1514).contains(&packet) {
        return Ok(());
    }
    Err(BenchError::Options("--packet must be in 60 … 1514".to_owned()))
}
