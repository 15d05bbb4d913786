//! A client that takes the time.

use super::published::Published;
use crate::error::BenchError;
use crate::report::Spread;
use perhop_serve::TcapiClient;
use perhop_tcapi::client::{Outcome, Settings};
use perhop_tcapi::wire::{Alternative, FlowId, Request, Reservation, ServiceClass, Verb};
use std::net::Ipv4Addr;
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant as Clock};

/// Reservations of a window while their number grows.
const WINDOW: u64 = 1_000;
/// Messages sent together while reservations grow and go.
const TOGETHER: u64 = 512;

/// What makes reservations, one at a time, and says how long each took, ns.
pub(super) trait Reserves {
    fn request(&mut self, flow: u64) -> Result<f64, BenchError>;
    fn release(&mut self, flow: u64) -> Result<f64, BenchError>;
}

impl Reserves for Published {
    fn request(&mut self, _: u64) -> Result<f64, BenchError> {
        Ok(self.request_ns())
    }

    fn release(&mut self, _: u64) -> Result<f64, BenchError> {
        Ok(self.release_ns())
    }
}

impl Reserves for Client {
    fn request(&mut self, flow: u64) -> Result<f64, BenchError> {
        self.one(Verb::Request, flow)
    }

    fn release(&mut self, flow: u64) -> Result<f64, BenchError> {
        self.one(Verb::Release, flow)
    }
}

pub(super) struct Client {
    inner: TcapiClient,
    /// Reservations 0 … are live.
    live: u64,
}

/// Times of single reservations and of their releases, ns.
#[derive(Default)]
pub(super) struct Times {
    pub(super) requests: Vec<f64>,
    pub(super) releases: Vec<f64>,
}

fn message(verb: Verb, flow: u64) -> (Verb, Request) {
    let mut request = Request::of(FlowId::Number(flow));
    if verb == Verb::Request {
        request.class = Some(ServiceClass { number: 1, dscp: None, name: String::new() });
        let (rate_bps, burst_bytes, peak_bps, max_packet, min_policed) = (80_000, 0, 0, 0, 0);
        request.reservation = Some(Reservation { rate_bps, burst_bytes, peak_bps, max_packet, min_policed });
        let address = Ipv4Addr::from(0x0a00_0000 | (flow as u32 & 0x00ff_ffff));
        request.filter = vec![Alternative {
            dst: Some(std::net::IpAddr::V4(address).into()),
            protocol: Some(17),
            dst_ports: Some((5_004, 5_004)),
            ..Alternative::default()
        }];
    }
    (verb, request)
}

fn in_force(outcome: Outcome) -> Result<(), BenchError> {
    match outcome {
        Outcome::Done { .. } => Ok(()),
        Outcome::Refused(refusal) => Err(BenchError::Wrong(format!("{}: {}", refusal.code, refusal.message))),
        Outcome::Unknown => Err(BenchError::Wrong("nobody answers".to_owned())),
    }
}

impl Client {
    /// So many messages on their way at the most.
    pub(super) fn connect(path: &Path, window: u64) -> Result<Self, BenchError> {
        let window = usize::try_from(window).unwrap_or(1).max(TOGETHER as usize);
        let settings = Settings { restore: false, window, ..Settings::of_epoch(1) };
        Ok(Self { inner: TcapiClient::open(path, settings)?, live: 0 })
    }

    fn one(&mut self, verb: Verb, flow: u64) -> Result<f64, BenchError> {
        let (verb, request) = message(verb, flow);
        let start = Clock::now();
        in_force(self.inner.call(verb, request))?;
        Ok(start.elapsed().as_nanos() as f64)
    }

    fn all(&mut self, messages: impl Iterator<Item = (Verb, Request)>) -> Result<(), BenchError> {
        let tickets = self.inner.ask_all(messages);
        tickets.into_iter().try_for_each(|_| in_force(self.inner.next_done().1))
    }

    pub(super) fn requests_one_by_one(&mut self, flows: Range<u64>) -> Result<(), BenchError> {
        flows.into_iter().try_for_each(|flow| self.one(Verb::Request, flow).map(drop))
    }

    pub(super) fn releases_one_by_one(&mut self, flows: Range<u64>) -> Result<(), BenchError> {
        flows.into_iter().try_for_each(|flow| self.one(Verb::Release, flow).map(drop))
    }

    /// Each is made and released before the next.
    pub(super) fn pairs_one_by_one(&mut self, flows: Range<u64>) -> Result<Times, BenchError> {
        let mut times = Times::default();
        for flow in flows {
            times.requests.push(self.one(Verb::Request, flow)?);
            times.releases.push(self.one(Verb::Release, flow)?);
        }
        Ok(times)
    }

    /// Makes them, some single and timed in each window and the rest together: medians of the windows, ns.
    pub(super) fn grow(&mut self, flows: Range<u64>) -> Result<Vec<f64>, BenchError> {
        let mut medians = Vec::new();
        let mut at = flows.start;
        while at < flows.end {
            let end = (at + WINDOW).min(flows.end);
            let single = (at + 50).min(end);
            let mut ns = Vec::new();
            for flow in at..single {
                ns.push(self.one(Verb::Request, flow)?);
            }
            self.together(Verb::Request, single..end)?;
            medians.push(Spread::of(&ns).median);
            at = end;
        }
        Ok(medians)
    }

    fn together(&mut self, verb: Verb, flows: Range<u64>) -> Result<(), BenchError> {
        let mut at = flows.start;
        while at < flows.end {
            let end = (at + TOGETHER).min(flows.end);
            self.all((at..end).map(|flow| message(verb, flow)))?;
            at = end;
        }
        Ok(())
    }

    /// For so many seconds a reservation is made and an older one released by turns, so many messages on their way: operations a
    /// second, of each second.
    pub(super) fn churn(&mut self, live: u64, window: u64, seconds: u64) -> Result<Vec<f64>, BenchError> {
        let mut rates = Vec::new();
        let (mut newest, mut oldest) = (live, 0);
        let turns = window.div_ceil(2);
        for _ in 0..seconds {
            let start = Clock::now();
            let mut done = 0_u64;
            while start.elapsed() < Duration::from_secs(1) {
                let turn = |n| [message(Verb::Request, newest + n), message(Verb::Release, oldest + n)];
                self.all((0..turns).flat_map(turn))?;
                (newest, oldest) = (newest + turns, oldest + turns);
                done += 2 * turns;
            }
            rates.push(done as f64 / start.elapsed().as_secs_f64());
        }
        // As it was: those that are live are the lowest numbers again.
        self.together(Verb::Release, oldest..newest)?;
        self.together(Verb::Request, 0..live)?;
        self.live = live;
        Ok(rates)
    }

    pub(super) fn release_all(&mut self) -> Result<(), BenchError> {
        self.together(Verb::Release, 0..self.live)
    }
}
