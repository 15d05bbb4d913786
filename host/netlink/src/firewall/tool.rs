//! The program that sets rules.

use super::error::FirewallError;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Where system programs are when the search path does not have them.
const SYSTEM: [&str; 2] = ["/usr/sbin", "/sbin"];

/// Sets and lists rules of one IP version.
pub trait Firewall {
    /// What it is called, for messages.
    fn name(&self) -> String;
    /// Whether it is for IPv6.
    fn is_v6(&self) -> bool;
    /// Runs it; what it printed, or what it complained about.
    ///
    /// # Errors
    /// It cannot be run.
    fn run(&self, args: &[String]) -> Result<Result<String, String>, FirewallError>;
}

/// A program of this machine.
#[derive(Debug)]
pub struct Tool {
    path: PathBuf,
    v6: bool,
}

impl Tool {
    /// The program of an IP version that can read the table: the one for the kernel's own tables, otherwise the one that
    /// there is.
    ///
    /// # Errors
    /// There is none, or none can.
    pub fn find(v6: bool) -> Result<Self, FirewallError> {
        let names = if v6 { ["ip6tables-legacy", "ip6tables"] } else { ["iptables-legacy", "iptables"] };
        let path = std::env::var_os("PATH").unwrap_or_default();
        let places: Vec<PathBuf> = std::env::split_paths(&path).chain(SYSTEM.map(PathBuf::from)).collect();
        let mut complaint = FirewallError::NoTool;
        for name in names {
            let Some(path) = places.iter().map(|place| place.join(name)).find(|path| path.is_file()) else {
                continue;
            };
            let tool = Self { path, v6 };
            match tool.run(&["-t", "mangle", "-S"].map(str::to_owned))? {
                Ok(_) => return Ok(tool),
                Err(said) => complaint = FirewallError::NoTable { tool: tool.name(), said },
            }
        }
        Err(complaint)
    }
}

impl Firewall for Tool {
    fn name(&self) -> String {
        self.path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }

    fn is_v6(&self) -> bool {
        self.v6
    }

    fn run(&self, args: &[String]) -> Result<Result<String, String>, FirewallError> {
        // Others change the table too: wait for the lock.
        let output = Command::new(&self.path).args(["-w", "5"]).args(args).stdin(Stdio::null()).output();
        let output = output.map_err(|source| FirewallError::Tool { tool: self.name(), source })?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        Ok(if output.status.success() {
            Ok(text(&output.stdout))
        } else {
            Err(one_line(&text(&output.stderr)))
        })
    }
}

/// The first line says what is wrong, others advise; apart from warnings (`# Warning: iptables-legacy tables present …`),
/// which come in front.
fn one_line(said: &str) -> String {
    let reason = said.lines().find(|line| !line.starts_with('#') && !line.trim().is_empty());
    reason.or(said.lines().next()).unwrap_or("it failed without a word").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_told_and_not_the_warning_in_front_of_it() {
        let warning = "# Warning: iptables-legacy tables present, use iptables-legacy to see them";
        let said = format!("{warning}\niptables: No chain/target/match by that name.\nTry `iptables -h'.");
        assert_eq!(one_line(&said), "iptables: No chain/target/match by that name.");
        assert_eq!(one_line(warning), warning, "better than nothing");
        assert_eq!(one_line(""), "it failed without a word");
    }
}
