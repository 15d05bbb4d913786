//! A PostgreSQL server of one's own: in a temporary folder, on a Unix socket there, and gone with its owner.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a server may take to answer: one that was killed replays its log first.
const PATIENCE: Duration = Duration::from_secs(60);

/// See the module.
#[derive(Debug)]
pub struct PostgresServer {
    programs: PathBuf,
    folder: PathBuf,
    child: Option<Child>,
}

impl PostgresServer {
    /// The folder with `initdb` and `postgres` of the newest version that is installed.
    pub fn programs() -> Option<PathBuf> {
        let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
        let number = |path: &PathBuf| path.file_name().and_then(|n| n.to_str()?.parse::<u32>().ok());
        let newest = versions.filter_map(|entry| Some(entry.ok()?.path())).max_by_key(number)?.join("bin");
        (newest.join("initdb").exists() && newest.join("postgres").exists()).then_some(newest)
    }

    /// Makes a server with an empty database in `folder`, which must not exist yet and goes away with the server. It syncs to the
    /// disk as one in earnest does.
    ///
    /// # Errors
    /// The operating system's, and a server that does not start.
    pub fn start(programs: PathBuf, folder: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let mut server = Self { programs, folder: folder.to_owned(), child: None };
        if let Some((uid, gid)) = other_user() {
            std::os::unix::fs::chown(folder, Some(uid), Some(gid))?;
        }
        let mut initdb = server.command("initdb");
        initdb.args(["--no-sync", "-A", "trust", "-U", "perhop", "-E", "UTF8", "-D"]);
        let made = initdb.arg(folder.join("data")).output()?;
        if !made.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&made.stderr).into_owned()));
        }
        server.run()?;
        Ok(server)
    }

    /// Starts it, again if processes of its predecessor are still ending, and waits until it answers.
    ///
    /// # Errors
    /// The operating system's, and a server that does not start.
    pub fn run(&mut self) -> io::Result<()> {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            let runs = match &mut self.child {
                Some(child) => child.try_wait()?.is_none(),
                None => false,
            };
            if !runs {
                let mut postgres = self.command("postgres");
                postgres.arg("-D").arg(self.folder.join("data")).arg("-k").arg(&self.folder);
                postgres.args(["-c", "listen_addresses=", "-c", "max_connections=40"]);
                self.child = Some(postgres.spawn()?);
            }
            let mut ready = self.command("pg_isready");
            if ready.arg("-q").arg("-h").arg(&self.folder).args(["-U", "perhop"]).status()?.success() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "PostgreSQL does not answer"))
    }

    /// Ends it at once, as a crash does.
    ///
    /// # Errors
    /// It does not run.
    pub fn kill(&mut self) -> io::Result<()> {
        let child = self.child.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        child.kill()?;
        child.wait().map(drop)
    }

    /// The address of its database.
    pub fn address(&self) -> String {
        format!("postgres://perhop@localhost/postgres?host={}", self.folder.display())
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).current_dir(&self.folder);
        command.env("LC_ALL", "C.UTF-8");
        if let Some((uid, gid)) = other_user() {
            command.uid(uid).gid(gid);
        }
        command
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take()
            && let Ok(None) = child.try_wait()
        {
            // Its quick way down, so that its processes are gone before the folder is.
            let pid = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
            let _ = pid.map(|pid| rustix::process::kill_process(pid, rustix::process::Signal::QUIT));
            let _ = child.wait();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Whom it runs as where its owner is root, which PostgreSQL refuses.
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
