//! A small mixer of words. It is no cipher: it is as hard to foretell as its key.

/// Both halves of a product.
#[inline]
pub(crate) fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}
