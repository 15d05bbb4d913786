//! What the kernel takes as the name of an interface.

use crate::error::NetlinkError;
use perhop_model::is_device_name;

/// Checks a name before the kernel would.
pub(crate) fn check_interface_name(name: &str) -> Result<(), NetlinkError> {
    if is_device_name(name) { Ok(()) } else { Err(NetlinkError::BadInterfaceName { name: name.into() }) }
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
