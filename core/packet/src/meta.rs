//! What the data plane knows about a packet besides its bytes.

use perhop_units::{Color, Instant};
use perhop_wire::Layout;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);
        impl $name {
            /// No such object.
            pub const NONE: Self = Self(<$inner>::MAX);
            /// Whether it names an object.
            pub const fn is_some(self) -> bool {
                self.0 != <$inner>::MAX
            }
            /// As an index into a dense table.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
        impl Default for $name {
            fn default() -> Self {
                Self::NONE
            }
        }
    };
}

id!(
    /// A port of the router, dense from 0.
    PortId(u16)
);
id!(
    /// A *logical* class: the interned logical name of classes (`ef`), the same on every port. Never reused in an
    /// epoch.
    ClassId(u32)
);
id!(
    /// A leaf of one port's egress tree.
    LeafId(u32)
);
id!(
    /// A customer's contract.
    SlaId(u32)
);
id!(
    /// A conditioner at an ingress.
    ProfileId(u32)
);
id!(
    /// A filter.
    FilterId(u32)
);

/// Which half of a connection a packet belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Direction {
    /// The direction of the packet that created the entry.
    #[default]
    Forward = 0,
    /// The other one.
    Reverse = 1,
}

/// Handle of "no connection entry".
pub const NO_CONNECTION: u32 = u32::MAX;

/// [`Meta::media`] of a packet whose end nobody wants to hear of.
pub const NO_MEDIA: u8 = u8::MAX;

/// Typed metadata, written by the element named with each field and read by those behind it. What queues and schedulers
/// look at comes first: it shares a cache line with the packet's book-keeping.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Meta {
    /// When the driver received the packet (receive). What meters and detection use.
    pub received_at: Instant,
    /// When it came to wait (queues that judge by the time waited).
    pub queued_at: Instant,
    /// Leaf in the egress port's tree (egress).
    pub leaf: LeafId,
    /// Logical class (flows, marker, conditioner).
    pub class: ClassId,
    /// Matched contract (flows).
    pub sla: SlaId,
    /// Where it goes out (route, bridge).
    pub out_port: PortId,
    /// Where it came in (receive).
    pub in_port: PortId,
    /// Header positions (parse).
    pub layout: Layout,
    /// Entry in the connection table, or [`NO_CONNECTION`] (flows).
    pub connection: u32,
    /// Matched filter (flows).
    pub filter: FilterId,
    /// Conditioner to apply (flows).
    pub profile: ProfileId,
    /// Half of the connection (flows).
    pub direction: Direction,
    /// Colour (meters).
    pub color: Color,
    /// Where in the transport's payload the RTP header of a measured call begins, or [`NO_MEDIA`] (flows). How the packet
    /// ends is told to those flows.
    pub media: u8,
    /// Which of the router's workers has the connection (flows).
    pub home: u8,
    /// Whether the packet belongs to a recognised real-time flow (flows).
    pub realtime: bool,
    /// Whether the frame was complete when it arrived: its layout is valid (parse).
    pub parsed: bool,
    /// Whether its way is followed, as that of a few is (driver).
    pub traced: bool,
}

impl Meta {
    /// Whether this machine itself sends the packet, by the port it names: it has its way already.
    #[inline]
    pub fn is_own(&self) -> bool {
        !self.in_port.is_some() && self.out_port.is_some()
    }
}

impl Default for Meta {
    fn default() -> Self {
        Self {
            received_at: Instant::ZERO,
            queued_at: Instant::ZERO,
            layout: Layout::default(),
            connection: NO_CONNECTION,
            filter: FilterId::NONE,
            sla: SlaId::NONE,
            profile: ProfileId::NONE,
            class: ClassId::NONE,
            leaf: LeafId::NONE,
            in_port: PortId::NONE,
            out_port: PortId::NONE,
            direction: Direction::Forward,
            color: Color::Green,
            media: NO_MEDIA,
            home: 0,
            realtime: false,
            parsed: false,
            traced: false,
        }
    }
}
