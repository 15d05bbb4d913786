//! What a router may do to the machine: looked at before it starts, and given up as far as it is not needed.

use crate::error::EngineError;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_no_new_privs};

/// Without these no port can be opened and no interface be prepared.
const NEEDED: CapabilitySet = CapabilitySet::NET_ADMIN.union(CapabilitySet::NET_RAW);
/// What a router keeps, as far as it has it: [`NEEDED`], AF_XDP's programs and maps, and memory that is not paged out. Its own
/// network namespace is the one that it is in, so it enters none later.
const KEPT: CapabilitySet = NEEDED.union(CapabilitySet::BPF).union(CapabilitySet::IPC_LOCK);

/// Whether this thread may open ports at all.
pub(crate) fn check() -> Result<(), EngineError> {
    match capabilities(None) {
        Ok(sets) if !sets.effective.contains(NEEDED) => {
            Err(EngineError::NotPermitted { attempt: "forwarding".to_owned() })
        }
        _ => Ok(()),
    }
}

/// Gives up for this thread, and for all that it starts from now on, every right that forwarding in this network namespace
/// does not need, and the way to get one by executing a program. `realtime`: packet threads will ask for real-time priority.
///
/// Rights are a thread's: this is for a program that has no other thread yet.
///
/// # Errors
/// [`EngineError::Rights`] when the kernel refuses.
pub fn give_up_rights(realtime: bool) -> Result<(), EngineError> {
    let kept = if realtime { KEPT.union(CapabilitySet::SYS_NICE) } else { KEPT };
    let fail = |error: rustix::io::Errno| EngineError::Rights(error.into());
    set_no_new_privs(true).map_err(fail)?;
    let had = capabilities(None).map_err(fail)?;
    let sets = CapabilitySets {
        effective: had.effective.intersection(kept),
        permitted: had.permitted.intersection(kept),
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, sets).map_err(fail)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On a thread of its own: the others keep theirs.
    #[test]
    fn a_thread_that_gave_up_its_rights_has_few_and_cannot_get_them_back() {
        let given_up = || {
            give_up_rights(false).unwrap();
            let sets = capabilities(None).unwrap();
            assert!(KEPT.contains(sets.permitted) && KEPT.contains(sets.effective));
            let all = CapabilitySets { permitted: CapabilitySet::all(), ..sets };
            assert!(set_capabilities(None, all).is_err());
            assert!(rustix::thread::no_new_privs().unwrap());
            sets.effective.contains(NEEDED)
        };
        let could = check().is_ok();
        assert_eq!(std::thread::spawn(given_up).join().unwrap(), could, "what it needs it keeps");
    }

    #[test]
    fn without_rights_that_is_what_is_said() {
        let without = || {
            let none = CapabilitySet::empty();
            let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
            set_capabilities(None, sets).unwrap();
            check()
        };
        let refused = std::thread::spawn(without).join().unwrap();
        assert!(matches!(refused, Err(EngineError::NotPermitted { .. })), "{refused:?}");
    }
}
