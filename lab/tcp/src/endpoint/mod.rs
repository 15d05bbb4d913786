//! One end of a connection (RFC 9293): constructors, the application's calls, and what can be observed.
//!
//! State: the two sequence spaces, the round-trip estimate, recovery, the congestion window, four deadlines. The parts
//! of the machine: `arrive` (segments in), `acknowledge` (what an acknowledgment does), `depart` (segments out),
//! `expire` (timers).

mod acknowledge;
mod arrive;
mod depart;
mod expire;
mod recover;

use crate::config::{Config, ConfigError};
use crate::congestion::{Controller, Window};
use crate::event::{Counters, Event, Events};
use crate::receive::{ReceiveSpace, shift_for};
use crate::recovery::{Phase, Recovery};
use crate::rtt::RoundTrip;
use crate::segment::Segment;
use crate::send::SendSpace;
use crate::sequence::first;
use crate::timers::Timers;
use perhop_units::{Duration, Instant};
use perhop_wire::tcp::flags;
use thiserror::Error;

/// States of a connection (RFC 9293 §3.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// No connection, or none any more.
    Closed,
    /// Waiting for a SYN.
    Listen,
    /// SYN sent.
    SynSent,
    /// SYN received and sent.
    SynReceived,
    /// Data flows.
    Established,
    /// Closed by us; our FIN is not acknowledged.
    FinWait1,
    /// Closed by us; the peer may still send.
    FinWait2,
    /// Closed by the peer; we may still send.
    CloseWait,
    /// Closed by both at once; our FIN is not acknowledged.
    Closing,
    /// Closed by the peer, then by us; our FIN is not acknowledged.
    LastAck,
    /// Closed by both; waiting for old segments to die.
    TimeWait,
}

/// Why a SYN was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AcceptError {
    /// The parameters are out of range.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The segment is no SYN, or carries ACK or RST: answer with [`crate::refusal`].
    #[error("the segment does not open a connection")]
    NotSyn,
}

/// A look at the variables that plots show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Connection state.
    pub state: State,
    /// Recovery phase.
    pub phase: Phase,
    /// Congestion window in bytes, without the inflation of RFC 6582.
    pub cwnd: u64,
    /// Slow start threshold in bytes; `u64::MAX` before the first loss.
    pub ssthresh: u64,
    /// Sequence numbers sent and not acknowledged.
    pub flight: u64,
    /// Bytes believed to be in the network (RFC 6675 §4).
    pub pipe: u64,
    /// Window that the peer offers, from the oldest number not acknowledged, in bytes.
    pub peer_window: u64,
    /// Smoothed round-trip time.
    pub srtt: Option<Duration>,
    /// Its variation.
    pub rttvar: Duration,
    /// Last sample.
    pub latest_rtt: Option<Duration>,
    /// Retransmission timeout with back-off.
    pub rto: Duration,
    /// Payload of a full segment in bytes.
    pub mss: u64,
}

/// What both ends agreed upon in their SYNs.
#[derive(Clone, Copy, Debug)]
struct Agreed {
    /// Payload of a full segment without SACK blocks.
    mss: u64,
    timestamps: bool,
    sack: bool,
    ecn: bool,
    scaling: bool,
    peer_shift: u8,
}

/// What waits to be sent apart from data.
#[derive(Clone, Copy, Debug, Default)]
struct Pending {
    syn: bool,
    ack: bool,
    probe: bool,
    /// A tail loss probe.
    tail: bool,
    /// Number, acknowledgment if any.
    reset: Option<(u32, Option<u32>)>,
}

/// ECN of both directions (RFC 3168 §6.1).
#[derive(Clone, Copy, Debug)]
struct Marks {
    /// Receiving: set ECE until the peer says that it reduced its window.
    echo: bool,
    /// Sending: set CWR on the next new data.
    announce: bool,
    /// Sending: marks on acknowledgments up to here belong to a reduction already made.
    reduced_at: u64,
}

