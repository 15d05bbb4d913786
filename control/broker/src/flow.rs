//! What a domain keeps with a reservation: for which packets it is.

use crate::record::{ReservationRow, ReservationState};
use ipnet::IpNet;
use perhop_agent::DomainFlow;
use perhop_config::TableReader;
use perhop_model::{FilterMatch, Name, PortRange};
use perhop_units::{Dscp, Rate};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use thiserror::Error;

/// Most alternatives by which packets of one reservation are known.
pub const MOST_PACKETS: usize = 64;

/// What is kept with a reservation, as JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// Its packets in the direction of the reservation: one of these; none = they are not told from others of its class.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packets: Vec<Packets>,
    /// The code point that they get where they enter; none = their class's, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dscp: Option<Dscp>,
    /// What its owner wants to find again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// What the interface by which it was asked for keeps with it.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub of_interface: Value,
}

/// Code points that packets get, by logical class.
pub type Marks = BTreeMap<String, Dscp>;

/// Most classes that have code points.
const MAX_CLASSES: usize = 64;

/// Reads the tables `class` of a domain's file, which may have others too.
pub fn read_marks(root: &mut TableReader<'_>) -> Marks {
    let tables = root.named_tables("class");
    if tables.len() > MAX_CLASSES {
        let error = root.error("class", format!("has {} classes", tables.len()));
        root.diagnostics().push(error.allowed(format!("at most {MAX_CLASSES}")));
    }
    let mut marks = Marks::new();
    for (name, mut table) in tables {
        if let Some(dscp) = table.required::<Dscp>("dscp", "\"EF\"") {
            marks.insert(name.value.to_owned(), dscp.value);
        }
        table.finish();
    }
    marks
}

/// Packets: an absent field is any.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Packets {
    /// Source prefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub src: Option<IpNet>,
    /// Destination prefix, of the same family.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub dst: Option<IpNet>,
    /// Transport protocol, 0 to 255: 6 is TCP, 17 is UDP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<u8>,
    /// Source ports, both included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub src_ports: Option<(u16, u16)>,
    /// Destination ports, both included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dst_ports: Option<(u16, u16)>,
}

/// Why packets are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FlowError {
    /// More alternatives than there may be.
    #[error("there are more than {MOST_PACKETS} alternatives")]
    TooMany,
    /// Addresses of two families.
    #[error("source and destination are of different families")]
    Families,
    /// A prefix has bits beyond its length.
    #[error("a prefix has bits beyond its length")]
    Prefix,
    /// A range that ends before it begins.
    #[error("a range of ports ends before it begins")]
    Range,
    /// Every packet there is.
    #[error("packets of which nothing is said are all there are: say at least one thing of them")]
    Everything,
    /// A note that cannot be shown.
    #[error("a note has no control characters")]
    Note,
    /// Ports of a protocol that has none.
    #[error("ports are of TCP, UDP, SCTP and UDP-Lite: 6, 17, 132, 136")]
    Ports,
}

impl Packets {
    /// The same of the other direction.
    #[must_use]
    pub fn turned(&self) -> Self {
        Self {
            src: self.dst,
            dst: self.src,
            protocol: self.protocol,
            src_ports: self.dst_ports,
            dst_ports: self.src_ports,
        }
    }

    fn check(&self) -> Result<(), FlowError> {
        // They would be held to the rate of one reservation, whoever's they are.
        if *self == Self::default() {
            return Err(FlowError::Everything);
        }
        let nets = [self.src, self.dst];
        if nets.iter().flatten().any(|net| net.trunc() != *net) {
            return Err(FlowError::Prefix);
        }
        if let [Some(src), Some(dst)] = nets
            && src.addr().is_ipv4() != dst.addr().is_ipv4()
        {
            return Err(FlowError::Families);
        }
        let ports = [self.src_ports, self.dst_ports];
        if ports.iter().flatten().any(|(first, last)| first > last) {
            return Err(FlowError::Range);
        }
        let has_ports = |protocol| matches!(protocol, 6 | 17 | 132 | 136);
        let are_there = ports.iter().flatten().next().is_some();
        if are_there && !self.protocol.is_some_and(has_ports) { Err(FlowError::Ports) } else { Ok(()) }
    }

