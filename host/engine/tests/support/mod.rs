//! What the tests of engines in namespaces have in common.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long the kernel may take for what it does in the background.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Whether test `name` can run, in namespaces; see [`may_run_unless`].
#[allow(dead_code, reason = "not every binary asks for namespaces alone")]
pub fn may_run(name: &str) -> bool {
    may_run_unless(name, no_namespaces())
}

/// Why namespaces cannot be had.
#[allow(dead_code, reason = "not every binary asks for namespaces alone")]
pub fn no_namespaces() -> Option<String> {
    let why = "needs CAP_NET_ADMIN and CAP_SYS_ADMIN: run as root or under `unshare -Urn`";
    (!perhop_netlink::is_privileged_for_net()).then(|| why.to_owned())
}

/// Whether nothing is missing that test `name` needs. Without it the test says so and skips; with `netns` in
/// `PERHOP_REQUIRE` a skip is a failure.
pub fn may_run_unless(name: &str, missing: Option<String>) -> bool {
    let Some(why) = missing else { return true };
    eprintln!("SKIPPED {name}: {why}");
    let required = std::env::var("PERHOP_REQUIRE").is_ok_and(|l| l.split(',').any(|item| item == "netns"));
    assert!(!required, "{name} is required by PERHOP_REQUIRE but cannot run: {why}");
    false
}

/// Waits until `ready`.
///
/// # Panics
/// It is not within [`PATIENCE`].
pub fn eventually(what: &str, mut ready: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !ready() {
        assert!(Instant::now() < end, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A directory that goes away.
pub struct Scratch(PathBuf);

impl Scratch {
    /// One of this process, for test `name`.
    pub fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("perhop-engine-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
