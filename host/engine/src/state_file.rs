//! How the interfaces were before a router changed them: a file that outlives a crash.

use crate::error::EngineError;
use perhop_io::{LockFile, private_file};
use perhop_netlink::Namespace;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Form of the file; another number is refused.
const FORMAT: u32 = 1;

/// A symbolic link in a file's place is refused: it may point anywhere.
const NO_LINK: i32 = rustix::fs::OFlags::NOFOLLOW.bits() as i32;

/// How long another start or restoration is waited for; one takes a second at most.
const LOCK_PATIENCE: Duration = Duration::from_secs(3);

/// A forwarding switch as it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedSwitch {
    pub(crate) v6: bool,
    pub(crate) value: i64,
}

/// An interface as it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedPort {
    /// Name at that time.
    pub(crate) device: String,
    /// Number, which the interface keeps as long as it exists and no other one in its namespace has.
    #[serde(default)]
    pub(crate) index: Option<u32>,
    pub(crate) offloads: BTreeMap<String, bool>,
    pub(crate) forwarding: Vec<SavedSwitch>,
}

/// The file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StateFile {
    pub(crate) format: u32,
    pub(crate) router: String,
    pub(crate) pid: u32,
    /// Start of the process in ticks since boot: a process of the same number is another one.
    pub(crate) started: u64,
    /// Which start of the machine it was: nothing that is written here survives the next one.
    #[serde(default)]
    pub(crate) boot: Option<String>,
    /// Network namespace, as the kernel names it.
    pub(crate) namespace: String,
    pub(crate) ports: Vec<SavedPort>,
}

/// The state file of a router.
pub fn state_path(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{}.state.json", name.replace('/', "_")))
}

/// Of the flags of a process: it ends, and its files may be closed already (PF_EXITING of the kernel).
const EXITING: u64 = 0x4;

/// When a process that lives started, in ticks since boot (fields 3, 9 and 22 of /proc/PID/stat, proc(5)). One that is
/// dead keeps its number until its parent asks how it ended, and a parent that never does is no rarity in containers.
fn started(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is a name in parentheses that may hold anything.
    let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace();
    let (state, flags, started) = (fields.next()?, fields.nth(5)?, fields.nth(12)?);
    let is_dead = matches!(state, "Z" | "X" | "x") || flags.parse::<u64>().ok()? & EXITING != 0;
    if is_dead { None } else { started.parse().ok() }
}

/// The kernel's name of this start of the machine (random(4)).
fn boot() -> Option<String> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned())
}

