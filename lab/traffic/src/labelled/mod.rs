//! A mix of traffic whose kind is known: what a classifier is measured with.
//!
//! Every kind is written from its protocol's specification, not from a classifier: headers, lengths and times are those
//! that the protocol prescribes, what it encrypts or leaves open is random. The path between the ends delays, loses and
//! reorders. A [`LabelledMix`] yields packets in order of time and says of each which kind its flow is.
//!
//! Not in the mix, because no packet of theirs can tell: media inside tunnels (the tunnel's flow is not media), and
//! protocols made to look like RTP to the bit, of which a clock between 8 and 90 kHz is a part.

mod bulk;
mod conference;
mod datagram;
mod exchange;
mod game;
mod kind;
mod layout;
mod names;
mod noise;
mod path;
mod quic;
mod rtp;
mod secure;
mod services;
mod stream;
mod tunnel;
mod turn;
mod unusual;
mod video;
mod voice;

pub use datagram::{Datagram, Transport};
pub use kind::Kind;

use crate::random::{Generator, Seed};
use exchange::Exchange;
use perhop_units::Duration;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};

/// Mean time from the beginning of one exchange to that of the next.
const SPACING: Duration = Duration::from_millis(200);

/// Size of a mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LabelledConfig {
    /// Exchanges are begun until they have so many flows; a flow is one direction of one 5-tuple. Of the last exchange
    /// only as many are sent as are still wanted, those that begin first.
    pub flows: u64,
    /// What all is drawn from.
    pub seed: Seed,
}

/// Packets of many exchanges in order of time, the same ones for the same configuration. Memory: those exchanges that
/// are under way, some hundred of them.
#[derive(Debug)]
pub struct LabelledMix {
    config: LabelledConfig,
    arrivals: Generator,
    /// Exchanges begun, flows of theirs, and when the next begins.
    begun: u32,
    flows: u64,
    next_start: Duration,
    /// Packets to come of exchanges under way.
    under_way: Vec<VecDeque<Datagram>>,
    free: Vec<usize>,
    due: BinaryHeap<Reverse<(Duration, u32, usize)>>,
}

impl LabelledMix {
    /// A mix from its beginning.
    pub fn new(config: LabelledConfig) -> Self {
        Self {
            config,
            arrivals: config.seed.member(u16::MAX, 0),
            begun: 0,
            flows: 0,
            next_start: Duration::ZERO,
            under_way: Vec::new(),
            free: Vec::new(),
            due: BinaryHeap::new(),
        }
    }

    /// Begins the next exchange.
    fn begin(&mut self) {
        let number = self.begun;
        let kind = Kind::ALL[usize::from(drawn(&mut self.arrivals))];
        let mut packets = packets_of(kind, self.config.seed, number, self.next_start);
        let wanted = self.config.flows - self.flows;
        let mut flows = BTreeSet::new();
        packets.retain(|packet| {
            let flow = packet.flow();
            flows.contains(&flow) || (flows.len() as u64) < wanted && flows.insert(flow)
        });
        self.flows += flows.len() as u64;
        self.begun += 1;
        self.next_start = self.next_start + self.arrivals.exponential(SPACING);
        let Some(first) = packets.front().map(|p| p.at) else { return };
        let place = self.free.pop().unwrap_or_else(|| {
            self.under_way.push(VecDeque::new());
            self.under_way.len() - 1
        });
        self.under_way[place] = packets;
        self.due.push(Reverse((first, number, place)));
    }
}

/// The number of a kind, each as often as its weight says.
fn drawn(random: &mut Generator) -> u8 {
    let total: u64 = Kind::ALL.iter().map(|k| u64::from(k.weight())).sum();
    let mut at = random.below(total);
    for (number, kind) in (0..).zip(Kind::ALL) {
        match at.checked_sub(u64::from(kind.weight())) {
            Some(rest) => at = rest,
            None => return number,
        }
    }
    0
}

/// One exchange from its start, in order of time.
fn packets_of(kind: Kind, seed: Seed, number: u32, start: Duration) -> VecDeque<Datagram> {
    let random = Seed { repetition: number, ..seed }.member(kind as u16, seed.repetition as u16);
    let mut exchange = Exchange::new(kind, number, start, random);
    match kind {
        Kind::Voice => voice::voice(&mut exchange),
        Kind::VoiceWithSilence => voice::voice_with_silence(&mut exchange),
        Kind::VoiceWideband => voice::voice_wideband(&mut exchange),
        Kind::Video => video::video(&mut exchange),
        Kind::RtpSeveralSources => unusual::several_sources(&mut exchange),
        Kind::RtpConference => conference::conference(&mut exchange),
        Kind::RtpExtended => unusual::extended(&mut exchange),
        Kind::Srtp => secure::srtp(&mut exchange),
        Kind::RtpOverTurn => turn::turn(&mut exchange),
        Kind::Rtcp => {}
        Kind::WebRtcData => secure::data_channel(&mut exchange),
        Kind::Quic => quic::quic(&mut exchange),
        Kind::Dns => names::dns(&mut exchange),
        Kind::MulticastDns => names::multicast_dns(&mut exchange),
        Kind::Ntp => services::ntp(&mut exchange),
        Kind::Dhcp => services::dhcp(&mut exchange),
        Kind::Snmp => services::snmp(&mut exchange),
        Kind::Syslog => services::syslog(&mut exchange),
        Kind::Game => game::game(&mut exchange),
        Kind::GameKnown => game::game_known(&mut exchange),
        Kind::WireGuard => tunnel::wireguard(&mut exchange),
        Kind::OpenVpn => tunnel::openvpn(&mut exchange),
        Kind::Esp => tunnel::esp(&mut exchange),
        Kind::Tcp => stream::tcp(&mut exchange),
        Kind::Bulk => bulk::bulk(&mut exchange),
        Kind::Utp => bulk::utp(&mut exchange),
        Kind::Noise => noise::noise(&mut exchange),
    }
    exchange.finish()
}

impl Iterator for LabelledMix {
    type Item = Datagram;

    fn next(&mut self) -> Option<Datagram> {
        loop {
            let more = self.flows < self.config.flows;
            match self.due.peek() {
                Some(Reverse((at, ..))) if !more || *at <= self.next_start => break,
                None if !more => return None,
                _ => self.begin(),
            }
        }
        let Reverse((_, number, place)) = self.due.pop()?;
        let packets = &mut self.under_way[place];
        let packet = packets.pop_front();
        match packets.front() {
            Some(next) => self.due.push(Reverse((next.at, number, place))),
            None => self.free.push(place),
        }
        packet
    }
}

#[cfg(test)]
mod tests;
