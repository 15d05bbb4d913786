//! A PostgreSQL server of the test's own: in a temporary folder, on a Unix socket there, and gone with the test.

use crate::support::{Folder, Place, block_on};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub struct Server {
    bin: PathBuf,
    folder: Folder,
    child: Option<Child>,
    number: AtomicU64,
}

impl Server {
    /// The folder of the programs of the newest version that is installed.
    pub fn programs() -> Option<PathBuf> {
        let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
        let number = |path: &PathBuf| path.file_name().and_then(|n| n.to_str()?.parse::<u32>().ok());
        let newest = versions.filter_map(|entry| Some(entry.ok()?.path())).max_by_key(number)?;
        let bin = newest.join("bin");
        (bin.join("initdb").exists() && bin.join("postgres").exists()).then_some(bin)
    }

    pub fn start(bin: PathBuf) -> Server {
        let folder = Folder::new();
        if let Some((uid, gid)) = other_user() {
            std::os::unix::fs::chown(&folder.0, Some(uid), Some(gid)).expect("root gives away");
        }
        let mut server = Server { bin, folder, child: None, number: AtomicU64::new(0) };
        let mut initdb = server.command("initdb");
        initdb.args(["--no-sync", "-A", "trust", "-U", "perhop", "-E", "UTF8", "-D"]);
        let out = initdb.arg(server.folder.file("data")).output().expect("initdb");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        server.run();
        server
    }

    /// Starts the server, again if its predecessor's processes are still ending, and waits until it answers.
    pub fn run(&mut self) {
        for _ in 0..600 {
            let ended = match &mut self.child {
                Some(child) => child.try_wait().expect("a child").is_some(),
                None => true,
            };
            if ended {
                let mut postgres = self.command("postgres");
                postgres.arg("-D").arg(self.folder.file("data")).arg("-k").arg(&self.folder.0);
                postgres.args(["-c", "listen_addresses=", "-c", "max_connections=40"]);
                self.child = Some(postgres.stderr(Stdio::null()).spawn().expect("postgres"));
            }
            let mut ready = self.command("pg_isready");
            let ready = ready.arg("-q").arg("-h").arg(&self.folder.0).args(["-U", "perhop"]).status();
            if ready.expect("pg_isready").success() {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("the server does not start");
    }

    /// Ends the server at once, as a crash does.
    pub fn kill(&mut self) {
        let child = self.child.as_mut().expect("it runs");
        child.kill().expect("our child");
        child.wait().expect("our child");
    }

    /// A new database.
    pub fn place(&self) -> Place {
        let name = format!("case{}", self.number.fetch_add(1, Ordering::Relaxed));
        block_on(async {
            let place = Place { address: self.address("postgres") };
            place.beside().await.run(&format!("CREATE DATABASE {name}")).await;
        });
        Place { address: self.address(&name) }
    }

    fn address(&self, database: &str) -> String {
        format!("postgres://perhop@localhost/{database}?host={}", self.folder.0.display())
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.bin.join(program));
        command.stdin(Stdio::null()).stdout(Stdio::null()).current_dir(&self.folder.0);
        command.env("LC_ALL", "C.UTF-8");
        if let Some((uid, gid)) = other_user() {
            command.uid(uid).gid(gid);
        }
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Its quick way down, so that its processes are gone before the folder is.
            if child.try_wait().is_ok_and(|status| status.is_none()) {
                crate::support::signal("-QUIT", child.id());
                _ = child.wait();
            }
        }
    }
}

/// Whom the server runs as where the test runs as root, which PostgreSQL refuses.
fn other_user() -> Option<(u32, u32)> {
    if std::fs::metadata("/proc/self").ok()?.uid() != 0 {
        return None;
    }
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    let user = |name: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    user("postgres").or_else(|| user("nobody"))
}
