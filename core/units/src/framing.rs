//! What a line makes of a frame before it sends it.

/// Payload of an ATM cell.
const CELL_PAYLOAD: u64 = 48;
/// An ATM cell.
const CELL: u64 = 53;

/// How many bytes of a line a frame takes, once the bytes that go with each frame are added: tc-stab(8) and CAKE count in the same
/// way, first overhead, then the minimum, then cells.
///
/// ```
/// # use perhop_units::Framing;
/// assert_eq!(Framing::PLAIN.of(67), 67);
/// assert_eq!(Framing::new(0, 84, false).of(67), 84, "a short frame of Ethernet with its gap");
/// assert_eq!(Framing::new(0, 0, true).of(97), 159, "three cells");
/// ```
// One word, so that a line that makes nothing of its frames costs a comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Framing(u32);

impl Framing {
    /// Every frame takes its own bytes.
    pub const PLAIN: Self = Self(0);

    /// The line carries `less` bytes fewer of each frame (a header that is taken off), at least `minimum` bytes for each, and with
    /// `cells` whole ATM cells of 53 bytes with 48 of the frame.
    pub const fn new(less: u8, minimum: u16, cells: bool) -> Self {
        Self(minimum as u32 | (less as u32) << 16 | (cells as u32) << 24)
    }

    /// Bytes on the line of a frame that has `bytes` with what is added to each.
    #[inline]
    pub const fn of(self, bytes: u64) -> u64 {
        if self.0 == 0 { bytes } else { self.shaped(bytes) }
    }

    /// The same of `frames` together, `bytes` without the `overhead` of each, as if all were equally long.
    pub const fn of_all(self, bytes: u64, frames: u64, overhead: u64) -> u64 {
        if self.0 == 0 || frames == 0 {
            return bytes + frames * overhead;
        }
        frames * self.shaped(bytes / frames + overhead)
    }

    const fn shaped(self, bytes: u64) -> u64 {
        let [least, most, less, cells] = self.0.to_le_bytes();
        let minimum = u16::from_le_bytes([least, most]) as u64;
        let bytes = bytes.saturating_sub(less as u64);
        let bytes = if bytes < minimum { minimum } else { bytes };
        if cells == 0 { bytes } else { bytes.div_ceil(CELL_PAYLOAD) * CELL }
    }

    /// The minimum; 0 = none.
    pub const fn minimum(self) -> u16 {
        self.0 as u16
    }

    /// Whether frames are sent in ATM cells.
    pub const fn cells(self) -> bool {
        self.0 >> 24 != 0
    }

    /// Bytes that the line carries fewer of each frame.
    pub const fn less(self) -> u8 {
        (self.0 >> 16) as u8
    }
}

#[cfg(test)]
mod tests {
    use super::Framing;

    /// `cake_calc_overhead` of Linux (net/sched/sch_cake.c), for frames that are not segmented.
    fn cake(len: i64, overhead: i64, mpu: i64, atm: bool) -> u64 {
        let mut len = (len + overhead).max(mpu);
        if atm {
            len = (len + 47) / 48 * 53;
        }
        len.unsigned_abs()
    }

    #[test]
    fn bytes_are_those_of_cake() {
        for len in 43..2_000_i64 {
            for overhead in [-10_i64, -4, 0, 18, 26, 40] {
                for mpu in [0, 64, 84, 1_500] {
                    for atm in [false, true] {
                        let framing = Framing::new(overhead.min(0).unsigned_abs() as u8, mpu as u16, atm);
                        let bytes = framing.of(len.unsigned_abs() + overhead.max(0).unsigned_abs());
                        assert_eq!(bytes, cake(len, overhead, mpu, atm), "{len} {overhead} {mpu} {atm}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_put_in_is_read_back() {
        let framing = Framing::new(64, 1514, true);
        assert_eq!((framing.less(), framing.minimum(), framing.cells()), (64, 1514, true));
        assert_eq!(Framing::new(0, 0, false), Framing::PLAIN);
        assert_eq!(framing.of_all(0, 0, 24), 0);
        assert_eq!(Framing::new(0, 84, false).of_all(120, 2, 20), 168);
        assert_eq!(Framing::PLAIN.of_all(120, 2, 20), 160);
    }
}
