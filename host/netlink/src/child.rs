//! Child processes that do not outlive whoever made them.

use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Signal, getppid, set_parent_process_death_signal};

/// Lets the kernel kill the child when the thread that spawns it ends, however it ends (prctl(2),
/// `PR_SET_PDEATHSIG`): a program in a namespace would otherwise keep the namespace of a killed laboratory alive.
/// Spawn it from a thread that lives as long as the child is wanted.
pub fn end_with_this_thread(command: &mut Command) {
    let parent = rustix::process::getpid();
    let before_exec = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have died before the kernel knew.
        if getppid() == Some(parent) { Ok(()) } else { Err(rustix::io::Errno::SRCH.into()) }
    };
    // SAFETY: between fork and exec the closure makes two system calls and touches no memory of others, no lock and no
    // allocator.
    unsafe { command.pre_exec(before_exec) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn a_child_ends_with_the_thread_that_made_it() {
        let made = std::thread::spawn(|| {
            let mut command = Command::new("sleep");
            end_with_this_thread(command.arg("60"));
            command.spawn().unwrap()
        });
        let status = made.join().unwrap().wait().unwrap();
        assert_eq!(status.signal(), Some(9));
    }
}
