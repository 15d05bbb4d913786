//! Processor time of some of this process's threads.

use std::collections::BTreeSet;
use std::fs;

/// Threads by their number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Threads(BTreeSet<u32>);

impl Threads {
    /// All that there are now.
    pub fn of_this_process() -> Self {
        let Ok(entries) = fs::read_dir("/proc/self/task") else { return Self::default() };
        let number = |entry: std::io::Result<fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
        Self(entries.filter_map(number).collect())
    }

    /// These without others.
    pub fn without(&self, others: &Self) -> Self {
        Self(self.0.difference(&others.0).copied().collect())
    }

    /// Time that they ran so far, ns (`/proc/PID/task/TID/schedstat`, its first number); 0 for those that have ended.
    pub fn busy_ns(&self) -> u64 {
        let ran = |thread: &u32| -> Option<u64> {
            let text = fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()?;
            text.split_whitespace().next()?.parse().ok()
        };
        self.0.iter().filter_map(ran).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn only_the_time_of_threads_that_were_started_since_counts() {
        let (go, wait) = channel::<()>();
        let (ready, is_ready) = channel();
        let before = Threads::of_this_process();
        let thread = std::thread::spawn(move || {
            let start = crate::machine::thread_time_ns();
            while crate::machine::thread_time_ns() - start < 20_000_000 {}
            ready.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
            let _ = wait.recv();
        });
        let id = is_ready.recv().unwrap();
        let all = Threads::of_this_process();
        let mine = Threads(BTreeSet::from([id]));
        assert!(!before.0.contains(&id) && all.without(&before).0.contains(&id));
        // The kernel adds up at ticks and when it switches.
        assert!(mine.busy_ns() >= 15_000_000, "{}", mine.busy_ns());
        drop(go);
        thread.join().unwrap();
    }
}