/// A TCP endpoint without I/O or clock.
///
/// The caller hands in segments ([`Endpoint::handle_segment`]) and takes out what is to be sent
/// ([`Endpoint::poll_output`] until `None`) after every call and whenever [`Endpoint::next_wakeup`] has come. An early
/// wake-up is harmless.
#[derive(Debug)]
pub struct Endpoint {
    config: Config,
    local_port: u16,
    remote_port: u16,
    state: State,
    send: SendSpace,
    receive: ReceiveSpace,
    rtt: RoundTrip,
    recovery: Recovery,
    control: Controller,
    window: Window,
    timers: Timers,
    agreed: Agreed,
    pending: Pending,
    marks: Marks,
    events: Events,
    counters: Counters,
    /// Timeouts since something was acknowledged.
    retries: u8,
    /// Probes since the window closed, and those since the peer answered.
    probes: u8,
    unanswered: u8,
    syn_lost: bool,
    /// The congestion window, not data or the peer, ended the last burst.
    limited: bool,
    last_sent: Instant,
    wants_room: bool,
    /// Start of the second in which challenges are counted, and their number (RFC 5961 §7).
    challenges: (Instant, u8),
    drained: bool,
}

impl Endpoint {
    /// Opens a connection actively; the SYN is the next output. `isn` is the initial sequence number, which the caller
    /// draws (RFC 6528).
    ///
    /// # Errors
    /// A value of `config` out of range.
    pub fn connect(
        config: Config,
        local_port: u16,
        remote_port: u16,
        isn: u32,
        now: Instant,
    ) -> Result<Self, ConfigError> {
        let mut endpoint = Self::new(config, local_port, remote_port, isn, now)?;
        endpoint.state = State::SynSent;
        endpoint.pending.syn = true;
        Ok(endpoint)
    }

    /// Waits for one SYN from any port.
    ///
    /// # Errors
    /// A value of `config` out of range.
    pub fn listen(config: Config, local_port: u16, isn: u32, now: Instant) -> Result<Self, ConfigError> {
        let mut endpoint = Self::new(config, local_port, 0, isn, now)?;
        endpoint.state = State::Listen;
        Ok(endpoint)
    }

    /// Opens a connection passively for a SYN that arrived at a listening port; the SYN-ACK is the next output.
    ///
    /// # Errors
    /// See [`AcceptError`].
    pub fn accept(config: Config, syn: &Segment, isn: u32, now: Instant) -> Result<Self, AcceptError> {
        if syn.header.flags & (flags::SYN | flags::ACK | flags::RST) != flags::SYN {
            return Err(AcceptError::NotSyn);
        }
        let mut endpoint = Self::listen(config, syn.header.dst_port, isn, now)?;
        endpoint.handle_segment(now, syn);
        Ok(endpoint)
    }

    fn new(
        config: Config,
        local_port: u16,
        remote_port: u16,
        isn: u32,
        now: Instant,
    ) -> Result<Self, ConfigError> {
        config.check()?;
        let iss = first(isn);
        let shift = if config.window_scaling { shift_for(config.receive_buffer) } else { 0 };
        let mss = u64::from(config.mss);
        Ok(Self {
            config,
            local_port,
            remote_port,
            state: State::Closed,
            send: SendSpace::new(iss, config.send_buffer),
            receive: ReceiveSpace::new(config.receive_buffer, shift, config.ranges),
            rtt: RoundTrip::new(config.rto),
            recovery: Recovery::new(config.ranges, iss),
            control: Controller::new(&config),
            window: Window { cwnd: mss, ssthresh: u64::MAX },
            timers: Timers::IDLE,
            agreed: Agreed { mss, timestamps: false, sack: false, ecn: false, scaling: false, peer_shift: 0 },
            pending: Pending::default(),
            marks: Marks { echo: false, announce: false, reduced_at: iss },
            events: Events::default(),
            counters: Counters::default(),
            retries: 0,
            probes: 0,
            unanswered: 0,
            syn_lost: false,
            limited: true,
            last_sent: now,
            wants_room: false,
            challenges: (now, 0),
            drained: true,
        })
    }

