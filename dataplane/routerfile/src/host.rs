//! A file for the TCP rate control on an end host: the policies of a router's file and what they share.
//!
//! | key of `[host]` | value | default | range |
//! |---|---|---|---|
//! | `rate` | what each direction of the link carries, for the policies to share | nothing is shared | 1 kbit/s – 1 Tbit/s |
//! | `max_connections` | connections that are followed | 16,384 | 16 – 4,194,304 |
//!
//! `[[abr]]` is that of a router's file (`docs/router-file.md`). There are no contracts and filters to match, and three
//! classes: `sent` is what this host sends, `received` what it receives, `forwarded` what passes through it. With
//! `[host] rate` a policy's flows get what is theirs by `weight`, `min` and `peak`; its own `rate` then is the most
//! they get in sum.

use super::names::Names;
use super::{Declared, check, read};
use perhop_abr::{AbrPolicyId, Match, Policy};
use perhop_config::{Diagnostics, Document, TableReader};
use perhop_graph::router::policy;
use perhop_model::{AbrPolicySpec, Name};
use perhop_packet::ClassId;
use perhop_units::{Duration, Rate};

/// Class of data that this host sends.
pub const SENT: ClassId = ClassId(0);
/// Class of data that this host receives.
pub const RECEIVED: ClassId = ClassId(1);
/// Class of data that passes through this host.
pub const FORWARDED: ClassId = ClassId(2);

/// What a file calls them.
const CLASSES: [(&str, ClassId); 3] = [("sent", SENT), ("received", RECEIVED), ("forwarded", FORWARDED)];

/// Connections followed unless the file says otherwise.
pub const DEFAULT_CONNECTIONS: u32 = 16_384;

/// A file without errors.
#[derive(Clone, Debug, PartialEq)]
pub struct HostFile {
    /// What each direction of the link carries; none = nothing is shared.
    pub rate: Option<Rate>,
    /// Connections that are followed at most.
    pub connections: u32,
    /// Policies, in the order in which they are compared.
    pub policies: Vec<HostPolicy>,
}

/// A policy and its name.
#[derive(Clone, Debug, PartialEq)]
pub struct HostPolicy {
    /// Name.
    pub name: Name,
    /// What it says. Classes other than those of the hooks match nothing, contracts and filters are not compared.
    pub spec: AbrPolicySpec,
}

/// Least time that a host's windows are for. A queue and a way to user space and back take some tenths of a millisecond, and differ
/// with every packet: more than the path in a data centre, whose latency is measured without them.
const SPAN: Duration = Duration::from_millis(2);

impl HostPolicy {
    /// As the controller takes it.
    pub fn policy(&self, id: AbrPolicyId) -> Policy {
        let m = &self.spec.matches;
        let class = |name: &Name| {
            CLASSES
                .iter()
                .find(|(known, _)| *known == name.as_str())
                .map_or(ClassId::NONE, |(_, class)| *class)
        };
        let matches = Match {
            class: m.class.as_ref().map(class),
            sla: None,
            filter: None,
            dscp: m.dscp.iter().fold(0, |bits, dscp| bits | 1 << dscp.get()),
            src: m.src,
            dst: m.dst,
            src_ports: m.src_ports.map(|r| r.first..=r.last),
            dst_ports: m.dst_ports.map(|r| r.first..=r.last),
        };
        Policy { span: SPAN, ..policy(id, &self.spec, matches) }
    }
}

impl HostFile {
    /// Reads `text`; `file` is the name that messages show. The file is there if the diagnostics hold no error; they may
    /// hold warnings.
    pub fn read(file: &str, text: &str) -> (Option<Self>, Diagnostics) {
        let (document, diagnostics) = Document::parse(file, text);
        let mut root = document.root(&diagnostics);
        let (rate, connections) = general(&mut root);
        let names = Names::of_classes(CLASSES.iter().map(|(name, _)| *name));
        let declared: Vec<Declared<AbrPolicySpec>> = read::abr_policies(&mut root, &names);
        root.finish();
        if declared.is_empty() && !diagnostics.has_errors() {
            let d = document.error(document.root_location(), "has no [[abr]]");
            diagnostics
                .push(d.hint("Say which flows are held at which rate, or use --rate or --link instead"));
        }
        check::abr_of_host(&document, &diagnostics, &declared, rate.is_some());
        if diagnostics.errors() > 0 {
            return (None, diagnostics);
        }
        let policies = declared.into_iter().map(|d| HostPolicy { name: d.name, spec: d.spec }).collect();
        (Some(Self { rate, connections, policies }), diagnostics)
    }
}

