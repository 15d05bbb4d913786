//! Specifications of the kinds of objects.
//!
//! A missing field takes its default; what the router reports has every default filled in, so that a put of what was
//! read is `unchanged`.

use crate::{
    AbrPolicySpec, AdmissionSpec, DelayGoal, FirstPiece, Kind, LossGoal, Name, Owner, QueueSpec, Scheduler,
    SpecError,
};
use ipnet::IpNet;
use perhop_units::{Bytes, Dscp, Duration, Framing, Rate, Share};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// How a port forwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum PortMode {
    /// IPv4 and IPv6 forwarding by the kernel's tables.
    #[default]
    Route,
    /// Transparent, learning bridge.
    Bridge,
}

/// Into what a link cuts frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Cells {
    /// It sends them whole.
    #[default]
    None,
    /// ATM cells: 53 bytes, 48 of them the frame's.
    Atm,
}

/// Whether a port takes packets from sources to which there is no way back (RFC 3704).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum SourceCheck {
    /// As the kernel would: by the larger `rp_filter` of `all` and of the interface, IPv4 only.
    #[default]
    Kernel,
    /// It takes them.
    Off,
    /// There must be a route to the source.
    Loose,
    /// The route to the source must lead by the port.
    Strict,
}

/// A port: an interface with a transmit rate.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PortSpec {
    /// Interface name; the port's own name when empty.
    #[serde(default)]
    pub device: String,
    /// Route or bridge; all ports of a router have the same mode.
    #[serde(default)]
    pub mode: PortMode,
    /// bit/s that the link carries, counting frame + `overhead`, at least `minimum_frame`, in `cells`; 0 = as fast as the interface takes it.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    pub rate: Rate,
    /// Bytes a frame costs on the link beyond its Ethernet frame without FCS; −64 … 256.
    #[serde(default)]
    pub overhead: i32,
    /// Bytes that the shortest frame takes on the link, `overhead` included; 0 = as it is, … 1,514.
    #[serde(default)]
    pub minimum_frame: u32,
    /// What the link makes of the frame with both.
    #[serde(default)]
    pub cells: Cells,
    /// Which sources packets received here may have. Of bridges none is looked at.
    #[serde(default)]
    pub source_check: SourceCheck,
    /// Whether code points of packets received here choose classes (by [`ClassSpec::dscp`]). Otherwise they are
    /// ignored.
    #[serde(default)]
    pub trust_dscp: bool,
    /// Limit of the queue that a port without classes has, whatever its kind; default 100 ms of the rate, or 1000 full
    /// frames without a rate.
    #[serde(default)]
    pub queue: Option<QueueSpec>,
    /// How its classes share it. It may change while packets wait.
    #[serde(default)]
    pub scheduler: Scheduler,
    /// Whether other owners may refer to it.
    #[serde(default = "yes")]
    pub shared: bool,
    /// Who besides its owner may patch `rate`, and nothing else of it; none = nobody.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub managed_by: Option<Owner>,
}

impl PortSpec {
    /// The interface of the port called `name`: of its own name unless it says another.
    pub fn device_of<'a>(&'a self, name: &'a str) -> &'a str {
        if self.device.is_empty() { name } else { &self.device }
    }

    /// Bytes that the link adds to each frame, and what it makes of the frame then.
    pub fn framing(&self) -> (u32, Framing) {
        let less = u8::try_from(self.overhead.min(0).unsigned_abs()).unwrap_or(u8::MAX);
        let minimum = u16::try_from(self.minimum_frame).unwrap_or(u16::MAX);
        (self.overhead.max(0).unsigned_abs(), Framing::new(less, minimum, self.cells == Cells::Atm))
    }
}

impl Default for PortSpec {
    /// What an object without any field says.
    fn default() -> Self {
        Self {
            device: String::new(),
            mode: PortMode::default(),
            rate: Rate::ZERO,
            overhead: 0,
            minimum_frame: 0,
            cells: Cells::None,
            source_check: SourceCheck::Kernel,
            trust_dscp: false,
            queue: None,
            scheduler: Scheduler::default(),
            shared: yes(),
            managed_by: None,
        }
    }
}

