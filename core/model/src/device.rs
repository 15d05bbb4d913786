//! Names of interfaces.

/// What an interface can be called, for messages.
pub const DEVICE_NAMES: &str = "1 to 15 bytes without spaces, /, : and %";

/// Most bytes: Linux has 16 for a name with a zero at its end (`IFNAMSIZ`).
const MOST: usize = 15;

/// Whether Linux takes `name` for an interface. The rule of the kernel's `dev_valid_name`, net/core/dev.c: its white space
/// is that of Latin-1, so a character of UTF-8 with a byte 0xA0 is none of a name. Of a `%` it makes another name, `a0` of `a%d`.
pub fn is_device_name(name: &str) -> bool {
    let wrong = |b: u8| matches!(b, b'/' | b':' | b'%' | 0 | b' ' | b'\t'..=b'\r' | 0xa0);
    (1..=MOST).contains(&name.len()) && name != "." && name != ".." && !name.bytes().any(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_what_the_kernel_takes() {
        let good = ["a", "eth0", "eth0.100", "exactly15bytes_", "ü", "...", "br-lan"];
        let bad = [
            "",
            ".",
            "..",
            "sixteen_bytes_00",
            "a/b",
            "a:b",
            "a b",
            "a\tb",
            "a\u{b}b",
            "a\0b",
            "à",
            "a\u{a0}b",
            "a%d",
        ];
        good.iter().for_each(|name| assert!(is_device_name(name), "{name:?}"));
        bad.iter().for_each(|name| assert!(!is_device_name(name), "{name:?}"));
    }
}
