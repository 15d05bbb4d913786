//! Looking at the element without changing it: `show flows` and `explain`.

use crate::admission::Standing;
use crate::calls::{CallInfo, HereInfo};
use crate::classifier::{Key, Match, Rule};
use crate::element::{Flows, judge};
use crate::event::{FlowTuple, direction};
use crate::realtime::reason::Reason;
use crate::realtime::rtp::{HEADER_LEN, Header};
use crate::table::{Entry, FlowKey, elapsed_ms};
use perhop_packet::{ClassId, Direction, FilterId, PortId, ProfileId, SlaId};
use perhop_units::Instant;
use perhop_wire::{Layout, protocol};
use serde::Serialize;

/// One direction of one connection, for `show flows`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FlowInfo {
    /// Entry of the connection table.
    pub connection: u32,
    /// Whether it is the direction of the connection's first packet.
    pub forward: bool,
    /// Which.
    pub flow: FlowTuple,
    /// Packets.
    pub packets: u64,
    /// Bytes, IP length.
    pub bytes: u64,
    /// Milliseconds since its last packet.
    pub idle_ms: u32,
    /// Filter of the last verdict, `None` when none matched.
    pub filter: Option<u32>,
    /// Contract.
    pub sla: Option<u32>,
    /// Profile.
    pub profile: Option<u32>,
    /// Logical class now, promotion included.
    pub class: Option<u32>,
    /// Whether recognised as real-time.
    pub realtime: bool,
    /// What admission says about it, if it was asked.
    pub admission: Option<Standing>,
    /// Why recognised.
    pub reason: Option<&'static str>,
    /// SSRC when recognised as RTP.
    pub ssrc: Option<u32>,
    /// Payload type when recognised as RTP.
    pub payload_type: Option<u8>,
    /// Confidence in per cent when recognised.
    pub confidence: Option<u8>,
    /// Packet that decided, from 1, when recognised.
    pub decided_at: Option<u32>,
    /// Quality so far when recognised as RTP and measured, as it comes in, and what this router does to it.
    pub call: Option<(CallInfo, HereInfo)>,
}

/// What the element would do with a packet, and why.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// Whether the packet is IP; otherwise only `class` applies.
    pub ip: bool,
    /// Its connection, if it has one.
    pub connection: Option<ExplainedConnection>,
    /// The tables that were visited, in order.
    pub tables: Vec<ExplainedTable>,
    /// The filter that matched first.
    pub filter: Option<ExplainedFilter>,
    /// Contract.
    pub sla: Option<u32>,
    /// Where the contract comes from: `filter`, `source prefix`, `destination prefix`, `none`.
    pub sla_from: &'static str,
    /// Profile.
    pub profile: Option<u32>,
    /// Logical class, promotion included.
    pub class: Option<u32>,
    /// Where the class comes from: `real-time detection`, `filter`, `code point`, `default`.
    pub class_from: &'static str,
    /// What detection and admission say: `off`, `not UDP`, `recognised`, `recognised, kept by its filter`, `recognised,
    /// refused by admission`, `recognised, dropped by admission`, `undecided`, or why the packet cannot be RTP.
    pub detection: String,
}

/// The connection an explained packet belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ExplainedConnection {
    /// Entry of the table.
    pub id: u32,
    /// Whether the packet goes the way of the first one.
    pub forward: bool,
    /// Packets so far that way.
    pub packets: u64,
    /// Whether the cached verdict is of the rules now in force.
    pub verdict_is_current: bool,
}

/// One visited table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExplainedTable {
    /// Filters inside.
    pub filters: usize,
    /// Filters compared with the packet.
    pub compared: usize,
    /// Name of the first that matched there.
    pub matched: Option<String>,
}

/// The filter that matched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExplainedFilter {
    /// Id.
    pub id: u32,
    /// Name.
    pub name: String,
    /// Tier.
    pub tier: u8,
    /// Priority.
    pub priority: u32,
    /// Each condition and what it was compared with.
    pub because: Vec<String>,
    /// Whether detection may move the flow.
    pub allows_realtime: bool,
}

/// Entries of the table that one call of [`Flows::snapshot`] looks at, dead ones included: a few µs.
pub const SNAPSHOT_SLOTS: u32 = 256;

/// A flow that admission was not asked about, or was given leave.
fn admitted(admission: Option<Standing>) -> bool {
    admission.is_none_or(|s| s == Standing::Admitted)
}

fn some(id: u32) -> Option<u32> {
    (id != u32::MAX).then_some(id)
}

