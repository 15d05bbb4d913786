//! The rate control over segments of a few connections, in any order and with any options: nothing panics, and what comes
//! out keeps the rules that [`perhop_abr::testkit`] judges by.
//!
//! Input: four bytes of settings, then for each segment twenty bytes (which connection and end, wait, flags, numbers
//! relative to the last, window, length of data and of options) and its options. Or, when the first byte is odd, frames
//! as they are, each behind two bytes of length.
use perhop_abr::testkit::{Allowed, Oracle, complete};
use perhop_abr::{
    AbrPolicyId, Checksum, Controller, Facts, Floor, Held, Latency, Locator, Match, Policy, Settings, Verdict,
};
use perhop_units::{Duration, Instant, Rate};
use perhop_wire::tcp::flags::SYN;
use perhop_wire::{build, dissect};
use std::sync::Arc;

/// Most segments of a script.
const STEPS: usize = 200;

/// See the module.
pub fn rate_control(data: &[u8]) {
    let Some((head, rest)) = data.split_first_chunk::<4>() else { return };
    let follows = head[0] & 1 == 0;
    let mut world = World {
        // The place of a connection that has ended comes free later: one for every step, where none may be forgotten.
        controller: Controller::new(if follows { STEPS + 4 } else { 4 }, settings(head), 1),
        held: Held::new(8),
        oracle: Oracle::default(),
        follows,
        now: Instant(1_000_000),
        numbers: [[1, 1]; 4],
    };
    if follows { world.script(rest) } else { world.frames(rest) }
}

fn settings(head: &[u8; 4]) -> Arc<Settings> {
    let bit = |n: u8| head[1] >> n & 1 == 1;
    let policy = Policy {
        id: AbrPolicyId(u32::from(head[2] & 3)),
        matches: Match::default(),
        rate: Rate(1 << (head[3] % 45)),
        peak: Rate(if bit(0) { 1 << 16 } else { 0 }),
        floor: if bit(1) { Floor::Pace } else { Floor::Clamp },
        latency: match head[2] >> 2 & 3 {
            0 => Latency::Timed { up: Duration::from_millis(u64::from(head[3])), down: u32::MAX },
            1 => Latency::Minimum { window: Duration::from_millis(u64::from(head[3])) },
            _ => Latency::PUBLISHED,
        },
        allow_shrink: bit(2),
        span: Duration::ZERO,
        limit_syn_ack: bit(3),
        assume_shift: bit(4).then_some(head[2] >> 4),
        local: bit(5),
        overhead: u32::from(bit(6)) * 1_000_000,
        idle: Duration::from_millis(u64::from(head[3]) * 8),
    };
    Arc::new(Settings { policies: vec![policy] })
}

struct World {
    controller: Controller,
    held: Held<u64>,
    oracle: Oracle,
    /// No connection need be forgotten to make room for another.
    follows: bool,
    now: Instant,
    /// Next number of each end of each connection.
    numbers: [[u32; 2]; 4],
}

impl World {
    fn script(&mut self, mut rest: &[u8]) {
        let mut steps = 0;
        while let Some((step, behind)) = rest.split_first_chunk::<20>()
            && steps < STEPS
        {
            steps += 1;
            let (which, end) = (usize::from(step[0] & 3), usize::from(step[0] >> 2 & 1));
            let options_len = usize::from(step[19] % 11) * 4;
            let (options, after) = behind.split_at(options_len.min(behind.len()));
            rest = after;
            let payload = usize::from(u16::from_be_bytes([step[16], step[17]])) % 3000;
            let own = &mut self.numbers[which];
            let word = |at: usize| i32::from(i16::from_be_bytes([step[at], step[at + 1]]));
            let seq = own[end].wrapping_add_signed(word(4) << (step[6] % 17));
            let ack = own[1 - end].wrapping_add_signed(word(8) << (step[10] % 17));
            let flags = step[3];
            own[end] = seq.wrapping_add(payload as u32).wrapping_add(u32::from(flags & SYN != 0));
            let v6 = which & 1 == 1;
            let ports = if end == 0 { (1000, 80) } else { (80, 1000) };
            let address = |n: usize| [10, 0, which as u8, n as u8];
            let address6 = |n: usize| [0xfd00, 0, 0, 0, 0, 0, which as u16, n as u16];
            let frame = match v6 {
                false => build::tcp4(address(end), address(1 - end)),
                true => build::tcp6(address6(end), address6(1 - end)),
            };
            let mut data = options.to_vec();
            data.resize(data.len().next_multiple_of(4), 1);
            let header_words = data.len() / 4;
            data.resize(data.len() + payload, 0x55);
            let window = u16::from_be_bytes([step[14], step[15]]);
            let mut frame = frame
                .ports(ports.0, ports.1)
                .flags(flags)
                .seq_ack(seq, ack)
                .window(window)
                .payload(&data)
                .build();
            let Ok(layout) = dissect(&frame) else { continue };
            frame[usize::from(layout.l4_offset) + 12] += (header_words as u8) << 4;
            if step[18] & 1 == 0 {
                complete(&mut frame);
            }
            self.now += Duration::from_micros(u64::from(step[1]) << (step[2] % 20));
            self.pass(frame, step[18] & 2 != 0);
        }
    }

    fn frames(&mut self, mut rest: &[u8]) {
        while let Some((len, behind)) = rest.split_first_chunk::<2>() {
            let (frame, after) = behind.split_at(usize::from(u16::from_be_bytes(*len)).min(behind.len()));
            rest = after;
            self.now += Duration::from_millis(7);
            self.pass(frame.to_vec(), false);
        }
    }

    fn pass(&mut self, mut frame: Vec<u8>, partial: bool) {
        let Ok(layout) = dissect(&frame) else { return };
        while self.held.release(self.now).is_some() {}
        self.controller.tick(self.now, 16);
        let sent = frame.clone();
        let checksum = if partial { Checksum::Partial } else { Checksum::Complete };
        let verdict = self.controller.segment(
            self.now,
            Locator::Endpoints,
            &Facts::default(),
            &layout,
            &mut frame,
            checksum,
        );
        if let Verdict::HoldUntil(until) = verdict {
            assert!(until > self.now && until <= self.now + Duration::from_secs(1));
            self.held.push(until, 0);
        }
        let policy = &self.controller.settings().policies[0];
        let allowed = Allowed {
            allow_shrink: policy.allow_shrink,
            limit_syn_ack: policy.limit_syn_ack,
            assume_shift: policy.assume_shift,
        };
        if !self.follows {
            self.oracle.lose_all();
        }
        let verdict = self.oracle.judge(self.now, Some(&allowed), &sent, &frame, partial);
        verdict.unwrap_or_else(|why| panic!("{why}"));
        let _ = self.controller.flows(0..4).count();
    }
}
