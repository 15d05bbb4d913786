//! Small programs for the kernel: requests of bpf(2), maps, instructions, and an assembler whose jumps go forward.
//!
//! Programs, maps and attachments are held by descriptors: the kernel takes them away with the last one, also after a
//! crash.
//!
//! Source: Linux `Documentation/bpf/standardization/instruction-set.rst`, bpf(2), `include/uapi/linux/bpf.h`.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const MAP_CREATE: libc::c_long = 0;
const MAP_LOOKUP: libc::c_long = 1;
const MAP_UPDATE: libc::c_long = 2;
const MAP_DELETE: libc::c_long = 3;
const PROG_LOAD: libc::c_long = 5;
const LINK_CREATE: libc::c_long = 28;
const LINK_UPDATE: libc::c_long = 29;
/// Longest name of a program or map, with its end.
const NAME: usize = 16;

/// What a program is called for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProgramKind {
    /// Frames on their way into the kernel's protocols (`BPF_PROG_TYPE_SCHED_CLS`).
    Classifier = 3,
    /// Frames as the driver has them (`BPF_PROG_TYPE_XDP`).
    Xdp = 6,
}

/// Where a program is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttachPoint {
    /// Behind packet sockets (`BPF_TCX_INGRESS`).
    TcxIngress = 46,
    /// On the way out, behind what the kernel's protocols made (`BPF_TCX_EGRESS`).
    TcxEgress = 47,
    /// In the driver or right behind it (`BPF_XDP`).
    Xdp = 37,
}

#[repr(C)]
#[derive(Default)]
struct ProgLoad {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log: [u64; 2],
    version_and_flags: u64,
    name: [u8; NAME],
}

#[repr(C)]
#[derive(Default)]
struct LinkCreate {
    program: u32,
    index: u32,
    attach_type: u32,
    flags: u32,
    relative: u64,
    revision: u64,
}

#[repr(C)]
#[derive(Default)]
struct LinkUpdate {
    link: u32,
    program: u32,
    flags: u32,
    old: u32,
}

#[repr(C)]
#[derive(Default)]
struct MapCreate {
    kind: u32,
    key: u32,
    value: u32,
    entries: u32,
    flags: u32,
    inner: u32,
    node: u32,
    name: [u8; NAME],
}

#[repr(C)]
#[derive(Default)]
struct MapElement {
    map: u32,
    unused: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// One request; `T` is one of the structures above.
fn bpf<T>(command: libc::c_long, request: &T) -> io::Result<i32> {
    // SAFETY: pointer and length describe `request`, which the kernel reads; pointers in it are valid for the call, and
    // as long as the counts or the map's sizes beside them say: every caller here sees to that.
    let rc = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(request), size_of::<T>()) };
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(rc as i32) }
}

fn descriptor(raw: i32) -> OwnedFd {
    // SAFETY: a fresh descriptor (close-on-exec) that nobody else owns.
    unsafe { OwnedFd::from_raw_fd(raw) }
}

fn named(name: &CStr) -> [u8; NAME] {
    let mut field = [0; NAME];
    for (to, from) in field.iter_mut().zip(name.to_bytes().iter().take(NAME - 1)) {
        *to = *from;
    }
    field
}

/// Has the kernel check a program and keep it.
///
/// # Errors
/// EPERM without CAP_BPF and CAP_NET_ADMIN in the first user namespace.
pub(crate) fn load(kind: ProgramKind, name: &CStr, program: &[Instruction]) -> io::Result<OwnedFd> {
    let request = ProgLoad {
        kind: kind as u32,
        count: program.len() as u32,
        instructions: program.as_ptr() as u64,
        license: c"Dual MIT/GPL".as_ptr() as u64,
        name: named(name),
        ..ProgLoad::default()
    };
    bpf(PROG_LOAD, &request).map(descriptor)
}

