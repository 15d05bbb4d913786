//! Random schedules: whatever is asked, changed, dropped, lost and restarted, both ends agree once they are in contact.

use crate::pdp::{self, On, Refused};
use crate::pep::{self, Answers};
use crate::rig::{OTHER, Rig, TYPE, install, install_on, pdp_config, peer, pep_config, request, seconds};
use crate::session::{Key, Keyring};
use crate::wire::{Context, Handle, Reason, ReasonCode, Request};
use perhop_units::{Duration, Instant};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Clone, Debug)]
enum Step {
    Ask {
        is_configuration: bool,
    },
    Update(usize),
    Drop(usize),
    /// The PDP decides on the oldest question, or changes a decision.
    Decide(usize),
    Change(usize),
    Sync,
    Deliver(u8),
    Wait(u64),
    Cut {
        tell_pep: bool,
        tell_pdp: bool,
    },
    Reachable(bool),
    RestartPep,
    RestartPdp,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => any::<bool>().prop_map(|is_configuration| Step::Ask { is_configuration }),
        5 => any::<usize>().prop_map(Step::Update),
        4 => any::<usize>().prop_map(Step::Drop),
        12 => any::<usize>().prop_map(Step::Decide),
        4 => any::<usize>().prop_map(Step::Change),
        1 => Just(Step::Sync),
        20 => any::<u8>().prop_map(Step::Deliver),
        6 => (1..3_000u64).prop_map(Step::Wait),
        1 => (3_000..200_000u64).prop_map(Step::Wait),
        3 => any::<(bool, bool)>().prop_map(|(tell_pep, tell_pdp)| Step::Cut { tell_pep, tell_pdp }),
        2 => any::<bool>().prop_map(Step::Reachable),
        1 => any::<bool>().prop_map(|pep| if pep { Step::RestartPep } else { Step::RestartPdp }),
    ]
}

struct Run {
    rig: Rig,
    handles: u64,
    /// Each question is another: its message type says which.
    contents: u16,
}

impl Run {
    fn pick(&self, n: usize) -> Option<u64> {
        let all: Vec<u64> =
            self.rig.pep.requests(TYPE).filter_map(|(request, _)| request.handle.number()).collect();
        (!all.is_empty()).then(|| all[n % all.len()])
    }

    fn step(&mut self, step: Step) {
        let rig = &mut self.rig;
        match step {
            Step::Ask { is_configuration } => {
                self.handles += 1;
                let r_type = if is_configuration { Context::CONFIGURATION } else { Context::ALLOCATION };
                rig.pep.ask(rig.now, TYPE, request(self.handles, r_type)).expect("room");
            }
            Step::Update(n) => {
                let Some(n) = self.pick(n) else { return };
                let rig = &mut self.rig;
                self.contents = self.contents.wrapping_add(1);
                let r_type = if n % 2 == 0 { Context::CONFIGURATION } else { Context::ALLOCATION };
                let context = Context { r_type, m_type: self.contents };
                rig.pep.ask(rig.now, TYPE, Request { context, ..request(n, r_type) }).expect("it is there");
            }
            Step::Drop(n) => {
                let Some(n) = self.pick(n) else { return };
                let rig = &mut self.rig;
                rig.pep
                    .drop_request(rig.now, TYPE, &n.into(), Reason::of(ReasonCode::TEAR))
                    .expect("it is there");
            }
            Step::Decide(n) => {
                let waiting = rig.waiting.as_mut().expect("it waits");
                if waiting.is_empty() {
                    return;
                }
                let (handle, question, context) = waiting.remove(n % waiting.len());
                let done =
                    rig.pdp.decide(rig.now, &peer(), &handle, On::Question(question), install_on(context));
                // The oldest on its handle can be decided on, unless the request or the connection is gone.
                if done == Err(Refused::NotAsked)
                    && waiting.iter().any(|(h, q, _)| *h == handle && *q < question)
                {
                    waiting.push((handle, question, context));
                }
            }
            Step::Change(n) => {
                let handles: Vec<_> = rig.pdp.handles(&peer()).cloned().collect();
                if !handles.is_empty() {
                    let handle = &handles[n % handles.len()];
                    let _ =
                        rig.pdp.decide(rig.now, &peer(), handle, On::Change, install(Context::ALLOCATION));
                }
            }
            Step::Sync => _ = rig.pdp.synchronize(rig.now, &peer(), None),
            Step::Deliver(n) => (0..n % 8).for_each(|_| _ = rig.step()),
            Step::Wait(ms) => rig.run(Duration::from_millis(ms)),
            Step::Cut { tell_pep, tell_pdp } => rig.cut(tell_pep, tell_pdp),
            Step::Reachable(is_reachable) => rig.is_reachable = is_reachable,
            Step::RestartPep => rig.restart_pep(),
            Step::RestartPdp => rig.restart_pdp(),
        }
        self.rig.collect();
    }

