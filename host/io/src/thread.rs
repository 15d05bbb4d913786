//! What a packet thread asks of the scheduler.

use std::io;

/// Gives the calling thread the real-time policy `SCHED_FIFO` at `priority` (1 … 99): it runs before every ordinary
/// thread of the machine.
///
/// # Errors
/// EPERM without CAP_SYS_NICE (a user namespace does not help); EINVAL for another priority.
///
/// Source: sched(7).
pub fn run_before_others(priority: i32) -> io::Result<()> {
    set_policy(libc::SCHED_FIFO, priority)
}

/// Gives the calling thread the policy `SCHED_IDLE`: it runs when no other thread of the machine wants its processor, and
/// gives it up at once.
///
/// # Errors
/// What the kernel says; no privilege is needed.
///
/// Source: sched(7).
pub fn run_after_others() -> io::Result<()> {
    set_policy(libc::SCHED_IDLE, 0)
}

fn set_policy(policy: libc::c_int, priority: libc::c_int) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: thread 0 is the calling one; `parameters` outlives the call, which only reads it.
    let rc = unsafe { libc::sched_setscheduler(0, policy, &parameters) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