/// Attaches a program to an interface until the descriptor that it gives is closed.
///
/// # Errors
/// EINVAL where the kernel is older than the attachment, EBUSY or EEXIST where there is room for one and one is there.
pub(crate) fn attach(program: &OwnedFd, index: u32, at: AttachPoint, flags: u32) -> io::Result<OwnedFd> {
    let request = LinkCreate {
        program: program.as_raw_fd() as u32,
        index,
        attach_type: at as u32,
        flags,
        ..LinkCreate::default()
    };
    bpf(LINK_CREATE, &request).map(descriptor)
}

/// Puts another program in the place of an attached one, without a moment in which neither is there.
///
/// # Errors
/// ENOLINK when the interface is gone.
pub(crate) fn replace(link: &OwnedFd, program: &OwnedFd) -> io::Result<()> {
    let request = LinkUpdate {
        link: link.as_raw_fd() as u32,
        program: program.as_raw_fd() as u32,
        ..LinkUpdate::default()
    };
    bpf(LINK_UPDATE, &request).map(|_| ())
}

/// What a map does with its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MapKind {
    /// Keys 0, 1, 2 … (`BPF_MAP_TYPE_ARRAY`).
    Array = 2,
    /// A length in bits and an address: the longest prefix is found (`BPF_MAP_TYPE_LPM_TRIE`).
    LongestPrefix = 11,
    /// AF_XDP sockets by number (`BPF_MAP_TYPE_XSKMAP`).
    Sockets = 17,
}

/// A map of keys and values of these plain types.
#[derive(Debug)]
pub(crate) struct Map<K, V> {
    fd: OwnedFd,
    of: std::marker::PhantomData<(K, V)>,
}

/// Types without padding that any bytes are a value of.
pub(crate) trait Plain: Copy + Default {}
impl Plain for u32 {}
impl Plain for u64 {}
impl Plain for [u64; 2] {}
impl Plain for [u32; 2] {}
impl Plain for [u32; 5] {}

impl<K: Plain, V: Plain> Map<K, V> {
    /// # Errors
    /// EPERM without CAP_BPF and CAP_NET_ADMIN in the first user namespace.
    pub(crate) fn new(kind: MapKind, name: &CStr, entries: u32) -> io::Result<Self> {
        // A trie cannot take its memory ahead (BPF_F_NO_PREALLOC).
        Self::with_flags(kind, name, entries, u32::from(kind == MapKind::LongestPrefix))
    }

    /// An array of one entry, that can be mapped into memory (`BPF_F_MMAPABLE`).
    ///
    /// # Errors
    /// As [`Map::new`].
    pub(crate) fn shared_array(name: &CStr) -> io::Result<Self> {
        Self::with_flags(MapKind::Array, name, 1, 1 << 10)
    }

    fn with_flags(kind: MapKind, name: &CStr, entries: u32, flags: u32) -> io::Result<Self> {
        let request = MapCreate {
            kind: kind as u32,
            key: size_of::<K>() as u32,
            value: size_of::<V>() as u32,
            entries,
            flags,
            name: named(name),
            ..MapCreate::default()
        };
        Ok(Self { fd: descriptor(bpf(MAP_CREATE, &request)?), of: std::marker::PhantomData })
    }

    /// # Errors
    /// ENOSPC when the map is full.
    pub(crate) fn insert(&self, key: &K, value: &V) -> io::Result<()> {
        self.element(MAP_UPDATE, key, std::ptr::from_ref(value) as u64).map(|_| ())
    }

    /// # Errors
    /// ENOENT when it is not there.
    pub(crate) fn remove(&self, key: &K) -> io::Result<()> {
        self.element(MAP_DELETE, key, 0).map(|_| ())
    }

    /// # Errors
    /// ENOENT when it is not there.
    pub(crate) fn value(&self, key: &K) -> io::Result<V> {
        let mut value = V::default();
        self.element(MAP_LOOKUP, key, std::ptr::from_mut(&mut value) as u64)?;
        Ok(value)
    }

    /// Number by which a program that is about to be loaded names the map.
    pub(crate) fn number(&self) -> i32 {
        self.fd.as_raw_fd()
    }

    pub(crate) fn descriptor(&self) -> &OwnedFd {
        &self.fd
    }