    /// Contact again, and the PDP decides on all: what the PEP has is what the PDP has, and all of it is decided on.
    fn agree(mut self) {
        let rig = &mut self.rig;
        rig.is_reachable = true;
        let waiting = rig.waiting.take().expect("it waits");
        for (handle, question, context) in waiting {
            let _ = rig.pdp.decide(rig.now, &peer(), &handle, On::Question(question), install_on(context));
            rig.collect();
        }
        rig.run(seconds(120));
        assert!(rig.pep.is_open(TYPE), "in contact again");
        let at_pep: Vec<_> = rig.pep.requests(TYPE).map(|(request, _)| request.handle.clone()).collect();
        let at_pdp: Vec<_> = rig.pdp.handles(&peer()).cloned().collect();
        assert_eq!(at_pep, at_pdp, "both have the same requests");
        assert!(rig.pep.requests(TYPE).all(|(_, is_decided)| is_decided), "all are decided on");
        for (request, _) in rig.pep.requests(TYPE) {
            let answer = rig.pep_notices.iter().rev().find_map(|notice| answer_to(&request.handle, notice));
            assert_eq!(answer, Some(request.context), "and the last answer is to what is asked");
        }
        // Nothing leaks: what is dropped is gone at both ends.
        for handle in at_pep {
            rig.pep.drop_request(rig.now, TYPE, &handle, Reason::of(ReasonCode::TEAR)).expect("it is there");
        }
        rig.run(seconds(1));
        assert_eq!(rig.pdp.handles(&peer()).count(), 0);
        rig.is_reachable = false;
        rig.cut(true, true);
        rig.run(seconds(1));
        assert_eq!(rig.pdp.peers().count(), 0, "a client without requests and connection is forgotten");
    }
}

/// On what a notice is the PDP's answer, if it is to the request.
fn answer_to(request: &Handle, notice: &pep::Notice) -> Option<Context> {
    match notice {
        pep::Notice::Decided { handle, answers: Answers::Request, decisions, .. } if handle == request => {
            Some(decisions[0].context)
        }
        _ => None,
    }
}

fn digests() -> Arc<Keyring> {
    let key = Key { id: 1, secret: Box::from(&b"secret"[..]), from: Instant(0), until: Instant(u64::MAX) };
    Arc::new(Keyring { keys: vec![key] })
}

fn secure(security: u8) -> (pep::Config, pdp::Config) {
    let (mut pep, mut pdp) = (pep_config(&[TYPE, OTHER]), pdp_config());
    pdp.keep = seconds(100);
    pep.keep = seconds(60);
    match security {
        0 => {}
        1 => {
            pep.security = pep::Security::Digest(digests());
            pdp.security = pdp::Security::Digest(BTreeMap::from([(pep.id.clone(), digests())]));
        }
        _ => (pep.security, pdp.security) = (pep::Security::Tls, pdp::Security::Tls),
    }
    (pep, pdp)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4 * ProptestConfig::default().cases, ..ProptestConfig::default() })]

    #[test]
    fn both_ends_agree_after_whatever_happened(steps in vec(step(), 1..160), seed in any::<u64>(), security in 0..3u8) {
        let (pep, pdp) = secure(security);
        let mut rig = Rig::new(pep, pdp, seed);
        rig.waiting = Some(Vec::new());
        rig.run(seconds(1));
        let mut run = Run { rig, handles: 0, contents: 0 };
        steps.into_iter().for_each(|step| run.step(step));
        run.agree();
    }
}
