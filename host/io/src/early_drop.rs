//! Keeps the kernel's own IP from looking at frames that only a router of ours forwards.
//!
//! A packet socket gets a copy; the frame itself goes on into the kernel, which looks up a route only to find that the
//! interface does not forward. With this, a small program on the interface (tcx, Linux 6.6) throws such frames away
//! right behind the packet sockets. What may concern the kernel passes: frames not addressed to the interface's own
//! address (broadcast, multicast, other stations), tagged frames, everything but IPv4 and IPv6, and all packets to an
//! address of the host.
//!
//! The kernel takes the program away when the descriptor is closed: nothing is left behind by a crash.
//!
//! Source: Linux `include/uapi/linux/bpf.h`, `struct __sk_buff`.

use crate::bpf::{
    self, AND_32, Assembler, AttachPoint, FRAME_16, FRAME_32, GO, IF_DIFFERENT_32, IF_EQUAL_32, Instruction,
    LOAD, MOVE_32, MOVE_64, ProgramKind,
};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;

/// Addresses that share their first bits: an address and how many bits count.
pub type Prefix = (IpAddr, u8);

/// Most prefixes of an IP version; with more, all packets of that version pass.
pub const MAX_PREFIXES: usize = 256;

/// Packets to these always pass: unspecified, multicast, reserved and limited broadcast; link-local.
pub(crate) const ALWAYS: [Prefix; 5] = [
    (IpAddr::V4(Ipv4Addr::UNSPECIFIED), 8),
    (IpAddr::V4(Ipv4Addr::new(224, 0, 0, 0)), 3),
    (IpAddr::V6(Ipv6Addr::UNSPECIFIED), 8),
    (IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0)), 10),
    (IpAddr::V6(Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0)), 8),
];

/// The program on an interface, until dropped.
#[derive(Debug)]
pub struct EarlyDrop {
    link: OwnedFd,
}

impl EarlyDrop {
    /// Attaches it to an interface of the calling thread's network namespace, behind programs that others attached.
    /// `local` are the host's own addresses.
    ///
    /// # Errors
    /// EPERM without CAP_BPF and CAP_NET_ADMIN in the first user namespace; EINVAL before Linux 6.6.
    pub fn attach(index: u32, local: &[Prefix]) -> io::Result<Self> {
        Ok(Self { link: bpf::attach(&load(local)?, index, AttachPoint::TcxIngress, 0)? })
    }

    /// Puts other addresses in force, without a moment in which neither holds.
    ///
    /// # Errors
    /// ENOLINK when the interface is gone.
    pub fn update(&self, local: &[Prefix]) -> io::Result<()> {
        bpf::replace(&self.link, &load(local)?)
    }
}

fn load(local: &[Prefix]) -> io::Result<OwnedFd> {
    bpf::load(ProgramKind::Classifier, c"perhop_forwards", &program(local))
}

/// Offsets in `struct __sk_buff`.
const PACKET_TYPE: i16 = 4;
const VLAN_PRESENT: i16 = 20;

const DROP: i32 = 2;
/// On to the next program, and in the end to the kernel.
const NEXT: i32 = -1;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Label {
    Pass,
    V6,
}

impl Assembler<Label> {
    /// Drops packets whose destination, the words in `registers`, is in none of `prefixes`.
    fn drop_unless(&mut self, registers: &[u8], prefixes: &[Words]) {
        // Code behind an unconditional jump would be refused.
        if prefixes.len() > MAX_PREFIXES || prefixes.iter().any(|(_, bits)| *bits == 0) {
            return self.jump(GO, 0, 0, Label::Pass);
        }
        for (words, bits) in prefixes {
            self.pass_if(registers, words, *bits);
        }
        self.end(DROP);
    }

    /// Passes if the words in `registers`, of which `prefix` is so many bits, are its.
    fn pass_if(&mut self, registers: &[u8], words: &[u32], bits: u8) {
        let mut left = u32::from(bits);
        let mut differ = Vec::new();
        for (register, word) in registers.iter().zip(words).take(usize::from(bits).div_ceil(32)) {
            let mask = u32::MAX.checked_shl(32 - left.min(32)).unwrap_or(0);
            left = left.saturating_sub(32);
            self.add(MOVE_32, 1, *register, 0, 0);
            self.add(AND_32, 1, 0, 0, mask as i32);
            differ.push(self.out.len());
            self.add(IF_DIFFERENT_32, 1, 0, 0, (word & mask) as i32);
        }
        self.jump(GO, 0, 0, Label::Pass);
        let next = self.out.len();
        for at in differ {
            self.out[at].offset = (next - at - 1) as i16;
        }
    }
}