impl Flows {
    /// Directions that have carried packets, from entry `cursor` (0 at first) on, of at most `limit` connections;
    /// and the cursor to go on with, `None` at the end. At most [`SNAPSHOT_SLOTS`] entries are looked at, so there may be
    /// none in it though there are more to come. Connections that come and go meanwhile may be missed.
    pub fn snapshot(&self, now: Instant, cursor: u32, limit: usize) -> (Vec<FlowInfo>, Option<u32>) {
        let now_ms = (now.as_nanos() / 1_000_000) as u32;
        let end = cursor.saturating_add(SNAPSHOT_SLOTS).min(self.table.slots());
        let mut rows = Vec::new();
        let mut next = end;
        for (found, (n, entry)) in self.table.iter_in(cursor..end).enumerate() {
            if found == limit {
                next = n;
                break;
            }
            rows.extend(
                (0..2).filter(|h| entry.halves[*h].packets > 0).map(|h| self.info(n, entry, h, now_ms)),
            );
        }
        (rows, (next < self.table.slots()).then_some(next))
    }

    fn info(&self, n: u32, entry: &Entry, half: usize, now_ms: u32) -> FlowInfo {
        let h = &entry.halves[half];
        let v = &h.verdict;
        let admission = self.admission.standing(n << 1 | half as u32);
        let finding = entry.findings[half];
        let rtp = h.realtime && finding.has_ssrc();
        let promoted = h.realtime && v.promotable() && admitted(admission);
        let class = self.promoted_class().filter(|_| promoted).unwrap_or(v.class);
        FlowInfo {
            connection: n,
            forward: direction(entry, half) == Direction::Forward,
            flow: FlowTuple::of(&entry.key, half),
            packets: h.packets,
            bytes: h.bytes,
            idle_ms: elapsed_ms(now_ms, h.last_ms),
            filter: some(v.filter.0),
            sla: some(v.sla.0),
            profile: some(v.profile.0),
            class: some(class.0),
            realtime: h.realtime,
            admission: admission.filter(|_| h.realtime),
            reason: finding.reason().filter(|_| h.realtime).map(Reason::name),
            ssrc: rtp.then_some(h.ssrc),
            payload_type: rtp.then_some(h.payload_type),
            confidence: h.realtime.then_some(h.confidence),
            decided_at: h.realtime.then_some(u32::from(entry.decided_at[half])),
            call: self.calls.info(h.undecided, n << 1 | half as u32, &self.config.assumed).filter(|_| rtp),
        }
    }

    fn promoted_class(&self) -> Option<ClassId> {
        self.settings.detector.as_ref().map(|d| d.promote_class).filter(|c| c.is_some())
    }

    /// What would happen to `frame`, whose layout is `layout`, coming in at `in_port`: a dry run that changes nothing.
    /// The verdict is that of the rules now in force, not the cached one.
    pub fn explain(&self, frame: &[u8], layout: &Layout, in_port: PortId) -> Explanation {
        let Some(key) = Key::of(frame, layout, in_port) else {
            return Explanation {
                ip: false,
                connection: None,
                tables: Vec::new(),
                filter: None,
                sla: None,
                sla_from: "none",
                profile: None,
                class: some(self.settings.default_class.0),
                class_from: "default",
                detection: "not UDP".to_owned(),
            };
        };
        let visits = self.classifier.explain(&key);
        let rule = visits.iter().filter_map(|v| v.matched.as_ref()).min_by(|a, b| a.order().cmp(&b.order()));
        let verdict = judge(rule.map(Rule::hit), &self.settings, &key);
        let found = FlowKey::of(frame, layout, self.settings.domain(in_port)).and_then(|o| {
            let n = self.table.find(self.table.hash(&o.key), &o.key)?;
            Some((n, usize::from(o.swapped), self.table.entry(n)?))
        });
        let recognised = found.is_some_and(|(_, half, entry)| entry.halves[half].realtime);
        let admission = found.and_then(|(n, half, _)| self.admission.standing(n << 1 | half as u32));
        let promoted = recognised && verdict.promotable() && admitted(admission);
        let class = self.promoted_class().filter(|_| promoted);
        Explanation {
            ip: true,
            connection: found.map(|(id, half, entry)| ExplainedConnection {
                id,
                forward: direction(entry, half) == Direction::Forward,
                packets: entry.halves[half].packets,
                verdict_is_current: entry.halves[half].verdict.stamp == self.log.generation(),
            }),
            sla: some(verdict.sla.0),
            sla_from: self.sla_from(rule, &key, verdict.sla),
            profile: some(verdict.profile.0),
            class: some(class.unwrap_or(verdict.class).0),
            class_from: if class.is_some() { "real-time detection" } else { self.class_from(rule, &key) },
            detection: match admission.filter(|s| recognised && *s != Standing::Admitted) {
                Some(Standing::Dropped) => "recognised, dropped by admission".to_owned(),
                Some(_) if verdict.promotable() => "recognised, refused by admission".to_owned(),
                _ => self.detection_of(frame, layout, in_port, recognised, promoted),
            },
            filter: rule.map(|r| explain_rule(r, &key)),
            tables: visits
                .iter()
                .map(|v| ExplainedTable {
                    filters: v.rules,
                    compared: v.compared,
                    matched: v.matched.as_ref().map(|r| r.name.to_string()),
                })
                .collect(),
        }
    }