/// Held while state files are looked at and written: one start or restoration at a time in a directory.
pub(crate) struct StateLock(#[expect(dead_code, reason = "dropping it gives the lock back")] LockFile);

impl StateLock {
    /// Waits for others, but not for ever; makes the directory if need be. No router's name begins with a dot, so the
    /// lock of none has this name.
    pub(crate) fn of(directory: &Path) -> Result<Self, EngineError> {
        let fail = |source| EngineError::StateFile { path: directory.to_owned(), source };
        fs::create_dir_all(directory).map_err(fail)?;
        Ok(Self(LockFile::take(&directory.join(".state.lock"), LOCK_PATIENCE)?))
    }
}

impl StateFile {
    pub(crate) fn new(router: &str, namespace: &Namespace, ports: Vec<SavedPort>) -> Self {
        let pid = std::process::id();
        Self {
            format: FORMAT,
            router: router.to_owned(),
            pid,
            started: started(pid).unwrap_or(0),
            boot: boot(),
            namespace: namespace.to_string(),
            ports,
        }
    }

    /// Whether the process that wrote it lives.
    pub(crate) fn is_live(&self) -> bool {
        self.is_of_this_boot() && started(self.pid) == Some(self.started)
    }

    pub(crate) fn is_of_this_boot(&self) -> bool {
        self.boot.is_none() || self.boot == boot()
    }

    /// Whether it is about one of these interfaces of a namespace, and which.
    pub(crate) fn shares(&self, namespace: &Namespace, found: &[SavedPort]) -> Option<usize> {
        if self.namespace != namespace.to_string() || !self.is_of_this_boot() {
            return None;
        }
        found.iter().position(|f| {
            self.ports
                .iter()
                .any(|p| if p.index.is_some() { p.index == f.index } else { p.device == f.device })
        })
    }

    pub(crate) fn read(path: &Path) -> Result<Self, EngineError> {
        let fail = |source| EngineError::StateFile { path: path.to_owned(), source };
        let mut text = Vec::new();
        let file = OpenOptions::new().read(true).custom_flags(NO_LINK).open(path).map_err(fail)?;
        (&file).read_to_end(&mut text).map_err(fail)?;
        let wrong = |detail: String| EngineError::StateFormat { path: path.to_owned(), detail };
        let state: Self = serde_json::from_slice(&text).map_err(|e| wrong(e.to_string()))?;
        if state.format != FORMAT {
            return Err(wrong(format!("format {} is not {FORMAT}", state.format)));
        }
        Ok(state)
    }

    /// Writes the file whole or not at all, and to the disk.
    pub(crate) fn write(&self, path: &Path) -> Result<(), EngineError> {
        let fail = |source| EngineError::StateFile { path: path.to_owned(), source };
        let text = serde_json::to_vec_pretty(self).map_err(|e| fail(e.into()))?;
        let new = path.with_extension("new");
        let mut file = private_file::create(&new).map_err(fail)?;
        let written = file.write_all(&text).and_then(|()| file.sync_all());
        written.and_then(|()| fs::rename(&new, path)).map_err(|error| {
            let _ = fs::remove_file(&new);
            fail(error)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::put_back::restore;

    fn state(pid: u32, started: u64) -> StateFile {
        StateFile {
            format: FORMAT,
            router: "edge".into(),
            pid,
            started,
            boot: boot(),
            namespace: "net:[1]".into(),
            ports: vec![SavedPort {
                device: "eth0".into(),
                index: Some(2),
                offloads: BTreeMap::from([("rx-gro".into(), true)]),
                forwarding: vec![SavedSwitch { v6: false, value: 1 }],
            }],
        }
    }

    #[test]
    fn a_file_reads_back_and_strangers_are_refused() {
        let dir = std::env::temp_dir().join(format!("perhop-state-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let path = state_path(&dir, "a/b");
        assert!(path.ends_with("a_b.state.json"));
        let written = state(1, 7);
        written.write(&path).unwrap();
        assert_eq!(StateFile::read(&path).unwrap(), written);
        fs::write(&path, "{\"format\": 1, \"surprise\": 2}").unwrap();
        assert!(matches!(StateFile::read(&path), Err(EngineError::StateFormat { .. })));
        // Nobody is in that namespace, so there is nothing to put back.
        written.write(&path).unwrap();
        let restored = restore(&path).unwrap();
        assert!(restored.namespace_gone && !path.exists());
        assert!(restored.devices.is_empty() && restored.gone == ["eth0"]);
        // What cannot be put in its place leaves nothing beside it.
        fs::create_dir(&path).unwrap();
        assert!(matches!(written.write(&path), Err(EngineError::StateFile { .. })));
        assert!(!path.with_extension("new").exists());
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn links_are_neither_read_nor_written_through() {
        let dir = std::env::temp_dir().join(format!("perhop-state-links-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let (path, real, victim) = (state_path(&dir, "a"), dir.join("real"), dir.join("victim"));
        state(1, 7).write(&real).unwrap();
        std::os::unix::fs::symlink(&real, &path).unwrap();
        assert!(matches!(StateFile::read(&path), Err(EngineError::StateFile { .. })));
        assert!(matches!(restore(&path), Err(EngineError::StateFile { .. })));
        fs::write(&victim, "precious").unwrap();
        std::os::unix::fs::symlink(&victim, path.with_extension("new")).unwrap();
        assert!(matches!(state(1, 7).write(&path), Err(EngineError::StateFile { .. })));
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        fs::remove_file(path.with_extension("new")).unwrap();
        // The link itself is replaced, not what it points to.
        state(2, 9).write(&path).unwrap();
        assert_eq!((StateFile::read(&path).unwrap().pid, StateFile::read(&real).unwrap().pid), (2, 1));
        fs::remove_dir_all(&dir).unwrap();
    }

    /// Everybody who can read a directory can lock it.
    #[test]
    fn whoever_locks_the_directory_keeps_nobody_from_starting() {
        let dir = std::env::temp_dir().join(format!("perhop-state-lock-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let foreign = fs::File::open(&dir).unwrap();
        foreign.lock().unwrap();
        let lock = StateLock::of(&dir).unwrap();
        // Another start is waited for, not for ever, and named.
        let error = StateLock::of(&dir).err().unwrap();
        assert!(matches!(error, EngineError::Lock(_)) && error.is_environment(), "{error}");
        assert!(error.to_string().contains(&format!("process {} holds", std::process::id())), "{error}");
        drop(lock);
        assert!(StateLock::of(&dir).is_ok());
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_process_is_its_number_and_its_start() {
        let me = std::process::id();
        let start = started(me).unwrap();
        assert!(state(me, start).is_live());
        assert!(!state(me, start + 1).is_live(), "another process of the same number");
        let before = StateFile { boot: Some("another".into()), ..state(me, start) };
        assert!(!before.is_live(), "before the machine was started again");
    }

    #[test]
    fn a_process_that_nobody_waits_for_is_dead_all_the_same() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let written = state(child.id(), started(child.id()).unwrap());
        assert!(written.is_live());
        child.kill().unwrap();
        let end = std::time::Instant::now() + Duration::from_secs(10);
        while written.is_live() {
            assert!(std::time::Instant::now() < end, "it is a zombie and counts as running");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(fs::metadata(format!("/proc/{}", child.id())).is_ok(), "it is still there");
        child.wait().unwrap();
    }
}
