//! Packets in, verdicts out.

use super::shares::Shares;
use perhop_abr::{
    AbrPolicyId, Checksum, Controller, Counters, Facts, FlowState, Held, Locator, PolicyCounters, Settings,
    Verdict,
};
use perhop_io::checksum::complete_at;
use perhop_io::nfqueue::{Hook, Queued, Verdicts};
use perhop_packet::ClassId;
use perhop_routerfile::host::{FORWARDED, HostPolicy, RECEIVED, SENT};
use perhop_units::{Instant, Rate};
use perhop_wire::{Layout, dissect_packet, protocol};
use std::sync::Arc;

/// Connections looked at by one call of [`HostAbr::tick`].
const LOOKS: usize = 64;

/// What the machine is told at its start.
#[derive(Clone, Debug)]
pub struct HostAbrConfig {
    /// Connections followed at most.
    pub connections: usize,
    /// Acknowledgments held at most; those beyond let the oldest go.
    pub held: usize,
    /// Policies, in the order in which they are compared.
    pub policies: Vec<HostPolicy>,
    /// What each direction of the link carries, divided between the policies; none = each has its own rate.
    pub link: Option<Rate>,
    /// Key of the table's hash.
    pub seed: u64,
}

/// Where verdicts go: [`Verdicts`] live. Each packet gets one of the first three, in the order in which packets came.
pub trait Answers {
    /// Goes on as it is.
    fn accept(&mut self, id: u32);
    /// Goes on with other contents.
    fn replace(&mut self, id: u32, packet: &[u8]);
    /// Stays in the queue until [`Answers::accept_kept`].
    fn keep(&mut self, id: u32);
    /// What was kept goes on, with other contents if there are some.
    fn accept_kept(&mut self, id: u32, packet: Option<&[u8]>);
}

impl Answers for Verdicts {
    fn accept(&mut self, id: u32) {
        Self::accept(self, id);
    }
    fn replace(&mut self, id: u32, packet: &[u8]) {
        Self::replace(self, id, packet);
    }
    fn keep(&mut self, _id: u32) {
        Self::keep(self);
    }
    fn accept_kept(&mut self, id: u32, packet: Option<&[u8]>) {
        Self::accept_kept(self, id, packet);
    }
}

/// What the machine counts besides [`Counters`], in packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostCounters {
    /// Seen.
    pub packets: u64,
    /// Of these, no TCP segments, or none that could be read: longer than a message holds, for example.
    pub unread: u64,
    /// Of these, several segments in one.
    pub large: u64,
    /// Changed packets whose checksum was completed here.
    pub completed: u64,
    /// Passed without having been seen, because the socket was full.
    pub missed: u64,
}

/// A packet that waits in the kernel's queue.
#[derive(Debug)]
struct Kept {
    id: u32,
    /// Its new contents.
    packet: Option<Box<[u8]>>,
}

/// See the module above.
#[derive(Debug)]
pub struct HostAbr {
    controller: Controller,
    held: Held<Kept>,
    policies: Vec<HostPolicy>,
    shares: Option<Shares>,
    counters: HostCounters,
    /// Number of the last packet.
    last: Option<u32>,
}

impl HostAbr {
    /// With all memory that it will use, but for the contents of held packets.
    pub fn new(config: HostAbrConfig) -> Self {
        let HostAbrConfig { connections, held, policies, link, seed } = config;
        let numbered = policies.iter().zip(0..).map(|(policy, id)| policy.policy(AbrPolicyId(id)));
        let settings = Arc::new(Settings { policies: numbered.collect() });
        let shares = link.map(|link| Shares::new(link, &policies));
        let controller = Controller::new(connections, settings, seed).remembering_ends();
        let counters = HostCounters::default();
        let mut machine = Self { controller, held: Held::new(held), policies, shares, counters, last: None };
        machine.share();
        machine
    }