    /// Appends `count` bytes to the stream; returns how many there was room for. If fewer, [`Event::Writable`] follows.
    pub fn write(&mut self, count: u64) -> u64 {
        let taken = match self.state {
            State::SynSent | State::SynReceived | State::Established | State::CloseWait => {
                self.send.write(count)
            }
            _ => return 0,
        };
        self.wants_room |= taken < count;
        taken
    }

    /// Bytes that [`Self::read`] would take.
    #[must_use]
    pub fn readable(&self) -> u64 {
        self.receive.readable()
    }

    /// Consumes up to `count` received bytes; returns how many. May open the window.
    pub fn read(&mut self, count: u64) -> u64 {
        let taken = self.receive.take(count);
        if taken > 0 && self.is_synchronized() && self.receive.wants_update(self.agreed.mss) {
            self.pending.ack = true;
        }
        taken
    }

    /// Nothing more will be written: a FIN follows what was. Receiving goes on. Before the peer has answered there is no
    /// connection to close: the endpoint is closed at once and what was written is lost (RFC 9293 §3.10.4).
    pub fn close(&mut self) {
        self.state = match self.state {
            State::Listen | State::SynSent => {
                self.finish(None);
                return;
            }
            State::SynReceived | State::Established => State::FinWait1,
            State::CloseWait => State::LastAck,
            _ => return,
        };
        self.send.finished = true;
    }

    /// Ends the connection at once; the peer is told by a reset, the next output.
    pub fn abort(&mut self) {
        let known = self.is_synchronized() || self.state == State::SynReceived;
        if known && self.state != State::TimeWait {
            self.pending.reset = Some((self.send.max as u32, Some(self.receive.nxt as u32)));
        }
        self.finish(None);
    }

    /// The next thing the application has not been told.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.take()
    }

    /// When [`Self::poll_output`] must be called even if nothing arrives. O(1).
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// The connection's state.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// Our port and the peer's.
    #[must_use]
    pub fn ports(&self) -> (u16, u16) {
        (self.local_port, self.remote_port)
    }

    /// What has been counted.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The variables that plots show.
    #[must_use]
    pub fn trace(&self) -> Trace {
        Trace {
            state: self.state,
            phase: self.recovery.phase,
            cwnd: self.window.cwnd,
            ssthresh: self.window.ssthresh,
            flight: self.send.flight(),
            pipe: self.recovery.pipe,
            peer_window: self.send.edge.saturating_sub(self.send.una),
            srtt: self.rtt.smoothed(),
            rttvar: self.rtt.variation(),
            latest_rtt: self.rtt.latest(),
            rto: self.rtt.timeout(),
            mss: self.agreed.mss,
        }
    }

    /// Place in the stream of the oldest byte not acknowledged: what lies before it need not be kept.
    #[must_use]
    pub fn acked_offset(&self) -> u64 {
        self.send.offset(self.send.una.min(self.send.end))
    }

    /// Place in the stream of the next byte written.
    #[must_use]
    pub fn written_offset(&self) -> u64 {
        self.send.offset(self.send.end)
    }

    /// Place in the received stream of the next byte to read.
    #[must_use]
    pub fn read_offset(&self) -> u64 {
        self.receive.read_offset()
    }

    /// Both SYNs were exchanged.
    fn is_synchronized(&self) -> bool {
        !matches!(self.state, State::Closed | State::Listen | State::SynSent | State::SynReceived)
    }

    /// The connection is over; `why` if not in order.
    fn finish(&mut self, why: Option<Event>) {
        if let Some(why) = why {
            self.events.add(why);
        }
        self.events.add(Event::Closed);
        self.state = State::Closed;
        self.timers = Timers::IDLE;
        let reset = self.pending.reset;
        self.pending = Pending { reset, ..Pending::default() };
    }
}