/// A class: node of a port's link-sharing tree.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ClassSpec {
    /// The port whose tree it is in.
    pub port: Name,
    /// Logical class: filters, profiles and detectors name this, on every port. Default: the part of the object's
    /// name behind its last `/`.
    #[serde(default)]
    pub logical: Option<Name>,
    /// Object name of the parent class on the same port; none = child of the root.
    #[serde(default)]
    pub parent: Option<Name>,
    /// Rate the class gets whatever others do; a share refers to the parent's guarantee, or the port's rate at the
    /// top.
    #[serde(default = "no_share")]
    #[cfg_attr(feature = "schema", schema(value_type = schema::Share))]
    pub guarantee: Share,
    /// What a leaf of a port with [`Scheduler::Hfsc`] gets first, when it begins to send; none = its guarantee.
    #[serde(default)]
    pub guarantee_first: Option<FirstPiece>,
    /// How long its packets should wait, on a port with [`Scheduler::Hpd`] or [`Scheduler::Jobs`].
    #[serde(default)]
    pub delay: Option<DelayGoal>,
    /// How much of it should be lost, on a port with [`Scheduler::Jobs`].
    #[serde(default)]
    pub loss: Option<LossGoal>,
    /// Burst of the guarantee in bytes; 0 = two MTUs or 10 ms of the guarantee, whichever is more.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    pub burst: Bytes,
    /// Rate the class never exceeds; none = the port's rate. A share refers to the port's rate.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = Option<schema::Share>))]
    pub ceiling: Option<Share>,
    /// Burst of the ceiling in bytes; 0 = as for `burst`.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    pub ceiling_burst: Bytes,
    /// Share of excess against its siblings, 1 … 1,000,000.
    #[serde(default = "one")]
    pub weight: u32,
    /// Order of guarantees, 0 (first) … 15.
    #[serde(default = "last_tier")]
    pub tier: u8,
    /// Queue (leaves only).
    #[serde(default)]
    pub queue: QueueSpec,
    /// Whether packets without a class of this port go here. One leaf a port; when none says so, the leaf with most
    /// of [`ClassSpec::fitness_as_default`], of several the last by name.
    #[serde(default)]
    pub default: bool,
    /// Code points that choose this class on ports with `trust_dscp`.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = Vec<u8>))]
    pub dscp: Vec<Dscp>,
    /// Only for packets of this contract.
    #[serde(default)]
    pub sla: Option<Name>,
    /// Whether other owners may refer to it.
    #[serde(default = "yes")]
    pub shared: bool,
}

/// How a profile measures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum MeterSpec {
    /// Everything is green.
    #[default]
    None,
    /// Green within (cir, cbs), red beyond.
    TokenBucket {
        /// bit/s.
        #[cfg_attr(feature = "schema", schema(value_type = u64))]
        cir: Rate,
        /// Bytes.
        #[cfg_attr(feature = "schema", schema(value_type = u64))]
        cbs: Bytes,
    },
    /// RFC 2697.
    Srtcm {
        /// bit/s.
        #[cfg_attr(feature = "schema", schema(value_type = u64))]
        cir: Rate,
        /// Bytes.
        #[cfg_attr(feature = "schema", schema(value_type = u64))]
        cbs: Bytes,
        /// Bytes.
        #[cfg_attr(feature = "schema", schema(value_type = u64))]
        ebs: Bytes,
        /// Colour-aware.
        #[serde(default)]
        aware: bool,
    },
    /// RFC 2698.
    Trtcm {
        /// bit/s.
        #[cfg_attr(feature = "schema", schema(value_type = u64))]
        cir: Rate,
        /// Bytes.
        #[cfg_attr(feature = "schema", schema(value_type = u64))]
        cbs: Bytes,
        /// bit/s, at least `cir`.
        #[cfg_attr(feature = "schema", schema(value_type = u64))]
        pir: Rate,
        /// Bytes.
        #[cfg_attr(feature = "schema", schema(value_type = u64))]
        pbs: Bytes,
        /// Colour-aware.
        #[serde(default)]
        aware: bool,
    },
    /// RFC 2859: colours by chance, by how much the average rate is above each of two.
    Tswtcm {
        /// Up to here all is green, bit/s.
        #[cfg_attr(feature = "schema", schema(value_type = u64))]
        cir: Rate,
        /// Up to here none is red, bit/s; at least `cir`.
        #[cfg_attr(feature = "schema", schema(value_type = u64))]
        pir: Rate,
        /// How far back the average looks, ns; 1 ms … 60 s.
        #[serde(default = "one_second")]
        #[cfg_attr(feature = "schema", schema(value_type = u64))]
        window: Duration,
    },
}

/// What happens to packets of a colour.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum ColorAction {
    /// Goes on as it is.
    #[default]
    Pass,
    /// Is dropped (`policed`).
    Drop,
    /// Gets a code point.
    Mark {
        /// Code point.
        #[cfg_attr(feature = "schema", schema(value_type = u8))]
        dscp: Dscp,
    },
    /// Goes to another logical class, optionally with a code point.
    Class {
        /// Logical class.
        class: Name,
        /// Code point.
        #[serde(default)]
        #[cfg_attr(feature = "schema", schema(value_type = Option<u8>))]
        dscp: Option<Dscp>,
    },
}

