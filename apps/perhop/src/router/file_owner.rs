//! Owner `file` over the socket: an admin may correct what the file made, but nobody may take the owner over.
//!
//! The objects of owner `file` belong to the router's own file, and a reload speaks for it with [`FENCE`]. A client that
//! raised the owner's fence would lock every later reload out, so clients speak for `file` with the same fence and with
//! the role admin, or not at all. What they change holds until the file is read again.

use perhop_model::{Credentials, ErrorItem, Owner, Role};
use perhop_reason::Code;

/// The fence of owner `file`, always.
pub const FENCE: u64 = 0;

/// Why a client with these credentials may not speak for `owner` with `fence`, if so.
pub fn refusal(who: &Credentials, owner: &Owner, fence: u64) -> Option<ErrorItem> {
    if *owner != Owner::File {
        return None;
    }
    if who.role != Role::Admin {
        let why = "owner file belongs to the router's own file; to speak for it needs the role admin";
        return Some(ErrorItem::new(Code::Forbidden, "owner", why));
    }
    (fence != FENCE).then(|| {
        let why =
            "the fence of owner file is fixed, as a higher one would lock reloads out; use another owner";
        ErrorItem {
            value: Some(fence.into()),
            allowed: Some(FENCE.to_string()),
            ..ErrorItem::new(Code::OutOfRange, "fence", why)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_model::Speaks;

    #[test]
    fn only_an_admin_speaks_for_the_file_and_never_with_a_fence_of_its_own() {
        let code = |who: &Credentials, owner, fence| refusal(who, &owner, fence).map(|e| e.code);
        let writer = Credentials { role: Role::Write, speaks: Speaks::ForAll };
        assert_eq!(code(&Credentials::ADMIN, Owner::File, 0), None);
        assert_eq!(code(&Credentials::ADMIN, Owner::File, 1), Some(Code::OutOfRange));
        assert_eq!(code(&writer, Owner::File, 0), Some(Code::Forbidden));
        assert_eq!(code(&writer, Owner::Cli, 9), None);
    }
}
