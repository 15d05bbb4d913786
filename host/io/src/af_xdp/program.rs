//! The program that shares frames out between a port and the kernel, where the driver has them.
//!
//! A port that routes leaves the kernel what may concern it: everything but IPv4 and IPv6 (ARP, tagged frames, what the
//! link's own protocols say), broadcast and multicast, and packets to an address of the host. A port that bridges takes
//! everything but IPv4 and IPv6 packets to the addresses that it is told, and ARP requests for them. Frames on a queue
//! without a socket go to the kernel.
//!
//! The addresses are in two maps (longest prefix), which all ports of a router share: they are changed while frames pass.
//!
//! Source: Linux `include/uapi/linux/bpf.h` (`struct xdp_md`, `enum xdp_action`), `Documentation/networking/af_xdp.rst`.

use super::XdpError;
use crate::bpf::{
    self, ADD_64, AND_32, ATOMIC_ADD_64, Assembler, AttachPoint, CALL, EXIT, GO, IF_ABOVE_REGISTER_64,
    IF_DIFFERENT_64, IF_EQUAL_64, Instruction, LOAD, LOAD_8, LOAD_16, MOVE_64, Map, MapKind, ProgramKind,
    SET_32, STORE, STORE_VALUE,
};
use crate::early_drop::{ALWAYS, Prefix};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

/// Most prefixes of an IP version.
pub const MAX_HOST_PREFIXES: u32 = 65_536;
/// Values of the maps.
const KERNELS: u32 = 1;
const PORTS: u32 = 2;

/// What a router does with frames, as far as the choice between port and kernel goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Ports take IP packets to other hosts.
    Route,
    /// Ports take everything but IP packets, and ARP requests, to the host's own addresses.
    Bridge,
}

/// What the kernel keeps for itself on AF_XDP ports: shared by the ports of a router, and changed while they run.
#[derive(Debug)]
pub struct HostTraffic {
    sharing: Sharing,
    v4: Map<[u32; 2], u32>,
    v6: Map<[u32; 5], u32>,
    /// What is in the maps, and whose it is.
    now: Mutex<BTreeMap<Prefix, u32>>,
}

impl HostTraffic {
    /// For a host without addresses.
    ///
    /// # Errors
    /// [`XdpError::NotPermitted`].
    pub fn new(sharing: Sharing) -> Result<Self, XdpError> {
        let failed = |e| XdpError::of("making a map of the host's addresses", e);
        let host = Self {
            sharing,
            v4: Map::new(MapKind::LongestPrefix, c"perhop_host_v4", MAX_HOST_PREFIXES).map_err(failed)?,
            v6: Map::new(MapKind::LongestPrefix, c"perhop_host_v6", MAX_HOST_PREFIXES).map_err(failed)?,
            now: Mutex::new(BTreeMap::new()),
        };
        host.set(&[], &[])?;
        Ok(host)
    }

    /// Puts these in the place of what was set before: what the kernel is to see, and what of it the port takes all the same;
    /// where both say something of a prefix, the kernel sees it. What is in both stays in force throughout.
    ///
    /// # Errors
    /// There are more than [`MAX_HOST_PREFIXES`]; as many as there is room for are in force.
    pub fn set(&self, local: &[Prefix], taken: &[Prefix]) -> Result<(), XdpError> {
        let mut wanted: BTreeMap<Prefix, u32> = taken.iter().map(|prefix| (*prefix, PORTS)).collect();
        wanted.extend(local.iter().map(|prefix| (*prefix, KERNELS)));
        match self.sharing {
            Sharing::Route => wanted.extend(ALWAYS.map(|prefix| (prefix, KERNELS))),
            Sharing::Bridge => {
                wanted.extend(local.iter().filter_map(solicited).map(|prefix| (prefix, KERNELS)));
            }
        }
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        // New ones first; but a full map has room only when others have gone.
        if self.insert_all(&wanted, &mut now).is_err() {
            self.keep_only(&wanted, &mut now);
            self.insert_all(&wanted, &mut now)
                .map_err(|e| XdpError::of("telling the program an address of the host", e))?;
        }
        self.keep_only(&wanted, &mut now);
        Ok(())
    }

    fn insert_all(&self, wanted: &BTreeMap<Prefix, u32>, now: &mut BTreeMap<Prefix, u32>) -> io::Result<()> {
        // What the port takes first: what the kernel sees may cover it.
        for whose in [PORTS, KERNELS] {
            for prefix in wanted.iter().filter(|(_, of)| **of == whose).map(|(prefix, _)| prefix) {
                if now.get(prefix) != Some(&whose) {
                    self.insert(prefix, whose)?;
                    now.insert(*prefix, whose);
                }
            }
        }
        Ok(())
    }