/// A profile: conditioner of a customer at an ingress.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ProfileSpec {
    /// How it measures; IP length.
    #[serde(default)]
    pub meter: MeterSpec,
    /// Green packets.
    #[serde(default)]
    pub green: ColorAction,
    /// Yellow packets.
    #[serde(default)]
    pub yellow: ColorAction,
    /// Red packets; default drop.
    #[serde(default = "drop_action")]
    pub red: ColorAction,
    /// Whether other owners may refer to it.
    #[serde(default)]
    pub shared: bool,
}

/// An inclusive range of transport ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PortRange {
    /// First.
    pub first: u16,
    /// Last, at least `first`.
    pub last: u16,
}

/// An octet compared under a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct MaskedByte {
    /// Expected value; bits outside the mask must be 0.
    pub value: u8,
    /// Bits compared.
    pub mask: u8,
}

/// What a filter compares; an absent field matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct FilterMatch {
    /// Port the packet came in by.
    #[serde(default)]
    pub in_port: Option<Name>,
    /// Outer VLAN identifier, 0 … 4094; 0 = untagged.
    #[serde(default)]
    pub vlan: Option<u16>,
    /// Source prefix, `10.0.0.0/24` or `2001:db8::/32`.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub src: Option<IpNet>,
    /// Destination prefix, of the same family as `src`.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub dst: Option<IpNet>,
    /// Transport protocol number.
    #[serde(default)]
    pub protocol: Option<u8>,
    /// Source ports of UDP and TCP.
    #[serde(default)]
    pub src_ports: Option<PortRange>,
    /// Destination ports of UDP and TCP.
    #[serde(default)]
    pub dst_ports: Option<PortRange>,
    /// Code point under a mask of six bits.
    #[serde(default)]
    pub dscp: Option<MaskedByte>,
    /// TCP flags under a mask.
    #[serde(default)]
    pub tcp_flags: Option<MaskedByte>,
    /// `true`: only fragments; `false`: only whole datagrams.
    #[serde(default)]
    pub fragment: Option<bool>,
}

/// A filter: rule bound to a class, contract or profile. First match by (tier, priority, name).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct FilterSpec {
    /// Compared first; lower is earlier.
    #[serde(default)]
    pub tier: u8,
    /// Compared second; lower is earlier.
    #[serde(default)]
    pub priority: u32,
    /// Condition.
    #[serde(default, rename = "match")]
    pub matches: FilterMatch,
    /// Logical class.
    #[serde(default)]
    pub class: Option<Name>,
    /// Contract.
    #[serde(default)]
    pub sla: Option<Name>,
    /// Profile.
    #[serde(default)]
    pub profile: Option<Name>,
    /// Whether detection may move matching flows to the real-time class; default: only when `class` is absent.
    #[serde(default)]
    pub realtime: Option<bool>,
    /// Whether other owners may refer to it.
    #[serde(default)]
    pub shared: bool,
}

/// What happens to a customer's packets beyond the contract.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum SlaPolicy {
    /// Forwarded as if within it.
    Ok,
    /// Dropped (`sla_policy`).
    #[default]
    Drop,
    /// Moved to the default class, code point cleared.
    Demote,
}

/// A contract: the source prefixes of a subscriber and what its classified traffic may use. Upstream the source is
/// compared, downstream the destination; longest prefix first.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SlaSpec {
    /// The subscriber's addresses, each a prefix `10.0.0.0/24`.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = Vec<String>))]
    pub prefixes: Vec<IpNet>,
    /// bit/s at IP length.
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    pub rate: Rate,
    /// Bytes; 0 = two MTUs or 20 ms of the rate, whichever is more.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    pub burst: Bytes,
    /// Code point written into classified packets; none = unchanged.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = Option<u8>))]
    pub dscp: Option<Dscp>,
    /// Beyond the contract.
    #[serde(default)]
    pub policy: SlaPolicy,
    /// Whether other owners may refer to it.
    #[serde(default)]
    pub shared: bool,
    /// Per cent of the rate that is first come, first served, 0 … 100. The contract's live flows, `n` of them, share the
    /// rest equally: each has a bucket of (1 − `shared_pct` / 100) · `rate` / n, and a packet that this does not cover
    /// takes from the common bucket of `shared_pct` / 100 · `rate`. 100 = one bucket for all.
    #[serde(default = "hundred")]
    pub shared_pct: u8,
    /// Whether its flows are refused and dropped by admission only after those of other contracts.
    #[serde(default)]
    pub premium: bool,
}

