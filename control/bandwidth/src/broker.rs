//! Whom measured classes ask: what an agent's broker knows beside requests, and the brokers that a file can name.

use crate::domain_broker::{DomainBroker, Place};
use crate::file::AgentFile;
use crate::notice::Notice;
use perhop_agent::DomainNews;
use perhop_allocate::Random;
use perhop_allocate::broker::{Broker, BrokerAnswer, BrokerAsk, ClassId, EmulatedBroker};
use perhop_model::ErrorItem;
use perhop_units::{Instant, Rate};

/// A broker of an agent. One that is not of the domain needs to know nothing of this.
pub trait AgentBroker: Broker {
    /// Where a class is, by port and logical class; none = the router has no such class.
    fn located(&mut self, _class: ClassId, _place: Option<Place>) {}

    /// What the router has for a class.
    fn in_router(&mut self, _class: ClassId, _rate: Rate) {}

    /// The controller of the domain has said this.
    fn news(&mut self, _now: Instant, _news: &DomainNews) {}

    /// The controller has decided about the lease of a name: by its question's number, bit/s in all, and why it is not what was asked.
    fn decided(
        &mut self,
        _now: Instant,
        _lease: &str,
        _number: u64,
        _bps: u64,
        _refused: Option<&ErrorItem>,
    ) {
    }

    /// The next class that may have no more than this.
    fn poll_limit(&mut self) -> Option<(ClassId, Rate)> {
        None
    }

    /// What is to be asked of the controller, and what a person should know.
    fn poll_notice(&mut self) -> Option<Notice> {
        None
    }
}

impl<R: Random> AgentBroker for EmulatedBroker<R> {}

/// The broker that a file names.
#[derive(Debug)]
pub enum FileBroker<R> {
    /// One in the agent itself.
    Emulated(EmulatedBroker<R>),
    /// The domain's controller.
    Controller(Box<DomainBroker>),
}

impl<R: Random> FileBroker<R> {
    /// Of a file. Chances of an emulated one are drawn from what `random` makes of their seed; `first` is above the number of every question
    /// of earlier instances.
    pub fn of(file: &AgentFile, random: impl Fn(u64) -> R, first: u64, now: Instant) -> Self {
        let (config, seed) = &file.broker;
        match file.leased_for {
            None => Self::Emulated(EmulatedBroker::new(config.clone(), random(*seed))),
            Some(lifetime) => {
                let classes = file.classes.iter().map(|class| class.class.clone());
                Self::Controller(Box::new(DomainBroker::new(classes, lifetime, first, now)))
            }
        }
    }
}

impl<R: Random> Broker for FileBroker<R> {
    fn ask(&mut self, now: Instant, ask: BrokerAsk) {
        match self {
            Self::Emulated(broker) => broker.ask(now, ask),
            Self::Controller(broker) => broker.ask(now, ask),
        }
    }

    fn poll_answer(&mut self, now: Instant) -> Option<BrokerAnswer> {
        match self {
            Self::Emulated(broker) => broker.poll_answer(now),
            Self::Controller(broker) => broker.poll_answer(now),
        }
    }

    fn next_wakeup(&self) -> Option<Instant> {
        match self {
            Self::Emulated(broker) => broker.next_wakeup(),
            Self::Controller(broker) => broker.next_wakeup(),
        }
    }

    fn register(&mut self, class: ClassId, rate: Rate) {
        match self {
            Self::Emulated(broker) => broker.register(class, rate),
            Self::Controller(broker) => broker.register(class, rate),
        }
    }
}

impl<R: Random> AgentBroker for FileBroker<R> {
    fn located(&mut self, class: ClassId, place: Option<Place>) {
        if let Self::Controller(broker) = self {
            broker.located(class, place);
        }
    }

    fn in_router(&mut self, class: ClassId, rate: Rate) {
        if let Self::Controller(broker) = self {
            broker.in_router(class, rate);
        }
    }

    fn news(&mut self, now: Instant, news: &DomainNews) {
        if let Self::Controller(broker) = self {
            broker.news(now, news);
        }
    }

    fn decided(&mut self, now: Instant, lease: &str, number: u64, bps: u64, refused: Option<&ErrorItem>) {
        if let Self::Controller(broker) = self {
            broker.decided(now, lease, number, bps, refused);
        }
    }

    fn poll_limit(&mut self) -> Option<(ClassId, Rate)> {
        match self {
            Self::Emulated(_) => None,
            Self::Controller(broker) => broker.poll_limit(),
        }
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        match self {
            Self::Emulated(_) => None,
            Self::Controller(broker) => broker.poll_notice(),
        }
    }
}
