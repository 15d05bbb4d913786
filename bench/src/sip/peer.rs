//! Kamailio as a stateful proxy that records routes and does nothing else.

use super::process::{CALLEE, Proxy, folder, free};
use crate::error::BenchError;
use std::process::Command;

/// It ends with this.
pub(super) struct Kamailio(pub(super) Proxy);

impl Kamailio {
    /// Its version, if it is installed.
    pub(super) fn version() -> Option<String> {
        let said = Command::new("kamailio").arg("-v").output().ok()?;
        let text = String::from_utf8_lossy(&said.stdout).into_owned();
        text.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit())).map(str::to_owned)
    }

    /// One with one process for datagrams, as the other proxy has one thread.
    pub(super) fn start() -> Result<Self, BenchError> {
        let address = free()?;
        let folder = folder(address)?;
        let file = folder.join("kamailio.cfg");
        let text = format!(
            "listen=udp:{address}\nchildren=1\nauto_aliases=no\ndisable_tcp=yes\nlog_stderror=no\n\
             loadmodule \"tm.so\"\nloadmodule \"sl.so\"\nloadmodule \"rr.so\"\nloadmodule \"pv.so\"\nloadmodule \"maxfwd.so\"\n\
             loadmodule \"siputils.so\"\nloadmodule \"textops.so\"\n\
             request_route {{\n\
             if (!mf_process_maxfwd_header(\"10\")) {{ sl_send_reply(\"483\", \"Too Many Hops\"); exit; }}\n\
             if (has_totag()) {{ loose_route(); t_relay(); exit; }}\n\
             record_route();\n$du = \"sip:{CALLEE}\";\nt_relay();\n}}\n"
        );
        std::fs::write(&file, text)?;
        let mut command = Command::new("kamailio");
        // Not in the background, so that it ends when it is told to.
        command.args(["-DD", "-E", "-m", "512", "-f"]).arg(&file).arg("-Y").arg(&folder);
        Proxy::of(command, folder, address).map(Self)
    }
}