    fn sla_from(&self, rule: Option<&Rule>, key: &Key, sla: SlaId) -> &'static str {
        match rule.and_then(|r| r.action.sla) {
            Some(_) => "filter",
            None if self.settings.slas.find(key.src).is_some() => "source prefix",
            None if sla.is_some() => "destination prefix",
            None => "none",
        }
    }

    fn class_from(&self, rule: Option<&Rule>, key: &Key) -> &'static str {
        let action = rule.map(|r| r.action).unwrap_or_default();
        let trusted = action.trust_dscp || self.settings.trusts(key.in_port);
        if action.class.is_some() {
            "filter"
        } else if trusted && self.settings.dscp_classes[usize::from(key.dscp & 0x3f)].is_some() {
            "code point"
        } else {
            "default"
        }
    }

    fn detection_of(
        &self,
        frame: &[u8],
        layout: &Layout,
        port: PortId,
        known: bool,
        promoted: bool,
    ) -> String {
        let at = usize::from(layout.payload_offset);
        let end = usize::from(layout.l3_offset) + usize::from(layout.ip_len);
        let payload = frame.get(at..end.min(frame.len())).unwrap_or_default();
        let text = if layout.protocol != protocol::UDP || at == 0 {
            "not UDP"
        } else if promoted {
            "recognised"
        } else if known {
            "recognised, kept by its filter"
        } else if !self.settings.detects(port) {
            "off"
        } else {
            match payload.first_chunk::<HEADER_LEN>().map(|head| Header::read(payload.len(), head)) {
                None => "too_short",
                Some(Err(why)) => why.name(),
                Some(Ok(_)) => "undecided",
            }
        };
        text.to_owned()
    }
}

fn explain_rule(rule: &Rule, key: &Key) -> ExplainedFilter {
    let FilterId(id) = rule.id;
    ExplainedFilter {
        id,
        name: rule.name.to_string(),
        tier: rule.tier,
        priority: rule.priority,
        because: conditions(&rule.matches, key),
        allows_realtime: rule.action.promotable(),
    }
}

fn conditions(m: &Match, key: &Key) -> Vec<String> {
    let mut because = Vec::new();
    let mut say = |text: Option<String>| because.extend(text);
    say(m.in_port.map(|p| format!("in-port {}", p.0)));
    say(m.vlan.map(|v| format!("vlan {v}")));
    say(m.src.map(|net| format!("source {} in {net}", key.src)));
    say(m.dst.map(|net| format!("destination {} in {net}", key.dst)));
    say(m.protocol.map(|p| format!("protocol {p}")));
    let (src_port, dst_port) = key.ports.unwrap_or_default();
    say(m.src_ports.map(|r| format!("source port {src_port} in {}-{}", r.first, r.last)));
    say(m.dst_ports.map(|r| format!("destination port {dst_port} in {}-{}", r.first, r.last)));
    say(m.dscp.map(|d| format!("dscp {} & {:#04x} = {:#04x}", key.dscp, d.mask, d.value)));
    let flags = key.tcp_flags.unwrap_or_default();
    say(m.tcp_flags.map(|f| format!("tcp flags {flags:#04x} & {:#04x} = {:#04x}", f.mask, f.value)));
    say(m.fragment.map(|f| (if f { "a fragment" } else { "a whole datagram" }).to_owned()));
    if because.is_empty() {
        because.push("matches everything".to_owned());
    }
    because
}

/// Keeps the id types that reports flatten in step with [`some`].
const _: () =
    assert!(ProfileId::NONE.0 == u32::MAX && SlaId::NONE.0 == u32::MAX && ClassId::NONE.0 == u32::MAX);
