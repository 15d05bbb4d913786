//! What the kernel takes as the name of an interface.

use crate::error::NetlinkError;

/// Checks a name as the kernel does (`dev_valid_name`).
pub(crate) fn check_interface_name(name: &str) -> Result<(), NetlinkError> {
    let bad = |b: u8| b == b'/' || b == b':' || b == 0 || b.is_ascii_whitespace() || b == 0x0b;
    if name.is_empty() || name.len() > 15 || matches!(name, "." | "..") || name.bytes().any(bad) {
        return Err(NetlinkError::BadInterfaceName { name: name.into() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_kernels_rule() {
        for good in ["lo", "eth0.100", "a234567890bcdef"] {
            assert!(check_interface_name(good).is_ok(), "{good}");
        }
        for bad in ["", ".", "..", "a/b", "a b", "a:1", "a234567890bcdefg", "a\0"] {
            assert!(check_interface_name(bad).is_err(), "{bad:?}");
        }
    }
}