    fn keep_only(&self, wanted: &BTreeMap<Prefix, u32>, now: &mut BTreeMap<Prefix, u32>) {
        now.retain(|prefix, _| {
            let stays = wanted.contains_key(prefix);
            if !stays {
                // What is not there any more need not be removed.
                let _ = self.remove(prefix);
            }
            stays
        });
    }

    fn insert(&self, prefix: &Prefix, whose: u32) -> io::Result<()> {
        match prefix.0 {
            IpAddr::V4(a) => self.v4.insert(&[prefix.1.into(), u32::from_ne_bytes(a.octets())], &whose),
            IpAddr::V6(a) => self.v6.insert(&key_v6(a, prefix.1), &whose),
        }
    }

    fn remove(&self, prefix: &Prefix) -> io::Result<()> {
        match prefix.0 {
            IpAddr::V4(a) => self.v4.remove(&[prefix.1.into(), u32::from_ne_bytes(a.octets())]),
            IpAddr::V6(a) => self.v6.remove(&key_v6(a, prefix.1)),
        }
    }
}

/// Number of bits, then the address as it is in a packet.
fn key_v6(address: Ipv6Addr, bits: u8) -> [u32; 5] {
    let mut key = [bits.into(), 0, 0, 0, 0];
    for (word, bytes) in key.iter_mut().skip(1).zip(address.octets().as_chunks::<4>().0) {
        *word = u32::from_ne_bytes(*bytes);
    }
    key
}

/// Where neighbours ask for an address (RFC 4291 §2.7.1).
fn solicited(prefix: &Prefix) -> Option<Prefix> {
    let (IpAddr::V6(address), 128) = prefix else { return None };
    let group = 0xff02_0000_0000_0000_0000_0001_ff00_0000 | (address.to_bits() & 0xff_ffff);
    Some((Ipv6Addr::from_bits(group).into(), 128))
}

/// The program on an interface, until dropped, and its maps.
#[derive(Debug)]
pub(super) struct Attached {
    sockets: Map<u32, u32>,
    /// One number: frames that were left to the kernel.
    passed: Map<u32, u64>,
    _link: OwnedFd,
}

/// In the driver, or behind it for any driver.
pub(super) const IN_DRIVER: u32 = 1 << 2;
pub(super) const GENERIC: u32 = 1 << 1;

impl Attached {
    /// Attaches it for so many queues, with no socket yet: all frames go to the kernel.
    pub(super) fn new(index: u32, queues: u32, flags: u32, host: &HostTraffic) -> io::Result<Self> {
        let sockets = Map::new(MapKind::Sockets, c"perhop_sockets", queues)?;
        let passed = Map::new(MapKind::Array, c"perhop_passed", 1)?;
        let maps = Maps {
            sockets: sockets.number(),
            passed: passed.number(),
            v4: host.v4.number(),
            v6: host.v6.number(),
        };
        let program = bpf::load(ProgramKind::Xdp, c"perhop_port", &program(host.sharing, &maps))?;
        let link = bpf::attach(&program, index, AttachPoint::Xdp, flags)?;
        Ok(Self { sockets, passed, _link: link })
    }

    /// From now on the queue's frames go to this socket.
    pub(super) fn direct(&self, queue: u32, socket: &OwnedFd) -> io::Result<()> {
        self.sockets.insert(&queue, &(socket.as_raw_fd() as u32))
    }

    /// Frames that were left to the kernel.
    pub(super) fn passed(&self) -> u64 {
        self.passed.value(&0).unwrap_or(0)
    }
}

/// Offsets in `struct xdp_md`.
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const QUEUE: i16 = 16;

const MAP_LOOKUP: i32 = 1;
const REDIRECT_MAP: i32 = 51;
/// The frame goes to the kernel; as a flag of a redirection: where there is no socket.
const PASS: i32 = 2;

/// Registers: the helpers' arguments (of which 1 to 3 are ours between calls) and result, what stays across calls, and
/// the stack's end.
const R0: u8 = 0;
const R1: u8 = 1;
const R2: u8 = 2;
const R3: u8 = 3;
const CONTEXT: u8 = 6;
const STACK: u8 = 10;

/// Where things are in a frame.
const ETHER_TYPE: i16 = 12;
const ETHERNET: i32 = 14;
const ARP_TARGET: i16 = 38;
const ARP_END: i32 = 42;
const V4_DESTINATION: i16 = 30;
const V4_END: i32 = 34;
const V6_DESTINATION: i16 = 38;
const V6_END: i32 = 54;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Label {
    Arp,
    V6,
    LookUpV4,
    Found,
    Take,
    Pass,
    Out,
}