/// Kind of a route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum RouteKind {
    /// To a next hop or an attached network.
    #[default]
    Unicast,
    /// Dropped silently.
    Blackhole,
    /// Dropped with ICMP unreachable.
    Unreachable,
    /// Dropped with ICMP prohibited.
    Prohibit,
    /// To this machine.
    Local,
}

/// A route beside those of the kernel. For the same destination a route given here wins.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RouteSpec {
    /// Destination prefix.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub dest: IpNet,
    /// Next hop; none = the destination is on the link.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub via: Option<IpAddr>,
    /// Port; needed for unicast.
    #[serde(default)]
    pub port: Option<Name>,
    /// Kind.
    #[serde(default)]
    pub kind: RouteKind,
    /// Lower wins.
    #[serde(default)]
    pub metric: u32,
    /// Whether other owners may refer to it.
    #[serde(default)]
    pub shared: bool,
}

/// What happens to real-time packets beyond their class's rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ExcessPolicy {
    /// Dropped (`policed`).
    #[default]
    Drop,
    /// Moved to the default class.
    Demote,
}

/// Real-time detection: RTP on UDP, as it is or behind other headers, and T.38; on request by size and rate.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct DetectorSpec {
    /// Whether it runs.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Logical class of recognised flows.
    pub class: Name,
    /// Packets of one SSRC, 3 … 64.
    #[serde(default = "ten")]
    pub packets: u32,
    /// Packets that suffice when they follow each other without gaps and in equal steps of the timestamp, 3 …
    /// `packets`; none = `packets`.
    #[serde(default)]
    pub regular: Option<u32>,
    /// Within this time, ns; 1 s when absent.
    #[serde(default = "one_second")]
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    pub within: Duration,
    /// A recognised flow is forgotten after this silence, ns.
    #[serde(default = "thirty_seconds")]
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    pub idle: Duration,
    /// Whether RTP is also looked for behind headers of unknown kind, at offsets of 1 … 36 bytes.
    #[serde(default = "yes")]
    pub wrapped: bool,
    /// Whether flows of small, frequent and regular packets are recognised too; so are games and tunnels then.
    #[serde(default)]
    pub statistical: bool,
    /// Statistics begin after so many packets of a flow, 15 … 250.
    #[serde(default = "fifteen")]
    pub statistical_after: u32,
    /// Largest mean size, bytes of IP length, 40 … 1500.
    #[serde(default = "two_hundred")]
    pub statistical_size: u32,
    /// More than so many packets a second, 5 … 1000.
    #[serde(default = "fifteen")]
    pub statistical_rate: u32,
    /// Code point written into recognised flows; none = unchanged.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = Option<u8>))]
    pub dscp: Option<Dscp>,
    /// Rate at which recognised flows together are policed, bit/s at frame length; none = the smallest ceiling (else
    /// guarantee) of the class on any port.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = Option<u64>))]
    pub rate: Option<Rate>,
    /// Beyond that rate.
    #[serde(default)]
    pub excess: ExcessPolicy,
    /// Only packets from these ports; empty = all.
    #[serde(default)]
    pub in_ports: Vec<Name>,
    /// Whether other owners may refer to it.
    #[serde(default)]
    pub shared: bool,
    /// Rate at which each recognised flow is policed, bit/s at IP length; 0 = not at all. What is beyond goes to the
    /// default class, whatever `excess` says: a flow that was recognised wrongly costs no more than a call.
    #[serde(default = "four_mbit")]
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    pub flow_rate: Rate,
    /// Admission of recognised flows; none = all are admitted.
    #[serde(default)]
    pub admission: Option<AdmissionSpec>,
}

/// Bandwidth a class has now, laid over its specification by another owner (the agent).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AllocationSpec {
    /// Object name of the class.
    pub class: Name,
    /// Replaces the guarantee, bit/s.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = Option<u64>))]
    pub guarantee: Option<Rate>,
    /// Replaces the ceiling, bit/s.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = Option<u64>))]
    pub ceiling: Option<Rate>,
    /// Whether other owners may refer to it.
    #[serde(default)]
    pub shared: bool,
}

/// The specification of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
#[allow(missing_docs, reason = "one variant a kind")]
pub enum Spec {
    Port(PortSpec),
    Class(ClassSpec),
    Profile(ProfileSpec),
    Filter(FilterSpec),
    Sla(SlaSpec),
    Route(RouteSpec),
    Detector(DetectorSpec),
    Allocation(AllocationSpec),
    AbrPolicy(AbrPolicySpec),
}

