//! Masks that several rules can share.

use super::key::Packed;

/// A prefix length rounded down to whole octets (IPv4) or 16 bits (IPv6), as a mask of `width` bits.
fn relax_prefix(mask: u128, width: u32, step: u32) -> u128 {
    let len = mask.count_ones() / step * step;
    if len == 0 { 0 } else { (u128::MAX << (width - len)) & (u128::MAX >> (128 - width)) }
}

/// Port masks rounded down to 0, 8 or 16 bits; the rest as it is.
fn relax_transport(word: u64) -> u64 {
    let port = |mask: u16| -> u64 {
        match mask.leading_ones() {
            16 => 0xffff,
            8..=15 => 0xff00,
            _ => 0,
        }
    };
    let (src, dst) = ((word >> 48) as u16, (word >> 32) as u16);
    port(src) << 48 | port(dst) << 32 | word & 0xffff_ffff
}

/// The mask of a new table for rules compared under `mask`.
pub(super) fn relax<const A: usize>(mask: &Packed<A>) -> Packed<A> {
    let mut relaxed = *mask;
    if A == 1 {
        let side = |m: u64| relax_prefix(u128::from(m), 32, 8) as u64;
        let both = mask.addresses[0];
        relaxed.addresses[0] = side(both >> 32) << 32 | side(both & 0xffff_ffff);
    } else {
        for side in relaxed.addresses.chunks_exact_mut(2) {
            let prefix = relax_prefix(u128::from(side[0]) << 64 | u128::from(side[1]), 128, 16);
            (side[0], side[1]) = ((prefix >> 64) as u64, prefix as u64);
        }
    }
    relaxed.transport = relax_transport(mask.transport);
    relaxed
}
