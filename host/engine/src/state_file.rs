//! How the interfaces were before a router changed them: a file that outlives a crash.

use crate::error::EngineError;
use crate::prepare;
use perhop_netlink::Namespace;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Form of the file; another number is refused.
const FORMAT: u32 = 1;

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
    pub(crate) device: String,
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
    /// Network namespace, as the kernel names it.
    pub(crate) namespace: String,
    pub(crate) ports: Vec<SavedPort>,
}

/// What [`restore`] did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// Name of the router.
    pub router: String,
    /// Interfaces put back.
    pub devices: Vec<String>,
    /// Whether the network namespace is gone, and its interfaces with it.
    pub namespace_gone: bool,
}

/// `/run/perhop`, or `$XDG_RUNTIME_DIR/perhop` where the former cannot be written, or the directory for temporary files.
pub fn state_directory() -> PathBuf {
    let run = PathBuf::from("/run/perhop");
    let writable = |dir: &Path| {
        fs::create_dir_all(dir).is_ok()
            && rustix::fs::access(dir, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK).is_ok()
    };
    if writable(&run) {
        return run;
    }
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(|d| PathBuf::from(d).join("perhop"));
    match own {
        Some(dir) if writable(&dir) => dir,
        _ => {
            let dir = std::env::temp_dir().join(format!("perhop-{}", rustix::process::getuid().as_raw()));
            let _ = fs::create_dir_all(&dir);
            dir
        }
    }
}

/// The state file of a router.
pub fn state_path(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{}.state.json", name.replace('/', "_")))
}

/// When a process started, in ticks since boot (field 22 of /proc/PID/stat, proc(5)).
fn started(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is a name in parentheses that may hold anything.
    text.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok()
}

impl StateFile {
    pub(crate) fn new(router: &str, namespace: &Namespace, ports: Vec<SavedPort>) -> Self {
        let pid = std::process::id();
        Self {
            format: FORMAT,
            router: router.to_owned(),
            pid,
            started: started(pid).unwrap_or(0),
            namespace: namespace.to_string(),
            ports,
        }
    }

    /// Whether the process that wrote it lives.
    pub(crate) fn is_live(&self) -> bool {
        started(self.pid) == Some(self.started)
    }

    pub(crate) fn read(path: &Path) -> Result<Self, EngineError> {
        let text =
            fs::read(path).map_err(|source| EngineError::StateFile { path: path.to_owned(), source })?;
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
        let mut file = fs::File::create(&new).map_err(fail)?;
        file.write_all(&text).and_then(|()| file.sync_all()).map_err(fail)?;
        fs::rename(&new, path).map_err(fail)
    }
}

/// Puts back what a crashed router had changed, and removes its state file. Finds the router's network namespace among
/// the caller's, the named ones and those of processes.
///
/// # Errors
/// [`EngineError::NameInUse`] when the router lives; [`EngineError::StateFile`], [`EngineError::StateFormat`]; the
/// kernel's refusal, in which case the file stays.
pub fn restore(path: &Path) -> Result<Restored, EngineError> {
    let state = StateFile::read(path)?;
    if state.is_live() {
        return Err(EngineError::NameInUse { name: state.router, pid: state.pid, path: path.to_owned() });
    }
    let devices = state.ports.iter().map(|p| p.device.clone()).collect();
    let namespace = find_namespace(&state.namespace);
    if let Some(namespace) = &namespace {
        prepare::restore(namespace, &state)?;
    }
    fs::remove_file(path).map_err(|source| EngineError::StateFile { path: path.to_owned(), source })?;
    Ok(Restored { router: state.router, devices, namespace_gone: namespace.is_none() })
}

fn find_namespace(wanted: &str) -> Option<Namespace> {
    let is_it = |n: &Namespace| n.to_string() == wanted;
    if let Some(found) = Namespace::current().ok().filter(is_it) {
        return Some(found);
    }
    let names = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let mut named = names.filter_map(|e| Namespace::open_named(e.file_name().to_str()?).ok());
    if let Some(found) = named.find(is_it) {
        return Some(found);
    }
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(|e| Namespace::of_process(e.file_name().to_str()?.parse().ok()?).ok()).find(is_it)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(pid: u32, started: u64) -> StateFile {
        StateFile {
            format: FORMAT,
            router: "edge".into(),
            pid,
            started,
            namespace: "net:[1]".into(),
            ports: vec![SavedPort {
                device: "eth0".into(),
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
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_process_is_its_number_and_its_start() {
        let me = std::process::id();
        let start = started(me).unwrap();
        assert!(state(me, start).is_live());
        assert!(!state(me, start + 1).is_live(), "another process of the same number");
    }
}