    /// The condition of a filter that they meet.
    pub fn matches(&self) -> FilterMatch {
        let range = |(first, last)| PortRange { first, last };
        FilterMatch {
            src: self.src,
            dst: self.dst,
            protocol: self.protocol,
            src_ports: self.src_ports.map(range),
            dst_ports: self.dst_ports.map(range),
            ..FilterMatch::default()
        }
    }
}

impl Flow {
    /// Sees that its packets are some, and that its note can be shown.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), FlowError> {
        if self.packets.len() > MOST_PACKETS {
            return Err(FlowError::TooMany);
        }
        // A terminal that lists reservations would do what they say.
        if self.note.iter().flat_map(|note| note.chars()).any(char::is_control) {
            return Err(FlowError::Note);
        }
        self.packets.iter().try_for_each(Packets::check)
    }

    /// The same of the other direction.
    #[must_use]
    pub fn turned(&self) -> Self {
        Self { packets: self.packets.iter().map(Packets::turned).collect(), ..self.clone() }
    }

    /// As it is kept.
    pub fn text(&self) -> String {
        serde_json::to_string(self).expect("plain data, which can be written")
    }

    /// What is kept with a reservation, in its direction; nothing of what another version wrote. Both directions are kept with
    /// the same text: it is that of the first.
    pub fn of(row: &ReservationRow) -> Self {
        let flow: Self = serde_json::from_str(&row.flow).unwrap_or_default();
        if row.twin.is_some_and(|twin| twin < row.id) { flow.turned() } else { flow }
    }

    /// For an agent, `now_ms` being the time; none = its packets are not told from others.
    pub fn for_agent(&self, row: &ReservationRow, marks: &Marks, now_ms: u64) -> Option<DomainFlow> {
        // What a neighbouring domain has not agreed to yet is not told.
        if self.packets.is_empty() || row.state == ReservationState::Asking {
            return None;
        }
        Some(DomainFlow {
            id: row.id,
            class: Name::new(&row.class).ok()?,
            bps: Rate(row.bps),
            dscp: self.dscp.or_else(|| marks.get(&row.class).copied()),
            packets: self.packets.iter().map(Packets::matches).collect(),
            remaining_ms: row.expires_ms.saturating_sub(now_ms),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_packets_cannot_be_is_refused() {
        let packets = |text: &str| serde_json::from_str::<Packets>(text).expect("JSON of packets");
        let check = |text| Flow { packets: vec![packets(text)], ..Flow::default() }.check();
        assert_eq!(
            check(r#"{"src":"10.0.0.0/8","dst":"192.0.2.1/32","protocol":17,"dst_ports":[5004,5005]}"#),
            Ok(())
        );
        assert_eq!(check(r#"{"src":"10.0.0.1/8"}"#), Err(FlowError::Prefix));
        assert_eq!(check(r#"{"src":"10.0.0.0/8","dst":"2001:db8::/32"}"#), Err(FlowError::Families));
        assert_eq!(check(r#"{"protocol":17,"dst_ports":[2,1]}"#), Err(FlowError::Range));
        assert_eq!(check(r#"{"protocol":1,"dst_ports":[1,2]}"#), Err(FlowError::Ports));
        assert_eq!(check(r#"{"dst_ports":[1,2]}"#), Err(FlowError::Ports));
        let many = Flow { packets: vec![Packets::default(); MOST_PACKETS + 1], ..Flow::default() };
        assert_eq!(many.check(), Err(FlowError::TooMany));
        assert_eq!(check("{}"), Err(FlowError::Everything));
    }

    #[test]
    fn a_note_cannot_command_a_terminal() {
        let check = |note: &str| Flow { note: Some(note.to_owned()), ..Flow::default() }.check();
        assert_eq!(check("Anna’s calls"), Ok(()));
        for note in ["\u{1b}[2J", "two\nlines", "\0"] {
            assert_eq!(check(note), Err(FlowError::Note), "{note:?}");
        }
    }

    #[test]
    fn a_flow_is_kept_as_it_is_and_turned_twice_it_is_the_same() {
        let text =
            r#"{"packets":[{"src":"10.0.0.0/8","protocol":17,"src_ports":[1,2]}],"dscp":46,"note":"x"}"#;
        let flow: Flow = serde_json::from_str(text).expect("JSON of a flow");
        assert_eq!(serde_json::from_str::<Flow>(&flow.text()).expect("as it was written"), flow);
        assert_ne!(flow.turned(), flow);
        assert_eq!(flow.turned().turned(), flow);
    }
}