fn general(root: &mut TableReader<'_>) -> (Option<Rate>, u32) {
    let Some(mut table) = root.table("host") else { return (None, DEFAULT_CONNECTIONS) };
    let rate = table.value_in("rate", Rate::from_kbit(1)..=Rate::MOST).map(|r| r.value);
    let connections = table.integer("max_connections", 16..=4_194_304);
    table.finish();
    (rate, connections.map_or(DEFAULT_CONNECTIONS, |n| n.value as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> HostFile {
        let (file, diagnostics) = HostFile::read("host.toml", text);
        file.unwrap_or_else(|| panic!("{diagnostics}"))
    }

    #[test]
    fn policies_are_those_of_a_router_and_classes_are_directions() {
        let file = read(
            "[host]\nrate = \"3 Mbit/s\"\nmax_connections = 64\n\
             [[abr]]\nname = \"up\"\nmatch = { class = \"sent\", dst_ports = \"80-443\" }\nweight = 3\nidle = \"2 s\"\n\
             [[abr]]\nmatch = { class = \"received\" }\npeak = \"1 Mbit/s\"\n",
        );
        assert_eq!((file.rate, file.connections), (Some(Rate::from_mbit(3)), 64));
        let names: Vec<&str> = file.policies.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names, ["up", "abr-00020"]);
        let up = file.policies[0].policy(AbrPolicyId(7));
        assert_eq!(
            (up.id, up.matches.class, up.matches.dst_ports),
            (AbrPolicyId(7), Some(SENT), Some(80..=443))
        );
        assert_eq!((up.idle, file.policies[0].spec.weight), (Duration::from_secs(2), 3));
        let down = file.policies[1].policy(AbrPolicyId(0));
        assert_eq!((down.matches.class, down.peak), (Some(RECEIVED), Rate::from_mbit(1)));
    }

    #[test]
    fn the_file_of_the_page_is_good() {
        let page = include_str!("../../../docs/host-mode.md");
        let shown = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a file");
        let (file, diagnostics) = HostFile::read("host.toml", shown);
        assert!(file.is_some_and(|f| f.policies.len() == 3) && diagnostics.is_empty(), "{diagnostics}");
    }

    #[test]
    fn what_a_host_does_not_have_is_an_error_at_its_place() {
        for (text, expected) in [
            ("[[abr]]\nmatch = { class = \"send\" }\nrate = \"1 Mbit/s\"", "did you mean \"sent\"?"),
            ("[[abr]]\nmatch = { sla = \"shop\" }\nrate = \"1 Mbit/s\"", "host.toml:2:"),
            ("[[abr]]\nrate = \"1 bit/s\"", "is out of range"),
            ("[host]\nrate = \"1 Mbit/s\"", "has no [[abr]]"),
            ("[[port]]\nname = \"p\"\n[[abr]]\nrate = \"1 Mbit/s\"", "port"),
        ] {
            let (file, diagnostics) = HostFile::read("host.toml", text);
            let shown = diagnostics.to_string();
            assert!(file.is_none() && shown.contains(expected), "{text}: {shown}");
        }
    }

    #[test]
    fn a_policy_without_a_rate_is_warned_of_unless_a_link_is_shared() {
        let policy = "[[abr]]\nname = \"all\"\n";
        let (file, diagnostics) = HostFile::read("host.toml", policy);
        assert!(
            file.is_some() && diagnostics.to_string().contains("watched and not limited"),
            "{diagnostics}"
        );
        let (file, diagnostics) =
            HostFile::read("host.toml", &format!("[host]\nrate = \"1 Mbit/s\"\n{policy}"));
        assert!(file.is_some() && diagnostics.is_empty(), "{diagnostics}");
    }
}
