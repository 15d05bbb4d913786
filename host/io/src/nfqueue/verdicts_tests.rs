//! Verdicts against a model of the kernel's queue.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A queue as the kernel has it: what is in it, in order, and what came out with which contents.
#[derive(Default)]
struct Kernel {
    inside: Vec<u32>,
    out: BTreeMap<u32, Option<Vec<u8>>>,
    messages: usize,
}

impl Kernel {
    /// Does what the messages say, as `nfqnl_recv_verdict` and `nfqnl_recv_verdict_batch` do.
    fn take(&mut self, mut messages: &[u8]) {
        while !messages.is_empty() {
            let len = u32::from_ne_bytes(messages[..4].try_into().unwrap()) as usize;
            let (message, rest) = messages.split_at(len);
            messages = rest;
            self.messages += 1;
            assert_eq!(&message[16..20], &[0, 0, 0, 5], "any family, version 0, queue 5");
            assert_eq!(
                &message[20..28],
                &[&12u16.to_ne_bytes()[..], &[2, 0], &[0, 0, 0, 1]].concat()[..],
                "accepted"
            );
            let id = u32::from_be_bytes(message[28..32].try_into().unwrap());
            match u16::from_ne_bytes(message[4..6].try_into().unwrap()) {
                VERDICT => {
                    let at = self.inside.iter().position(|i| *i == id).expect("a packet of the queue");
                    self.inside.remove(at);
                    let contents = message.get(32..36).map(|head| {
                        let len = usize::from(u16::from_ne_bytes([head[0], head[1]]));
                        assert_eq!(u16::from_ne_bytes([head[2], head[3]]), PAYLOAD);
                        message[36..32 + len].to_vec()
                    });
                    self.out.insert(id, contents);
                }
                VERDICT_BATCH => {
                    let until = self.inside.iter().take_while(|i| (**i).wrapping_sub(id) as i32 <= 0).count();
                    assert!(until > 0, "a batch of nothing is refused");
                    self.out.extend(self.inside.drain(..until).map(|i| (i, None)));
                }
                other => panic!("message {other:#x}"),
            }
        }
    }
}

#[test]
fn a_run_of_unchanged_packets_is_one_message() {
    let (mut kernel, mut verdicts) = (Kernel::default(), Verdicts::new(5));
    kernel.inside = (1..=1_000).collect();
    (1..=1_000).for_each(|id| verdicts.accept(id));
    kernel.take(verdicts.messages());
    assert_eq!((kernel.messages, kernel.out.len(), kernel.inside.len()), (1, 1_000, 0));
}

#[test]
fn what_no_message_holds_goes_as_it_was() {
    let (mut kernel, mut verdicts) = (Kernel::default(), Verdicts::new(5));
    kernel.inside = vec![1, 2];
    verdicts.replace(1, &vec![7; MOST_PACKET]);
    assert!(verdicts.is_much());
    verdicts.replace(2, &vec![7; MOST_PACKET + 1]);
    kernel.take(verdicts.messages());
    assert_eq!(kernel.out[&1].as_ref().map(Vec::len), Some(MOST_PACKET));
    assert_eq!(kernel.out[&2], None);
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Accept,
    Replace(u8),
    Keep,
    /// Lets go one of those kept, changed or not.
    Release(u8, bool),
    Send,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => Just(Step::Accept),
        2 => any::<u8>().prop_map(Step::Replace),
        1 => Just(Step::Keep),
        2 => any::<(u8, bool)>().prop_map(|(which, changed)| Step::Release(which, changed)),
        1 => Just(Step::Send),
    ];
    prop::collection::vec(step, 0..120)
}

proptest! {
    #[test]
    fn every_packet_gets_its_own_verdict_and_none_that_is_kept(first: u32, steps in steps()) {
        let (mut kernel, mut verdicts) = (Kernel::default(), Verdicts::new(5));
        let (mut next, mut kept, mut expected) = (first, Vec::new(), BTreeMap::new());
        for step in steps {
            let arrives = matches!(step, Step::Accept | Step::Replace(_) | Step::Keep);
            if arrives {
                kernel.inside.push(next);
            }
            match step {
                Step::Accept => {
                    verdicts.accept(next);
                    expected.insert(next, None);
                }
                Step::Replace(octet) => {
                    let packet = vec![octet; 40 + usize::from(octet)];
                    verdicts.replace(next, &packet);
                    expected.insert(next, Some(packet));
                }
                Step::Keep => {
                    verdicts.keep();
                    kept.push(next);
                }
                Step::Release(which, changed) if !kept.is_empty() => {
                    let id = kept.remove(usize::from(which) % kept.len());
                    let packet = changed.then(|| vec![9; 41]);
                    verdicts.accept_kept(id, packet.as_deref());
                    expected.insert(id, packet);
                }
                Step::Release(..) => {}
                Step::Send => {
                    kernel.take(verdicts.messages());
                    verdicts.clear();
                    prop_assert_eq!(&kernel.out, &expected);
                }
            }
            next = next.wrapping_add(u32::from(arrives));
            prop_assert_eq!(verdicts.kept(), kept.len());
        }
        kernel.take(verdicts.messages());
        prop_assert_eq!(&kernel.out, &expected);
        prop_assert_eq!(&kernel.inside, &kept);
    }
}
