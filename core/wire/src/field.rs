//! Reading and writing fields at fixed places.

use crate::checksum;

/// `N` bytes at `at`, if they are there.
#[inline]
pub(crate) fn chunk<const N: usize>(bytes: &[u8], at: usize) -> Option<&[u8; N]> {
    bytes.get(at..)?.first_chunk()
}

/// `N` bytes at `at` to write to, if they are there.
#[inline]
pub(crate) fn chunk_mut<const N: usize>(bytes: &mut [u8], at: usize) -> Option<&mut [u8; N]> {
    bytes.get_mut(at..)?.first_chunk_mut()
}

/// The big-endian word at `at`. Panics outside; on arrays with constant places the check vanishes.
#[inline]
pub(crate) fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// The big-endian double word at `at`; as [`be16`].
#[inline]
pub(crate) fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Writes `value` at `at`; as [`be16`].
#[inline]
pub(crate) fn put16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// Writes `value` at `at`; as [`be16`].
#[inline]
pub(crate) fn put32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

/// Replaces the word at `at` and updates the checksum field at `sum_at` that covers it.
#[inline]
pub(crate) fn replace_summed(header: &mut [u8; 20], at: usize, sum_at: usize, new: u16) {
    let sum = checksum::update16(be16(header, sum_at), be16(header, at), new);
    put16(header, at, new);
    put16(header, sum_at, sum);
}