impl Spec {
    /// Reads the specification of an object of `kind`. Shape and types only; ranges and references are checked
    /// against the whole state.
    ///
    /// # Errors
    /// The first thing wrong with the value.
    pub fn from_value(kind: Kind, value: &serde_json::Value) -> Result<Self, SpecError> {
        fn read<T: serde::de::DeserializeOwned>(value: &serde_json::Value) -> Result<T, SpecError> {
            serde_path_to_error::deserialize(value)
                .map_err(|e| SpecError::new(e.path().to_string(), &e.inner().to_string()))
        }
        Ok(match kind {
            Kind::Port => Self::Port(read(value)?),
            Kind::Class => Self::Class(read(value)?),
            Kind::Profile => Self::Profile(read(value)?),
            Kind::Filter => Self::Filter(read(value)?),
            Kind::Sla => Self::Sla(read(value)?),
            Kind::Route => Self::Route(read(value)?),
            Kind::Detector => Self::Detector(read(value)?),
            Kind::Allocation => Self::Allocation(read(value)?),
            Kind::AbrPolicy => Self::AbrPolicy(read(value)?),
        })
    }

    /// Who besides the object's owner may patch which of its fields.
    pub fn managed(&self) -> Option<(&Owner, &'static [&'static str])> {
        match self {
            Self::Port(port) => port.managed_by.as_ref().map(|owner| (owner, ["rate"].as_slice())),
            Self::AbrPolicy(policy) => {
                policy.managed_by.as_ref().map(|owner| (owner, ["rate", "min", "refused"].as_slice()))
            }
            _ => None,
        }
    }

    /// The kind it belongs to.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Port(_) => Kind::Port,
            Self::Class(_) => Kind::Class,
            Self::Profile(_) => Kind::Profile,
            Self::Filter(_) => Kind::Filter,
            Self::Sla(_) => Kind::Sla,
            Self::Route(_) => Kind::Route,
            Self::Detector(_) => Kind::Detector,
            Self::Allocation(_) => Kind::Allocation,
            Self::AbrPolicy(_) => Kind::AbrPolicy,
        }
    }

    /// Whether other owners may refer to the object.
    pub const fn shared(&self) -> bool {
        match self {
            Self::Port(s) => s.shared,
            Self::Class(s) => s.shared,
            Self::Profile(s) => s.shared,
            Self::Filter(s) => s.shared,
            Self::Sla(s) => s.shared,
            Self::Route(s) => s.shared,
            Self::Detector(s) => s.shared,
            Self::Allocation(s) => s.shared,
            Self::AbrPolicy(s) => s.shared,
        }
    }
}

impl ClassSpec {
    /// The logical class of the class object called `name`.
    pub fn logical_name<'a>(&'a self, name: &'a Name) -> &'a str {
        match &self.logical {
            Some(l) => l.as_str(),
            None => name.as_str().rsplit('/').next().unwrap_or(name.as_str()),
        }
    }

    /// How fit it is to take what nothing else chooses, where no class says `default`: fitter is what is for everybody's
    /// packets, of a later tier, without a guarantee. A class for calls must not take everything because of its name.
    pub fn fitness_as_default(&self) -> (bool, u8, bool) {
        (self.sla.is_none(), self.tier, self.guarantee == no_share())
    }
}

fn yes() -> bool {
    true
}
fn no_share() -> Share {
    Share::Rate(Rate::ZERO)
}
fn one() -> u32 {
    1
}
fn hundred() -> u8 {
    100
}
fn ten() -> u32 {
    10
}
fn fifteen() -> u32 {
    15
}
fn two_hundred() -> u32 {
    200
}
fn last_tier() -> u8 {
    15
}
fn four_mbit() -> Rate {
    Rate::from_mbit(4)
}
fn one_second() -> Duration {
    Duration::from_secs(1)
}
fn thirty_seconds() -> Duration {
    Duration::from_secs(30)
}
fn drop_action() -> ColorAction {
    ColorAction::Drop
}

/// Schemas of types that come from other crates.
#[cfg(feature = "schema")]
mod schema {
    #![allow(dead_code, reason = "they are only described")]

    /// A rate, or a share of the enclosing one.
    #[derive(utoipa::ToSchema)]
    #[schema(rename_all = "snake_case")]
    pub enum Share {
        /// bit/s.
        Rate(u64),
        /// Parts per million of the enclosing rate, 0 … 1,000,000.
        Ppm(u32),
    }
}
