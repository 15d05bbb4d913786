//! ns-3: our program for it, compiled with what the system has, and run.

use super::dumbbell::Dumbbell;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::Command;
use thiserror::Error;

/// The program, which knows nothing but its arguments.
const PROGRAM: &str = include_str!("../../peers/ns3-dumbbell.cc");
/// Its libraries, as pkg-config knows them.
const LIBRARIES: [&str; 3] = ["ns3-internet", "ns3-applications", "ns3-point-to-point"];

/// Why there is no comparison.
#[derive(Debug, Error)]
pub enum PeerError {
    /// A program is missing or cannot be started.
    #[error("{program}: {source}")]
    Start {
        /// Its name.
        program: String,
        /// Why.
        source: std::io::Error,
    },
    /// A program failed.
    #[error("{program} failed: {output}")]
    Failed {
        /// Its name.
        program: String,
        /// The last line it wrote.
        output: String,
    },
    /// The temporary directory cannot be used.
    #[error("{path}: {source}")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// What it printed is not a result.
    #[error("its output cannot be read: {0}")]
    Output(#[from] serde_json::Error),
}

/// What one run gave.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct PeerRun {
    /// Seconds of its event loop alone.
    pub run_s: f64,
    /// Seconds of processor time in it.
    pub cpu_s: f64,
    /// Seconds with building and taking down.
    pub total_s: f64,
    /// Events.
    pub events: u64,
    /// Bytes that arrived in order at all receivers.
    pub bytes: u64,
}

/// The compiled program; its directory disappears with it.
#[derive(Debug)]
pub struct Ns3 {
    directory: PathBuf,
    /// Version of the library.
    pub version: String,
}

impl Ns3 {
    /// Compiles it.
    ///
    /// # Errors
    /// No compiler, no pkg-config, no ns-3.
    pub fn compile() -> Result<Self, PeerError> {
        let version = output("pkg-config", &["--modversion", LIBRARIES[0]])?;
        let mut query = vec!["--cflags", "--libs"];
        query.extend(LIBRARIES);
        let flags = output("pkg-config", &query)?;
        let directory = std::env::temp_dir().join(format!("perhop-bench-ns3-{}", std::process::id()));
        let in_directory = |source| PeerError::Directory { path: directory.clone(), source };
        std::fs::create_dir(&directory).map_err(in_directory)?;
        // From here on the directory is removed whatever happens.
        let peer = Self { directory: directory.clone(), version: version.trim().to_owned() };
        let source = directory.join("dumbbell.cc");
        std::fs::write(&source, PROGRAM).map_err(in_directory)?;
        let (program, source) = (peer.program().display().to_string(), source.display().to_string());
        let mut arguments = vec!["-std=c++17", "-O2", "-DNDEBUG", "-o", &program, &source];
        arguments.extend(flags.split_whitespace().filter(|flag| is_usable(flag)));
        output("g++", &arguments)?;
        Ok(peer)
    }

    /// Runs it once.
    ///
    /// # Errors
    /// It fails.
    pub fn run(&self, dumbbell: &Dumbbell) -> Result<PeerRun, PeerError> {
        let arguments = dumbbell.peer_arguments();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        Ok(serde_json::from_str(&output(&self.program().display().to_string(), &arguments)?)?)
    }

    fn program(&self) -> PathBuf {
        self.directory.join("dumbbell")
    }
}

impl Drop for Ns3 {
    fn drop(&mut self) {
        // A directory that cannot be removed is the system's to clean up.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Debian's description of ns-3 names files of development packages that it does not need and does not bring.
fn is_usable(flag: &str) -> bool {
    !flag.starts_with('/') || Path::new(flag).exists()
}

/// Standard output of a program.
fn output(program: &str, arguments: &[&str]) -> Result<String, PeerError> {
    let run = Command::new(program).args(arguments).output();
    let run = run.map_err(|source| PeerError::Start { program: program.to_owned(), source })?;
    if !run.status.success() {
        let text = String::from_utf8_lossy(&run.stderr);
        let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
        return Err(PeerError::Failed { program: program.to_owned(), output: last.to_owned() });
    }
    Ok(String::from_utf8_lossy(&run.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_and_a_failing_one_are_told_apart() {
        let missing = output("perhop-no-such-program", &[]).unwrap_err();
        assert!(matches!(missing, PeerError::Start { .. }), "{missing}");
        let failed = output("sh", &["-c", "echo first >&2; echo last >&2; exit 3"]).unwrap_err();
        assert_eq!(failed.to_string(), "sh failed: last");
    }

    #[test]
    fn a_library_file_that_is_not_there_is_left_out() {
        assert!(is_usable("-lns3-core") && is_usable("/dev/null") && !is_usable("/nowhere/libgsl.so"));
    }

    #[test]
    fn a_result_is_read() {
        let line = "{\"run_s\":1.4,\"cpu_s\":1.3,\"total_s\":1.5,\"events\":400,\"bytes\":43}\n";
        let run: PeerRun = serde_json::from_str(line).expect("it is JSON");
        assert_eq!(run, PeerRun { run_s: 1.4, cpu_s: 1.3, total_s: 1.5, events: 400, bytes: 43 });
    }
}