/// What [`Assembler::drop_unless`] compares: words of an address, highest first, and how many bits count.
type Words = (Vec<u32>, u8);

/// The program for a host with these addresses.
fn program(local: &[Prefix]) -> Vec<Instruction> {
    let mut a = Assembler::<Label>::default();
    a.add(MOVE_64, 6, 1, 0, 0);
    a.add(LOAD, 0, 6, PACKET_TYPE, 0);
    // PACKET_HOST is 0.
    a.jump(IF_DIFFERENT_32, 0, 0, Label::Pass);
    a.add(LOAD, 0, 6, VLAN_PRESENT, 0);
    a.jump(IF_DIFFERENT_32, 0, 0, Label::Pass);
    a.add(FRAME_16, 0, 0, 0, 12);
    a.jump(IF_EQUAL_32, 0, 0x86dd, Label::V6);
    a.jump(IF_DIFFERENT_32, 0, 0x0800, Label::Pass);
    a.add(FRAME_32, 0, 0, 0, 14 + 16);
    let all = || ALWAYS.iter().chain(local);
    let v4 = all().filter_map(|(address, bits)| match address {
        IpAddr::V4(address) => Some((vec![address.to_bits()], *bits)),
        IpAddr::V6(_) => None,
    });
    a.drop_unless(&[0], &v4.collect::<Vec<_>>());
    a.here(Label::V6);
    for (register, offset) in [(7, 38), (8, 42), (9, 46)] {
        a.add(FRAME_32, 0, 0, 0, offset);
        a.add(MOVE_32, register, 0, 0, 0);
    }
    a.add(FRAME_32, 0, 0, 0, 50);
    let v6 = all().filter_map(|(address, bits)| match address {
        IpAddr::V4(_) => None,
        IpAddr::V6(address) => {
            Some(([96, 64, 32, 0].map(|shift| (address.to_bits() >> shift) as u32).to_vec(), *bits))
        }
    });
    a.drop_unless(&[7, 8, 9, 0], &v6.collect::<Vec<_>>());
    a.here(Label::Pass);
    a.end(NEXT);
    a.out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::{EXIT, SET_32};

    /// Runs a program as the kernel would; `None` when it does something that no program of ours does.
    fn run(program: &[Instruction], packet_type: u32, vlan: u32, frame: &[u8]) -> Option<i32> {
        let mut r = [0u64; 10];
        let mut at = 0usize;
        for _ in 0..program.len() {
            let i = program.get(at)?;
            let (to, from) = (usize::from(i.registers & 15), usize::from(i.registers >> 4));
            let word = |offset: i32, n: usize| {
                let bytes = frame.get(offset as usize..offset as usize + n)?;
                Some(bytes.iter().fold(0u64, |all, b| all << 8 | u64::from(*b)))
            };
            let mut jump = false;
            match i.code {
                LOAD if i.offset == PACKET_TYPE => r[to] = packet_type.into(),
                LOAD if i.offset == VLAN_PRESENT => r[to] = vlan.into(),
                FRAME_16 | FRAME_32 => match word(i.value, if i.code == FRAME_16 { 2 } else { 4 }) {
                    Some(value) => r[0] = value,
                    None => return Some(0),
                },
                MOVE_64 => r[to] = r[from],
                MOVE_32 => r[to] = r[from] & 0xffff_ffff,
                SET_32 => r[to] = u64::from(i.value as u32),
                AND_32 => r[to] &= u64::from(i.value as u32),
                IF_EQUAL_32 => jump = r[to] as u32 == i.value as u32,
                IF_DIFFERENT_32 => jump = r[to] as u32 != i.value as u32,
                GO => jump = true,
                EXIT => return Some(r[0] as i32),
                _ => return None,
            }
            at = (at as i64 + 1 + if jump { i64::from(i.offset) } else { 0 }) as usize;
        }
        None
    }

    fn frame(to: IpAddr) -> Vec<u8> {
        let mut frame = vec![0; 74];
        match to {
            IpAddr::V4(ip) => {
                frame[12..14].copy_from_slice(&[0x08, 0]);
                frame[30..34].copy_from_slice(&ip.octets());
            }
            IpAddr::V6(ip) => {
                frame[12..14].copy_from_slice(&[0x86, 0xdd]);
                frame[38..54].copy_from_slice(&ip.octets());
            }
        }
        frame
    }

    fn contains((address, bits): &Prefix, ip: IpAddr) -> bool {
        let same = |a: u128, b: u128, wide: u8| *bits == 0 || (a ^ b) >> (wide - bits) == 0;
        match (address, ip) {
            (IpAddr::V4(a), IpAddr::V4(b)) => same(a.to_bits().into(), b.to_bits().into(), 32),
            (IpAddr::V6(a), IpAddr::V6(b)) => same(a.to_bits(), b.to_bits(), 128),
            _ => false,
        }
    }

    /// Numbers that differ from call to call, always the same (xorshift64*, Vigna 2016).
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, n: u64) -> u64 {
            self.0 ^= self.0 >> 12;
            self.0 ^= self.0 << 25;
            self.0 ^= self.0 >> 27;
            (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) % n
        }

        /// Few bits vary, so that prefixes hit.
        fn address(&mut self) -> IpAddr {
            let v = self.below(256);
            match self.below(3) {
                0 => Ipv4Addr::from_bits(0x0a00_0000 ^ (v as u32 & 7) ^ (v as u32 >> 3) << 15).into(),
                1 => Ipv6Addr::from_bits(
                    u128::from(v & 3) | u128::from(v >> 2 & 3) << 62 | u128::from(v >> 4) << 120,
                )
                .into(),
                _ => Ipv4Addr::from_bits((v << 24 | self.below(1 << 24)) as u32).into(),
            }
        }

        fn prefix(&mut self) -> Prefix {
            let address = self.address();
            (address, self.below(if address.is_ipv4() { 33 } else { 129 }) as u8)
        }
    }

    #[test]
    fn what_is_for_the_host_passes_and_nothing_else() {
        let mut numbers = Numbers(1);
        let mut seen = [0; 2];
        for _ in 0..2000 {
            let local: Vec<Prefix> = (0..numbers.below(12)).map(|_| numbers.prefix()).collect();
            let program = program(&local);
            for _ in 0..20 {
                let to = numbers.address();
                let mine = ALWAYS.iter().chain(&local).any(|p| contains(p, to));
                seen[usize::from(mine)] += 1;
                let wanted = if mine { NEXT } else { DROP };
                assert_eq!(run(&program, 0, 0, &frame(to)), Some(wanted), "{to} of {local:?}");
                for (kind, vlan) in [(1, 0), (2, 0), (3, 0), (0, 1)] {
                    assert_eq!(run(&program, kind, vlan, &frame(to)), Some(NEXT));
                }
            }
        }
        assert!(seen.iter().all(|n| *n > 4000), "both happen: {seen:?}");
    }

    #[test]
    fn other_protocols_and_short_frames_pass() {
        let program = program(&[]);
        let mut arp = frame(IpAddr::from([10, 0, 0, 1]));
        arp[12..14].copy_from_slice(&[0x08, 0x06]);
        assert_eq!(run(&program, 0, 0, &arp), Some(NEXT));
        let short = &frame(IpAddr::from([10, 0, 0, 1]))[..33];
        assert_eq!(run(&program, 0, 0, short), Some(0), "TCX_PASS");
    }

    #[test]
    fn with_too_many_addresses_the_whole_version_passes() {
        let local: Vec<Prefix> =
            (0..MAX_PREFIXES as u32).map(|i| (Ipv4Addr::from_bits(i << 8).into(), 32)).collect();
        let program = program(&local);
        assert_eq!(run(&program, 0, 0, &frame(IpAddr::from([10, 0, 0, 1]))), Some(NEXT));
        let other: IpAddr = "2001:db8::1".parse().unwrap();
        assert_eq!(run(&program, 0, 0, &frame(other)), Some(DROP));
    }
}
