//! A client that takes the time.

use crate::error::BenchError;
use crate::report::Spread;
use perhop_tcapi::wire::{
    Alternative, Body, FlowId, Frames, Message, Request, Reservation, ServiceClass, Verb,
};
use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant as Clock};

/// A router that has not answered by then is gone.
const PATIENCE: Duration = Duration::from_secs(30);
/// Reservations of a window while their number grows.
const WINDOW: u64 = 1_000;
/// Messages sent together while reservations grow and go.
const TOGETHER: u64 = 512;

pub(super) struct Client {
    stream: UnixStream,
    frames: Frames,
    txn: u64,
    buffer: Vec<u8>,
    /// Reservations 0 … are live.
    live: u64,
}

/// Times of single reservations and of their releases, ns.
#[derive(Default)]
pub(super) struct Times {
    pub(super) requests: Vec<f64>,
    pub(super) releases: Vec<f64>,
}

impl Client {
    pub(super) fn connect(path: &Path) -> Result<Self, BenchError> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { stream, frames: Frames::default(), txn: 0, buffer: vec![0; 1 << 16], live: 0 })
    }

    fn message(&mut self, verb: Verb, flow: u64, out: &mut Vec<u8>) {
        self.txn += 1;
        let mut request = Request::of(FlowId::Number(flow));
        if verb == Verb::Request {
            request.class = Some(ServiceClass { number: 1, dscp: None, name: String::new() });
            let (rate_bps, burst_bytes, peak_bps, max_packet, min_policed) = (80_000, 0, 0, 0, 0);
            request.reservation =
                Some(Reservation { rate_bps, burst_bytes, peak_bps, max_packet, min_policed });
            let address = Ipv4Addr::from(0x0a00_0000 | (flow as u32 & 0x00ff_ffff));
            request.filter = vec![Alternative {
                dst: Some(std::net::IpAddr::V4(address).into()),
                protocol: Some(17),
                dst_ports: Some((5_004, 5_004)),
                ..Alternative::default()
            }];
        }
        Message { txn: self.txn, epoch: 1, body: Body::Do(verb, Box::new(request)) }.write(out);
    }

    /// The next answer, which is an ACK.
    fn answer(&mut self) -> Result<(), BenchError> {
        loop {
            let wrong = |why: String| BenchError::Wrong(why);
            match self.frames.next().map_err(|e| wrong(e.to_string()))? {
                Some(frame) => match frame.message.map(|m| m.body) {
                    Ok(Body::Answer(answer)) => match answer.refusal {
                        None => return Ok(()),
                        Some(refusal) => return Err(wrong(format!("{}: {}", refusal.code, refusal.message))),
                    },
                    other => return Err(wrong(format!("{other:?} is no answer"))),
                },
                None => match self.stream.read(&mut self.buffer)? {
                    0 => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                    length => self.frames.push(&self.buffer[..length]),
                },
            }
        }
    }

    fn one(&mut self, verb: Verb, flow: u64) -> Result<f64, BenchError> {
        let mut bytes = Vec::with_capacity(256);
        self.message(verb, flow, &mut bytes);
        let start = Clock::now();
        self.stream.write_all(&bytes)?;
        self.answer()?;
        Ok(start.elapsed().as_nanos() as f64)
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
            let mut bytes = Vec::new();
            (at..end).for_each(|flow| self.message(verb, flow, &mut bytes));
            self.stream.write_all(&bytes)?;
            (at..end).try_for_each(|_| self.answer())?;
            at = end;
        }
        Ok(())
    }

    /// For so many seconds a reservation is made and an older one released by turns, so many messages on their way: operations a
    /// second, of each second.
    pub(super) fn churn(&mut self, live: u64, window: u64, seconds: u64) -> Result<Vec<f64>, BenchError> {
        let mut rates = Vec::new();
        let (mut newest, mut oldest) = (live, 0);
        for _ in 0..seconds {
            let start = Clock::now();
            let mut done = 0_u64;
            while start.elapsed() < Duration::from_secs(1) {
                let mut bytes = Vec::new();
                for _ in 0..window.div_ceil(2) {
                    self.message(Verb::Request, newest, &mut bytes);
                    self.message(Verb::Release, oldest, &mut bytes);
                    (newest, oldest) = (newest + 1, oldest + 1);
                }
                self.stream.write_all(&bytes)?;
                let sent = 2 * window.div_ceil(2);
                (0..sent).try_for_each(|_| self.answer())?;
                done += sent;
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
