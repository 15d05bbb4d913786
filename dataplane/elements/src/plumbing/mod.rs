//! Ports, tees, counters, sources and sinks.

pub mod check_frame;
pub mod counter;
pub mod discard;
pub mod frames;
pub mod from_port;
pub mod port_switch;
pub mod reader;
pub mod set_class;
pub mod source;
pub mod tee;
pub mod to_host;
pub mod to_port;

pub use check_frame::CheckFrame;
pub use counter::Counter;
pub use discard::Discard;
pub use frames::UdpFrame;
pub use from_port::FromPort;
pub use port_switch::PortSwitch;
pub use set_class::SetClass;
pub use source::{RandomSource, TimedSource};
pub use tee::Tee;
pub use to_host::ToHost;
pub use to_port::ToPort;

use perhop_element::ElementType;

/// Registered types of this module.
pub fn types() -> Vec<ElementType> {
    vec![
        check_frame::TYPE,
        counter::TYPE,
        discard::TYPE,
        from_port::TYPE,
        port_switch::TYPE,
        set_class::TYPE,
        source::RANDOM,
        source::TIMED,
        tee::TYPE,
        to_host::TYPE,
        to_port::TYPE,
    ]
}