    /// Key and value are as long as the map was made for; 0 where a command takes no value.
    fn element(&self, command: libc::c_long, key: &K, value: u64) -> io::Result<i32> {
        let key = std::ptr::from_ref(key) as u64;
        bpf(command, &MapElement { map: self.fd.as_raw_fd() as u32, unused: 0, key, value, flags: 0 })
    }
}

/// One instruction as the kernel takes it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Instruction {
    pub(crate) code: u8,
    /// Destination in the low, source in the high four bits.
    pub(crate) registers: u8,
    pub(crate) offset: i16,
    pub(crate) value: i32,
}

/// `w(d) = *(u32 *)(s + offset)`.
pub(crate) const LOAD: u8 = 0x61;
/// `r0` = 16 or 32 bits of the frame, in host order; outside the frame the program ends with 0.
pub(crate) const FRAME_16: u8 = 0x28;
pub(crate) const FRAME_32: u8 = 0x20;
pub(crate) const LOAD_16: u8 = 0x69;
pub(crate) const LOAD_8: u8 = 0x71;
/// `*(u32 *)(d + offset) = w(s)`, and the same of a value.
pub(crate) const STORE: u8 = 0x63;
pub(crate) const STORE_VALUE: u8 = 0x62;
/// `*(u64 *)(d + offset) += s`, at once for all processors.
pub(crate) const ATOMIC_ADD_64: u8 = 0xdb;
pub(crate) const MOVE_64: u8 = 0xbf;
pub(crate) const MOVE_32: u8 = 0xbc;
pub(crate) const SET_32: u8 = 0xb4;
pub(crate) const ADD_64: u8 = 0x07;
pub(crate) const AND_32: u8 = 0x54;
pub(crate) const IF_EQUAL_32: u8 = 0x16;
pub(crate) const IF_DIFFERENT_32: u8 = 0x56;
/// Of whole registers, where one may be an address.
pub(crate) const IF_EQUAL_64: u8 = 0x15;
pub(crate) const IF_DIFFERENT_64: u8 = 0x55;
pub(crate) const IF_ABOVE_REGISTER_64: u8 = 0x2d;
pub(crate) const GO: u8 = 0x05;
pub(crate) const CALL: u8 = 0x85;
pub(crate) const EXIT: u8 = 0x95;
const SET_WIDE: u8 = 0x18;
/// As source of [`SET_WIDE`]: the value is a map's descriptor (`BPF_PSEUDO_MAP_FD`).
const IS_MAP: u8 = 1;

/// A program whose jumps forward are not filled in yet; `L` names places.
pub(crate) struct Assembler<L> {
    pub(crate) out: Vec<Instruction>,
    jumps: Vec<(usize, L)>,
}

impl<L> Default for Assembler<L> {
    fn default() -> Self {
        Self { out: Vec::new(), jumps: Vec::new() }
    }
}

impl<L: Copy + PartialEq> Assembler<L> {
    pub(crate) fn add(&mut self, code: u8, to: u8, from: u8, offset: i16, value: i32) {
        self.out.push(Instruction { code, registers: from << 4 | to, offset, value });
    }

    pub(crate) fn jump(&mut self, code: u8, register: u8, value: i32, label: L) {
        self.jumps.push((self.out.len(), label));
        self.add(code, register, 0, 0, value);
    }

    /// Compares two registers.
    pub(crate) fn jump_by(&mut self, code: u8, left: u8, right: u8, label: L) {
        self.jumps.push((self.out.len(), label));
        self.add(code, left, right, 0, 0);
    }

    /// The place that jumps to `label` before this go to.
    pub(crate) fn here(&mut self, label: L) {
        let here = self.out.len();
        for (at, _) in self.jumps.iter().filter(|(_, l)| *l == label) {
            self.out[*at].offset = (here - at - 1) as i16;
        }
    }

    /// `register` = the map of this number.
    pub(crate) fn map(&mut self, register: u8, number: i32) {
        self.add(SET_WIDE, register, IS_MAP, 0, number);
        self.add(0, 0, 0, 0, 0);
    }

    pub(crate) fn end(&mut self, verdict: i32) {
        self.add(SET_32, 0, 0, 0, verdict);
        self.add(EXIT, 0, 0, 0, 0);
    }
}
