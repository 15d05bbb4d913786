//! Control of a router whose packets another thread forwards: at a steady pace it commits changes through the router's
//! transactions, and hands what is to be applied to that thread.

use crate::error::BenchError;
use crate::router::filter;
use perhop_contract::{Control, Input, Output};
use perhop_graph::router::{Change, Freed, RouterPlanner};
use perhop_io::clock;
use perhop_model::{
    Credentials, FilterMatch, Kind, Name, Object, Op, Outcome, Owner, PortRange, Reply, Spec, Transaction,
    TxnId,
};
use perhop_units::Instant;
use serde_json::json;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::Duration;

/// A change on its way to the packets' thread, and back.
pub struct Job {
    ticket: u64,
    /// To be applied.
    pub change: Change,
}

/// What the thread of the packets tells.
pub enum Told {
    /// Commit changes from now on.
    Begin,
    /// Commit no more; one that is under way comes to its end.
    End,
    /// In force; what was replaced comes back with it.
    Applied(Box<Job>),
    /// A slot of a tree is free.
    Freed(Freed),
}

/// What was done from [`Told::Begin`] to [`Told::End`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Changes committed.
    pub committed: u64,
    /// From asking to the answer, ns, of all of them together.
    pub commit_ns: u64,
}

/// What control is connected with.
pub struct Lines {
    pub jobs: SyncSender<Box<Job>>,
    pub told: Receiver<Told>,
    pub reports: SyncSender<Result<Report, BenchError>>,
}

/// When changes are due: the first at once, then at equal distances, to the nanosecond and without drift.
#[derive(Clone, Copy, Debug)]
struct Pace {
    start: Instant,
    per_second: u32,
}

impl Pace {
    /// When change `n` is due, whatever became of those before.
    fn due(self, n: u64) -> Instant {
        let ns = u128::from(n) * 1_000_000_000 / u128::from(self.per_second);
        Instant(self.start.0.saturating_add(ns as u64))
    }
}

/// Longest wait without looking at the clock.
const NAP: Duration = Duration::from_millis(100);
/// One change in so many is of a class's rate.
const CLASS_EVERY: u64 = 10;
/// One filter in so many has no addresses: verdicts of all flows have to be tested against its other fields.
const WIDE_EVERY: u64 = 20;
/// The class that packets go by, and the one that filters put in name: no packet may ever meet it.
const CLASSES: [&str; 2] = ["best-effort", "ef"];

/// The control half.
pub struct Changes {
    control: Control<RouterPlanner>,
    lines: Lines,
    per_second: u32,
    /// Filters that were there before.
    filters: u32,
    /// Changes asked for so far.
    asked: u64,
    /// Since when an answer is awaited.
    awaited: Option<Instant>,
    report: Report,
}

impl Changes {
    /// Commits nothing until told to.
    pub fn new(control: Control<RouterPlanner>, lines: Lines, per_second: u32, filters: u32) -> Self {
        Self { control, lines, per_second, filters, asked: 0, awaited: None, report: Report::default() }
    }

    /// Runs until the packets' thread is gone.
    pub fn run(mut self) {
        while let Ok(told) = self.lines.told.recv() {
            let done = match told {
                Told::Begin => self.turn().map(|()| std::mem::take(&mut self.report)),
                told => match self.told(told) {
                    Ok(()) => continue,
                    Err(error) => Err(error),
                },
            };
            let failed = done.is_err();
            if self.lines.reports.send(done).is_err() || failed {
                break;
            }
        }
    }

    /// Commits changes at their pace until told to end.
    fn turn(&mut self) -> Result<(), BenchError> {
        let pace = Pace { start: clock::monotonic(), per_second: self.per_second };
        let (first, mut ended) = (self.asked, false);
        while !ended || self.awaited.is_some() {
            let now = clock::monotonic();
            let due = pace.due(self.asked - first);
            if !ended && self.awaited.is_none() && due <= now {
                self.ask(now)?;
                continue;
            }
            let wait =
                if self.awaited.is_some() { NAP } else { Duration::from_nanos(due.since(now).0).min(NAP) };
            match self.lines.told.recv_timeout(wait) {
                Ok(Told::End) => ended = true,
                Ok(told) => self.told(told)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(gone()),
            }
        }
        Ok(())
    }

    fn told(&mut self, told: Told) -> Result<(), BenchError> {
        match told {
            Told::Applied(job) => self.input(Input::Applied { ticket: job.ticket }),
            Told::Freed(freed) => {
                for gone in self.control.planner_mut().freed(&freed) {
                    self.input(Input::Drained { id: gone.id, dropped: gone.dropped })?;
                }
                Ok(())
            }
            Told::Begin | Told::End => Ok(()),
        }
    }