/// Descriptors of the maps.
struct Maps {
    sockets: i32,
    passed: i32,
    v4: i32,
    v6: i32,
}

impl Assembler<Label> {
    /// Goes on if the frame, which begins at register 2 and ends at register 3, has `len` bytes.
    fn needs(&mut self, len: i32, otherwise: Label) {
        self.add(MOVE_64, R1, R2, 0, 0);
        self.add(ADD_64, R1, 0, 0, len);
        self.jump_by(IF_ABOVE_REGISTER_64, R1, R3, otherwise);
    }

    /// Looks up what is on the stack from `key` on; register 0 is 0 if it is not there.
    fn look_up(&mut self, map: i32, key: i16) {
        self.map(R1, map);
        self.add(MOVE_64, R2, STACK, 0, 0);
        self.add(ADD_64, R2, 0, 0, key.into());
        self.add(CALL, 0, 0, 0, MAP_LOOKUP);
    }
}

/// A number of two bytes in a frame, as a load gives it.
fn in_frame(value: u16) -> i32 {
    value.to_be().into()
}

fn program(sharing: Sharing, maps: &Maps) -> Vec<Instruction> {
    // Who gets what the program does not understand.
    let other = if sharing == Sharing::Route { Label::Pass } else { Label::Take };
    let mut a = Assembler::<Label>::default();
    a.add(MOVE_64, CONTEXT, R1, 0, 0);
    a.add(LOAD, R2, CONTEXT, DATA, 0);
    a.add(LOAD, R3, CONTEXT, DATA_END, 0);
    a.needs(ETHERNET, other);
    if sharing == Sharing::Route {
        // The first bit on the wire: to a group, or to all.
        a.add(LOAD_8, R1, R2, 0, 0);
        a.add(AND_32, R1, 0, 0, 1);
        a.jump(IF_DIFFERENT_64, R1, 0, Label::Pass);
    }
    a.add(LOAD_16, R1, R2, ETHER_TYPE, 0);
    a.jump(IF_EQUAL_64, R1, in_frame(0x86dd), Label::V6);
    if sharing == Sharing::Bridge {
        a.jump(IF_EQUAL_64, R1, in_frame(0x0806), Label::Arp);
    }
    a.jump(IF_DIFFERENT_64, R1, in_frame(0x0800), other);
    a.needs(V4_END, other);
    a.add(LOAD, R1, R2, V4_DESTINATION, 0);
    if sharing == Sharing::Bridge {
        a.jump(GO, 0, 0, Label::LookUpV4);
        a.here(Label::Arp);
        a.needs(ARP_END, other);
        a.add(LOAD, R1, R2, ARP_TARGET, 0);
        a.here(Label::LookUpV4);
    }
    a.add(STORE_VALUE, STACK, 0, -8, 32);
    a.add(STORE, STACK, R1, -4, 0);
    a.look_up(maps.v4, -8);
    a.jump(GO, 0, 0, Label::Found);
    a.here(Label::V6);
    a.needs(V6_END, other);
    a.add(STORE_VALUE, STACK, 0, -20, 128);
    for word in 0..4 {
        a.add(LOAD, R1, R2, V6_DESTINATION + 4 * word, 0);
        a.add(STORE, STACK, R1, -16 + 4 * word, 0);
    }
    a.look_up(maps.v6, -20);
    a.here(Label::Found);
    a.jump(IF_EQUAL_64, R0, 0, Label::Take);
    a.add(LOAD, R1, R0, 0, 0);
    a.jump(IF_EQUAL_64, R1, KERNELS as i32, Label::Pass);
    a.here(Label::Take);
    a.map(R1, maps.sockets);
    a.add(LOAD, R2, CONTEXT, QUEUE, 0);
    a.add(SET_32, R3, 0, 0, PASS);
    a.add(CALL, 0, 0, 0, REDIRECT_MAP);
    a.add(EXIT, 0, 0, 0, 0);
    a.here(Label::Pass);
    a.add(STORE_VALUE, STACK, 0, -4, 0);
    a.look_up(maps.passed, -4);
    a.jump(IF_EQUAL_64, R0, 0, Label::Out);
    a.add(SET_32, R1, 0, 0, 1);
    a.add(ATOMIC_ADD_64, R0, R1, 0, 0);
    a.here(Label::Out);
    a.end(PASS);
    a.out
}

#[cfg(test)]
#[path = "program_tests.rs"]
mod tests;
