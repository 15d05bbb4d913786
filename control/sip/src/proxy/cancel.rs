//! Branches that are given up: by CANCEL, by timer C, and when a name is not resolved (RFC 3261 §9.1, §16.8, §16.10).

use super::Proxy;
use super::context::BranchState;
use super::forward::Waiting;
use crate::message::Message;
use crate::quality::{Change, Quality, Verdict};
use perhop_units::Instant;

impl<Q: Quality> Proxy<Q> {
    /// Cancels what may be cancelled of a context.
    pub(super) fn cancel_branches(&mut self, now: Instant, id: u64) {
        let Some(context) = self.contexts.get_mut(&id) else { return };
        if !context.invite {
            return;
        }
        let mut open = Vec::new();
        for branch in &mut context.branches {
            match branch.state {
                BranchState::Sent(_) => {
                    branch.cancel = true;
                    open.push((branch.number, false));
                }
                BranchState::Resolving => open.push((branch.number, true)),
                _ => {}
            }
        }
        for (number, resolving) in open {
            if resolving {
                self.resolving.remove(&number);
                self.lost(now, id, number, 487);
            } else {
                self.cancel_branch(now, id, number);
            }
        }
    }

    /// Sends CANCEL if the request has arrived and was not cancelled before (§9.1).
    pub(super) fn cancel_branch(&mut self, now: Instant, id: u64, number: u64) {
        let until = now + self.settings.timers.long();
        let Some(branch) = self.contexts.get_mut(&id).and_then(|c| c.branch(number)) else { return };
        let BranchState::Sent(client) = branch.state else { return };
        if branch.cancelled || !self.transactions.is_proceeding(client) {
            return;
        }
        branch.cancelled = true;
        let Some((sent, peer)) = self.transactions.sent(client) else { return };
        let Ok(sent) = Message::datagram(sent) else { return };
        let made = sent.dependent("CANCEL", None);
        if let Some(own) = sent.via().and_then(|via| via.branch().map(<[u8]>::to_vec)) {
            self.transactions.client(now, made, &own, b"CANCEL", peer, 0);
        }
        self.set_due(id, number, Some(until));
    }

    /// Timer C (§16.8), and names that nobody has resolved.
    pub(super) fn branches_due(&mut self, now: Instant) {
        while let Some(&(at, id, number)) = self.due.first().filter(|(at, ..)| *at <= now) {
            self.due.remove(&(at, id, number));
            if id == 0 {
                if let Some(Waiting::Ack(..)) = self.resolving.remove(&number) {
                    self.counters.dropped += 1;
                }
                continue;
            }
            let Some(branch) = self.contexts.get_mut(&id).and_then(|c| c.branch(number)) else { continue };
            branch.due = None;
            match branch.state {
                BranchState::Resolving => {
                    self.resolving.remove(&number);
                    self.lost(now, id, number, 408);
                }
                BranchState::Sent(client) if branch.cancelled => {
                    self.transactions.forget(client);
                    self.lost(now, id, number, 408);
                }
                BranchState::Held(_) => {
                    let of = |held: &(u64, u64, u64, Box<Message>)| (held.0, held.1) == (id, number);
                    let ticket = self.held.iter().rfind(|(_, held)| of(held)).map(|(ticket, _)| *ticket);
                    match ticket {
                        Some(ticket) => {
                            let change = Change { strip: true, ..Change::default() };
                            self.decided(now, ticket, Verdict::Pass(change));
                        }
                        None => self.lost(now, id, number, 408),
                    }
                }
                BranchState::Refused(client, false) => self.transactions.forget(client),
                BranchState::Sent(_) => {
                    branch.cancel = true;
                    self.cancel_branch(now, id, number);
                }
                _ => {}
            }
        }
    }
}
