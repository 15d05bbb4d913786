//! Calls that quality has refused: answered towards the caller, ended towards the callee.

use super::Proxy;
use super::context::BranchState;
use super::token;
use crate::message::{Message, Name, NameAddr, Reply};
use crate::quality::Quality;
use crate::transaction::Id;
use perhop_units::Instant;

impl<Q: Quality> Proxy<Q> {
    /// A call must not be: towards the callee it is ended, and its branch counts as one that was refused.
    #[expect(clippy::too_many_arguments, reason = "a branch and an answer")]
    pub(super) fn refuse(
        &mut self,
        now: Instant,
        id: u64,
        number: u64,
        client: Id,
        message: &Message,
        status: u16,
        reason: &str,
    ) {
        self.set_due(id, number, None);
        let Some(branch) = self.contexts.get_mut(&id).and_then(|c| c.branch(number)) else { return };
        branch.cancel = true;
        if message.status().is_some_and(|status| status < 200) {
            self.cancel_branch(now, id, number);
            if let Some(branch) = self.contexts.get_mut(&id).and_then(|c| c.branch(number)) {
                branch.state = BranchState::Refused(client, false);
            }
        } else {
            self.end_call(now, id, number, client, message, true);
        }
        let Some(context) = self.contexts.get_mut(&id) else { return };
        let answer = context.request.as_ref().map(|request| {
            let tag = token::tag(request, &self.settings.secret);
            Reply::new(request, status).tag(tag).with(Name::Reason, reason).bytes()
        });
        if let Some(answer) = answer {
            context.keep(status, answer);
        }
        self.finish_if_done(now, id);
    }

    /// Acknowledges a 2xx in the caller's place, and ends the call (§13.2.2.4, §15.1.1). The route set is that part of Record-Route that
    /// lies between here and the callee.
    pub(super) fn end_call(
        &mut self,
        now: Instant,
        id: u64,
        number: u64,
        client: Id,
        message: &Message,
        bye: bool,
    ) {
        if let Some(branch) = self.contexts.get_mut(&id).and_then(|c| c.branch(number)) {
            branch.state = BranchState::Refused(client, true);
        }
        let branches = [token::branch(self.word(), 0), token::branch(self.word(), 0)];
        let (Ok(head), Some((_, peer))) = (message.check(), self.transactions.sent(client)) else { return };
        let ours = |value: &[u8]| {
            NameAddr::read(value).is_some_and(|r| self.settings.is_self(r.uri.host, r.uri.port))
        };
        let below: Vec<_> = message.values(Name::RecordRoute).take_while(|value| !ours(value)).collect();
        let contact = message.contacts().next().and_then(Result::ok).map(|contact| contact.uri.text);
        let Some(listen) = self.settings.listen(peer.transport) else { return };
        let (host, transport) = (listen.sent_by(), peer.transport.text());
        let make = |method: &str, number: u32, branch: &[u8]| {
            let mut out =
                [method.as_bytes(), b" ", contact.unwrap_or(head.to.uri.text), b" SIP/2.0\r\n"].concat();
            let mut put = |name: Name, value: &[u8]| {
                out.extend_from_slice(&[name.text().as_bytes(), b": ", value, b"\r\n"].concat());
            };
            put(
                Name::Via,
                &[format!("SIP/2.0/{transport} {host};branch=").as_bytes(), branch, b";rport"].concat(),
            );
            put(Name::MaxForwards, b"70");
            below.iter().rev().for_each(|value| put(Name::Route, value));
            for name in [Name::From, Name::To, Name::CallId] {
                put(name, message.value(name).unwrap_or_default());
            }
            put(Name::CSeq, format!("{number} {method}").as_bytes());
            put(Name::ContentLength, b"0");
            out.extend_from_slice(b"\r\n");
            out
        };
        let ack = make("ACK", head.cseq, &branches[0]);
        let end = make("BYE", head.cseq.wrapping_add(1), &branches[1]);
        self.send(peer, ack);
        if bye {
            self.transactions.client(now, end, &branches[1], b"BYE", peer, 0);
        }
    }
}
