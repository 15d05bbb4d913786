//! A proxy that is a process of its own.

use crate::error::BenchError;
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Where the callee's phone is; the proxy's file says so.
pub(super) const CALLEE: &str = "127.0.0.3:5062";
/// How long a start may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// It ends with this.
pub(super) struct Proxy {
    child: Child,
    folder: PathBuf,
    pub(super) address: SocketAddr,
}

impl Proxy {
    /// This program's own.
    pub(super) fn start() -> Result<Self, BenchError> {
        let address = free()?;
        let text = format!(
            "[[listen]]\ntransport = \"udp\"\naddress = \"{address}\"\n\
             [[domain]]\nname = \"bench.example\"\nusers = {{ v = \"sip:v@{CALLEE}\" }}\n\
             [[zone]]\nprefixes = [\"127.0.0.0/8\"]\nside = \"phones\"\n\
             [[edge]]\nname = \"edge\"\nprefixes = [\"127.0.0.0/8\"]\n\
             [reserve]\nby = \"cops\"\nservers = [\"127.0.0.1:9\"]\nclient = \"bench\"\nclass = \"voice\"\n\
             [limits]\ncalls = 1000000\nrequests = 2000000\n"
        );
        let folder = folder(address)?;
        fs::write(folder.join("sip-proxy.toml"), text)?;
        let program = std::env::current_exe()?;
        let mut command = Command::new(program);
        command.args(["sip-proxy", "run"]).arg(&folder);
        Self::of(command, folder, address)
    }

    /// Of any command that makes a proxy at this address.
    pub(super) fn of(mut command: Command, folder: PathBuf, address: SocketAddr) -> Result<Self, BenchError> {
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let proxy = Self { child: quiet.spawn()?, folder, address };
        // It answers what it is asked about itself.
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.set_read_timeout(Some(Duration::from_millis(100)))?;
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            let own = socket.local_addr()?;
            let text = format!(
                "OPTIONS sip:{address} SIP/2.0\r\nVia: SIP/2.0/UDP {own};branch=z9hG4bKo;rport\r\nMax-Forwards: 0\r\nFrom: <sip:u@bench.example>;tag=1\r\n\
                 To: <sip:{address}>\r\nCall-ID: o\r\nCSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n"
            );
            let _ = socket.send_to(text.as_bytes(), address);
            if socket.recv(&mut [0; 4_096]).is_ok() {
                return Ok(proxy);
            }
        }
        Err(BenchError::Wrong(format!("the proxy at {address} does not answer")))
    }

    fn read(&self, name: &str) -> Result<String, BenchError> {
        Ok(fs::read_to_string(format!("/proc/{}/{name}", self.child.id()))?)
    }

    /// Processor time that it and those that it has started have used, s.
    pub(super) fn processor_time(&self) -> Result<f64, BenchError> {
        let mut ns = 0_u64;
        for id in family(self.child.id()) {
            for task in fs::read_dir(format!("/proc/{id}/task"))? {
                let text = fs::read_to_string(task?.path().join("schedstat")).unwrap_or_default();
                ns += text.split(' ').next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0);
            }
        }
        Ok(ns as f64 / 1e9)
    }

    /// Memory that it has, octets.
    pub(super) fn memory(&self) -> Result<u64, BenchError> {
        let status = self.read("status")?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
        Ok(kib.ok_or_else(|| BenchError::Wrong("/proc has no VmRSS of the proxy".into()))? * 1_024)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let id = rustix::process::Pid::from_child(&self.child);
        // What it has started ends with it.
        let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
        let end = Instant::now() + Duration::from_secs(3);
        while Instant::now() < end && self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A process and those that it has started.
fn family(id: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
    let children = children.split_whitespace().filter_map(|child| child.parse().ok());
    std::iter::once(id).chain(children).collect()
}

/// An address of loopback that is free.
pub(super) fn free() -> Result<SocketAddr, BenchError> {
    Ok(UdpSocket::bind("127.0.0.1:0")?.local_addr()?)
}

/// A folder for what a proxy needs.
pub(super) fn folder(address: SocketAddr) -> Result<PathBuf, BenchError> {
    let folder =
        std::env::temp_dir().join(format!("perhop-bench-sip-{}-{}", std::process::id(), address.port()));
    fs::create_dir_all(&folder)?;
    Ok(folder)
}