    /// A packet waits for its verdict; `packet` is from its IP header on.
    pub fn packet(&mut self, now: Instant, queued: &Queued, packet: &mut [u8], answers: &mut impl Answers) {
        self.count(queued);
        let layout = match dissect_packet(packet) {
            Ok(layout) if layout.protocol == protocol::TCP && !queued.cut => layout,
            _ => {
                self.counters.unread += 1;
                answers.accept(queued.id);
                return;
            }
        };
        let facts = Facts { class: class_of(queued.hook), ..Facts::default() };
        // Of a large segment the field need not be right even where it counts as checked: a card has done that.
        let unfinished = queued.checksum_missing || queued.several;
        let checksum = if unfinished { Checksum::Partial } else { Checksum::Complete };
        let before = window(packet, &layout);
        let verdict = self.controller.segment(now, Locator::Endpoints, &facts, &layout, packet, checksum);
        let changed = window(packet, &layout) != before;
        if changed && unfinished {
            complete_at(packet, &layout);
            self.counters.completed += 1;
        }
        match verdict {
            Verdict::Pass if changed => answers.replace(queued.id, packet),
            Verdict::Pass => answers.accept(queued.id),
            Verdict::HoldUntil(until) => {
                answers.keep(queued.id);
                let kept = Kept { id: queued.id, packet: changed.then(|| (&*packet).into()) };
                if let Some(early) = self.held.push(until, kept) {
                    self.controller.counters_mut().hold_full += 1;
                    answers.accept_kept(early.id, early.packet.as_deref());
                }
            }
        }
    }

    /// Lets go what has been held long enough.
    pub fn release(&mut self, now: Instant, answers: &mut impl Answers) {
        while let Some(kept) = self.held.release(now) {
            answers.accept_kept(kept.id, kept.packet.as_deref());
        }
    }

    /// Lets go everything that is held.
    pub fn release_all(&mut self, answers: &mut impl Answers) {
        while let Some(kept) = self.held.pop() {
            answers.accept_kept(kept.id, kept.packet.as_deref());
        }
    }

    /// Looks after connections, and divides the link anew if flows have started or stopped. Whether there is more to do at
    /// once.
    pub fn tick(&mut self, now: Instant) -> bool {
        let more = self.controller.tick(now, LOOKS);
        self.share();
        more
    }

    /// When [`HostAbr::release`] or [`HostAbr::tick`] has something to do.
    pub fn next_wakeup(&self) -> Option<Instant> {
        [self.held.next_wakeup(), self.controller.next_wakeup()].into_iter().flatten().min()
    }

    /// Flows that belong to a policy.
    pub fn flows(&self) -> impl Iterator<Item = FlowState> + '_ {
        self.controller.flows(0..self.controller.slots())
    }

    /// The policies, by their number.
    pub fn policies(&self) -> &[HostPolicy] {
        &self.policies
    }

    /// What policy `index` has done, and the rate that its flows share.
    pub fn policy_counters(&self, index: usize) -> (PolicyCounters, Rate) {
        let rate = self.controller.settings().policies.get(index).map_or(Rate::ZERO, |policy| policy.rate);
        (self.controller.policy_counters(AbrPolicyId(index as u32)), rate)
    }

    /// What the rate control counts.
    pub fn abr_counters(&self) -> &Counters {
        self.controller.counters()
    }

    /// What is counted besides.
    pub fn counters(&self) -> HostCounters {
        self.counters
    }

    /// Connections now, and packets held now.
    pub fn gauges(&self) -> (usize, usize) {
        (self.controller.connections(), self.held.len())
    }

    fn count(&mut self, queued: &Queued) {
        self.counters.packets += 1;
        self.counters.large += u64::from(queued.several);
        if let Some(last) = self.last {
            // Numbers are given before it is known whether the socket has room.
            let gap = queued.id.wrapping_sub(last).wrapping_sub(1);
            self.counters.missed += u64::from(if gap < 1 << 31 { gap } else { 0 });
        }
        self.last = Some(queued.id);
    }

    fn share(&mut self) {
        let Some(shares) = &mut self.shares else { return };
        let controller = &self.controller;
        let flows =
            (0..self.policies.len()).map(|id| controller.policy_counters(AbrPolicyId(id as u32)).flows);
        let Some(rates) = shares.divide(flows) else { return };
        let mut settings = Settings::clone(self.controller.settings());
        for (policy, rate) in settings.policies.iter_mut().zip(rates) {
            policy.rate = *rate;
        }
        drop(self.controller.replace(Arc::new(settings)));
    }
}

/// Where a packet was queued says which way its data goes.
fn class_of(hook: Hook) -> ClassId {
    match hook {
        Hook::Output => SENT,
        Hook::Input => RECEIVED,
        Hook::Prerouting | Hook::Forward | Hook::Postrouting | Hook::Other(_) => FORWARDED,
    }
}

fn window(packet: &[u8], layout: &Layout) -> Option<[u8; 2]> {
    packet.get(usize::from(layout.l4_offset) + 14..)?.first_chunk().copied()
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
