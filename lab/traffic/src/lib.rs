//! What senders send and receivers see, as state machines without sockets or clocks.
//!
//! A [`Source`] yields [`Emission`]s: when (since the start of the run), on which stream, how many bytes. The driver
//! (a real socket or the simulator) waits until then and lets the emission write its payload with the instant at which
//! it really leaves. A [`Sink`] reads the payload back. Everything follows from the seed.
//!
//! What runs over TCP is a [`TcpApplication`]: a machine that drives both ends of its connections.
//!
//! Lengths are those of the UDP payload; rates count IP length, as everywhere in results.
#![forbid(unsafe_code)]

pub mod bulk;
pub mod constant;
pub mod error;
pub mod labelled;
pub mod markov;
pub mod mix;
pub mod on_off;
pub mod period;
pub mod poisson;
pub mod random;
pub mod replay;
pub mod rtp;
pub mod rtp_flow;
pub mod sink;
pub mod size;
pub mod source;
pub mod staircase;
pub mod stamp;
pub mod tcp;
pub mod video;
pub mod voice;

pub use bulk::{BulkConfig, BulkTally, BulkTransfer};
pub use constant::{Constant, ConstantConfig};
pub use error::TrafficError;
pub use markov::{MarkovConfig, MarkovPoisson, MarkovState};
pub use mix::Mix;
pub use on_off::{OnOff, OnOffConfig};
pub use period::Period;
pub use poisson::{Poisson, PoissonConfig};
pub use random::Seed;
pub use replay::{Captured, Replay, ReplayConfig, ReplayTime};
pub use rtp::RtpHeader;
pub use rtp_flow::{RtpFlow, RtpFlowConfig};
pub use sink::{Arrival, Carriage, FlowTally, Foreign, Sink};
pub use size::{LognormalSize, SizeMixture, SizeMode};
pub use source::{Emission, Source, UDP_IPV4_OVERHEAD, UDP_IPV6_OVERHEAD};
pub use staircase::{Staircase, StaircaseConfig, Step};
pub use stamp::Stamp;
pub use tcp::files::FilesConfig;
pub use tcp::transfers::TransfersConfig;
pub use tcp::web::{Http, WebConfig};
pub use tcp::{
    AppAction, AppEvent, ConnId, ConnRecord, Direction, Side, TcpApplication, TcpCounters, TcpWorkload,
};
pub use video::gop::{GopConfig, GopFrames};
pub use video::trace::{FrameTrace, TimeUnit, TraceError};
pub use video::{Frame, FrameRates, Video, VideoConfig, frame_rates};
pub use voice::{Activity, VoiceCalls, VoiceConfig, VoiceFormat};
