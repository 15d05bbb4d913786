//! The agent of one router: a session, and the parts that there are.

use crate::bandwidth::{Bandwidth, PolicyReport};
use crate::broker::AgentBroker;
use crate::file::AgentFile;
use crate::measured::Allocations;
use crate::notice::{ClassReport, Notice, Output};
use perhop_agent::{Input, Part, Parts, Router, Session};
use perhop_broker::lease::Reserved as Leased;
use perhop_broker::reserved::Reserved;
use perhop_units::{Duration, Instant};

/// See the crate's documentation.
#[derive(Debug)]
pub struct Agent<B: AgentBroker>(Session<All<B>>);

/// The bandwidth management service, measured allocation, leases, and what a domain has reserved: a link that will be slower does
/// not wait.
#[derive(Debug)]
struct All<B> {
    bandwidth: Bandwidth,
    allocations: Allocations<B>,
    /// Only in a domain.
    reserved: Option<Reserved>,
    /// Only where something is decided beside the router.
    leased: Option<Leased>,
}

impl<B: AgentBroker> Parts for All<B> {
    type Notice = Notice;

    fn each(&self) -> impl Iterator<Item = &dyn Part<Notice>> {
        let reserved = self.reserved.as_ref().map(|part| part as &dyn Part<Notice>);
        let leased = self.leased.as_ref().map(|part| part as &dyn Part<Notice>);
        [&self.bandwidth as &dyn Part<Notice>, &self.allocations].into_iter().chain(leased).chain(reserved)
    }

    fn each_mut(&mut self) -> impl Iterator<Item = &mut dyn Part<Notice>> {
        let reserved = self.reserved.as_mut().map(|part| part as &mut dyn Part<Notice>);
        let leased = self.leased.as_mut().map(|part| part as &mut dyn Part<Notice>);
        let others = [&mut self.bandwidth as &mut dyn Part<Notice>, &mut self.allocations];
        others.into_iter().chain(leased).chain(reserved)
    }
}

impl<B: AgentBroker> Agent<B> {
    /// An agent without a router at `now`. `fence` must be above that of every instance before it on the same router;
    /// queues are looked at every `least_poll` at most.
    pub fn new(file: &AgentFile, broker: B, fence: u64, least_poll: Duration, now: Instant) -> Self {
        let poll = file.poll().map(|poll| poll.max(least_poll));
        let parts = All {
            bandwidth: Bandwidth::new(&file.bandwidth, least_poll, now),
            allocations: Allocations::new(&file.classes, poll, broker, now),
            reserved: file.controller.as_ref().map(|_| Reserved::new(now)),
            leased: file.leases.as_ref().map(|leases| {
                let classes = leases.classes.iter();
                Leased::new(classes.map(|(name, class)| (name.clone(), class.classes.clone())).collect())
            }),
        };
        Self(Session::new(parts, fence))
    }

    /// Takes one input. All outputs must be polled before the next.
    pub fn handle_input(&mut self, now: Instant, input: Input) {
        self.0.handle_input(now, input);
    }

    /// The next thing to do.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.0.poll_output()
    }

    /// When an input is due at the latest.
    pub fn next_wakeup(&self) -> Option<Instant> {
        self.0.next_wakeup()
    }

    /// See [`Session::tell`].
    ///
    /// # Errors
    /// The router does not answer. The agent has been told that it is gone.
    pub fn tell<R: Router>(
        &mut self,
        clock: impl FnMut() -> Instant,
        input: Input,
        router: Option<&mut R>,
        say: impl FnMut(Instant, Notice),
    ) -> Result<(), R::Error> {
        self.0.tell(clock, input, router, say)
    }

    /// Whether another instance has taken over.
    pub fn is_superseded(&self) -> bool {
        self.0.is_superseded()
    }

    /// Whether the router has all that is in force.
    pub fn is_settled(&self) -> bool {
        self.0.is_settled()
    }

    /// The classes, in order of the file.
    pub fn classes(&self) -> impl Iterator<Item = ClassReport> + '_ {
        self.0.parts().allocations.report()
    }

    /// The policies that share links, by name.
    pub fn policies(&self) -> impl Iterator<Item = PolicyReport> + '_ {
        self.0.parts().bandwidth.report()
    }
}

#[cfg(test)]
#[path = "leased_tests.rs"]
mod leased_tests;
#[cfg(test)]
#[path = "tell_tests.rs"]
mod tell_tests;
#[cfg(test)]
#[path = "agent_tests.rs"]
mod tests;