    fn ask(&mut self, now: Instant) -> Result<(), BenchError> {
        let op = operation(self.asked, self.filters)?;
        self.asked += 1;
        // Ids that the router's own set-up has not used.
        let id = TxnId((u128::from(self.asked) | 1 << 64).to_be_bytes());
        let transaction = Box::new(Transaction::new(id, Owner::File, vec![op]));
        self.awaited = Some(now);
        self.input(Input::Request { request: self.asked, who: Credentials::ADMIN, transaction })
    }

    fn input(&mut self, input: Input) -> Result<(), BenchError> {
        self.control.handle_input(clock::monotonic(), input);
        while let Some(output) = self.control.poll_output() {
            match output {
                Output::Apply { ticket, change } => {
                    self.lines.jobs.send(Box::new(Job { ticket, change })).map_err(|_| gone())?;
                }
                Output::Reply { reply, .. } => self.answered(&reply)?,
            }
        }
        Ok(())
    }

    fn answered(&mut self, reply: &Reply) -> Result<(), BenchError> {
        let Some(asked) = self.awaited.take() else { return Ok(()) };
        if reply.outcome != Outcome::Committed {
            let errors: Vec<String> =
                reply.errors.iter().take(3).map(|e| format!("{}: {}", e.path, e.message)).collect();
            return Err(BenchError::Wrong(format!("a change was refused: {}", errors.join("; "))));
        }
        self.report.committed += 1;
        self.report.commit_ns += clock::monotonic().since(asked).0;
        Ok(())
    }
}

fn gone() -> BenchError {
    BenchError::Wrong("the packets' thread is gone".to_owned())
}

/// Change `n` of a router that had `filters` filters of the bench: a filter is put in and taken out again by the next one,
/// and every tenth change is of the rate guaranteed to the class that packets go by. One filter in [`WIDE_EVERY`] is of a service of
/// TCP, whoever uses it; packets are of UDP.
fn operation(n: u64, filters: u32) -> Result<Op, BenchError> {
    let name = |text: &str| Name::new(text).map_err(|e| BenchError::Router(e.to_string()));
    if n % CLASS_EVERY == CLASS_EVERY - 1 {
        let ppm = 490_000 - 10_000 * (n / CLASS_EVERY % 2);
        let fields = json!({ "guarantee": { "ppm": ppm } });
        return Ok(Op::Patch { kind: Kind::Class, name: name(CLASSES[0])?, fields, if_version: None });
    }
    let of_filters = n - n / CLASS_EVERY;
    let pair = of_filters / 2;
    let (ef, name) = (name(CLASSES[1])?, name(&format!("changed/{pair}"))?);
    if of_filters % 2 == 1 {
        return Ok(Op::Delete { kind: Kind::Filter, name, if_version: None, drain_ms: None });
    }
    // Beside those that are there, none like another for long.
    let mut spec = filter(filters + (pair % 100_000) as u32);
    if pair % WIDE_EVERY == WIDE_EVERY - 1 {
        let port = 1 + (pair % 65_000) as u16;
        let dst_ports = Some(PortRange { first: port, last: port });
        spec.matches = FilterMatch { protocol: Some(6), dst_ports, ..FilterMatch::default() };
    }
    spec.class = Some(ef);
    Ok(Op::put(Object::new(name, Spec::Filter(spec))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_model::{Given, Put};

    #[test]
    fn the_pace_neither_drifts_nor_bursts() {
        for per_second in [1, 3, 7, 1_000, 999_999] {
            let pace = Pace { start: Instant(5), per_second };
            assert_eq!(pace.due(0), Instant(5));
            assert_eq!(pace.due(u64::from(per_second) * 86_400), Instant(5 + 86_400_000_000_000));
            let exact = 1e9 / f64::from(per_second);
            for n in 0..1_000 {
                let gap = pace.due(n + 1).since(pace.due(n)).0 as f64;
                assert!((gap - exact).abs() <= 1.0, "{per_second} a second: {gap} after {n}");
            }
        }
    }

    #[test]
    fn every_filter_put_in_is_taken_out_next_and_every_tenth_change_is_of_a_rate() {
        let (mut there, mut rates, mut seen) = (None, Vec::new(), std::collections::HashSet::new());
        let mut wide = 0;
        for n in 0..1_000 {
            match operation(n, 50).unwrap() {
                Op::Put(Put {
                    given: Given::Object(Object { name, spec: Spec::Filter(spec), .. }), ..
                }) => {
                    assert_eq!(spec.class.as_ref().map(Name::as_str), Some("ef"));
                    assert!(there.replace(name.clone()).is_none() && seen.insert(name));
                    wide += usize::from(spec.matches.src.is_none() && spec.matches.dst.is_none());
                }
                Op::Delete { kind: Kind::Filter, name, .. } => assert_eq!(there.take(), Some(name)),
                Op::Patch { kind: Kind::Class, fields, .. } => {
                    assert_eq!(n % 10, 9);
                    rates.push(fields["guarantee"]["ppm"].as_u64().unwrap());
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((seen.len(), rates.len(), wide), (450, 100, 22));
        assert!(rates.windows(2).all(|two| two[0] != two[1]), "each of them changes something");
    }
}
