//! Keeps the processors of a virtual machine from halting while something is measured.
//!
//! A virtual processor that has nothing to do halts. What wakes it then waits until the host runs it again, often for
//! milliseconds, which the guest sees as stolen time and as late timers: the laboratory would measure the host. So a
//! thread for each processor runs whenever nothing else wants to (`SCHED_IDLE`, sched(7)), and whatever else wants to
//! takes its place at once. Its time counts as idle.
//!
//! Only on a virtual machine, and not where the processor time of this process is rationed: it would eat the ration.

use perhop_io::thread::run_after_others;
use perhop_units::Duration;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

/// Turns between two looks at the clock: tens of microseconds.
const TURNS: u32 = 1_000;
/// Where control groups are mounted.
const CGROUPS: &str = "/sys/fs/cgroup";

/// While it lives, no processor that this process may use halts, if that is of use here.
#[derive(Debug, Default)]
pub(crate) struct Awake {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    /// Processor time that the threads took, ns.
    used: AtomicU64,
}

impl Awake {
    /// Starts the threads where they are of use. Where the machine does not let them run after all others there are none.
    pub(crate) fn start() -> Self {
        if is_virtual(&read("/proc/cpuinfo")) && !is_rationed(&read("/proc/self/cgroup"), Path::new(CGROUPS))
        {
            Self::on_all()
        } else {
            Self::default()
        }
    }

    fn on_all() -> Self {
        let shared = Arc::new(Shared::default());
        let usable = sched_getaffinity(None).unwrap_or_default();
        let threads = (0..CpuSet::MAX_CPU).filter(|cpu| usable.is_set(*cpu)).filter_map(|cpu| {
            let shared = Arc::clone(&shared);
            std::thread::Builder::new().name(format!("awake-{cpu}")).spawn(move || shared.keep(cpu)).ok()
        });
        let threads = threads.collect();
        Self { shared, threads }
    }

    /// Processor time that was taken so that no processor halts: nobody else wanted it.
    pub(crate) fn cpu_time(&self) -> Duration {
        Duration(self.shared.used.load(Ordering::Relaxed))
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn keep(&self, cpu: usize) {
        let mut only = CpuSet::new();
        only.set(cpu);
        if run_after_others().is_err() || sched_setaffinity(None, &only).is_err() {
            return;
        }
        let mut counted = 0;
        while !self.stop.load(Ordering::Relaxed) {
            for _ in 0..TURNS {
                std::hint::spin_loop();
            }
            let used = clock_gettime(ClockId::ThreadCPUTime);
            let used = used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64;
            self.used.fetch_add(used - counted, Ordering::Relaxed);
            counted = used;
        }
    }
}

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Whether processors say that they are virtual (proc_cpuinfo(5); x86).
fn is_virtual(cpuinfo: &str) -> bool {
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags"));
    flags.is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

/// Whether a control group of this process, as `/proc/self/cgroup` names them, or one above it has a quota
/// (cgroups(7), `cpu.max` of version 2 and `cpu.cfs_quota_us` of version 1).
fn is_rationed(own: &str, mount: &Path) -> bool {
    own.lines().any(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else { return false };
        let (root, file) = match controllers {
            "" => (mount.to_owned(), "cpu.max"),
            list if list.split(',').any(|name| name == "cpu") => (mount.join("cpu"), "cpu.cfs_quota_us"),
            _ => return false,
        };
        let group: PathBuf = Path::new(group.trim_start_matches('/')).to_owned();
        group.ancestors().any(|group| {
            let quota = read(root.join(group).join(file));
            quota.split_whitespace().next().is_some_and(|quota| quota != "max" && !quota.starts_with('-'))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_virtual_machine_is_known_by_its_flags() {
        assert!(is_virtual("processor : 0\nflags\t\t: fpu sse hypervisor lahf_lm\n"));
        assert!(!is_virtual("processor : 0\nflags\t\t: fpu sse\nbugs : hypervisor\n"));
        assert!(!is_virtual(""));
    }

    #[test]
    fn a_quota_anywhere_above_counts_in_both_versions_of_control_groups() {
        let mount = std::env::temp_dir().join(format!("perhop-awake-{}", std::process::id()));
        let put = |group: &str, file: &str, text: &str| {
            fs::create_dir_all(mount.join(group)).unwrap();
            fs::write(mount.join(group).join(file), text).unwrap();
        };
        put("a/b", "cpu.max", "max 100000\n");
        put("a", "cpu.max", "max 100000\n");
        put("c", "cpu.max", "150000 100000\n");
        put("c/d", "cpu.max", "max 100000\n");
        put("cpu/e", "cpu.cfs_quota_us", "-1\n");
        put("cpu/f", "cpu.cfs_quota_us", "50000\n");
        let of = |own: &str| is_rationed(own, &mount);
        let found = [
            of("0::/a/b\n"),
            of("0::/c/d\n"),
            of("0::/nowhere\n"),
            of("4:memory:/c\n3:cpu,cpuacct:/e\n0::/\n"),
            of("3:cpu,cpuacct:/f\n"),
            of("nonsense"),
        ];
        fs::remove_dir_all(&mount).unwrap();
        assert_eq!(found, [false, true, false, false, true, false]);
    }

    #[test]
    fn threads_count_what_they_take_and_end_with_it() {
        let awake = Awake::on_all();
        let running = awake.threads.len();
        assert!(running > 0);
        // Somewhere they find a moment, unless the machine does not let them.
        let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while awake.cpu_time() == Duration::ZERO
            && awake.threads.iter().any(|thread| !thread.is_finished())
            && std::time::Instant::now() < end
        {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let refused = awake.threads.iter().all(JoinHandle::is_finished);
        assert!(refused || awake.cpu_time() > Duration::ZERO);
        let shared = Arc::downgrade(&awake.shared);
        drop(awake);
        assert!(shared.upgrade().is_none(), "a thread outlived it");
    }
}
