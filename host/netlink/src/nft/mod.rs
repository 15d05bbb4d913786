//! Tables of the kernel's packet filter (nftables) that live as long as the value that made them: in [`guard`] rules that keep
//! the kernel from forwarding what a router of ours forwards. What others have in it, [`crate::bypass`] finds.
//!
//! A table is made with the flag `owner` (Linux 5.12): it belongs to the socket that made it, so that nobody else can change
//! it, `nft flush ruleset` leaves it alone, and it is gone with the process, however this ends.
//!
//! Layouts are those of linux/netfilter/nf_tables.h and nfnetlink.h; numbers are big-endian there, what rules compare is as the
//! processor has it.

pub(crate) mod expression;
pub mod guard;
pub(crate) mod message;
mod own;

pub use guard::{Duty, ForwardGuard, Selector, Shared};
pub use own::{Detour, OwnTraffic};
