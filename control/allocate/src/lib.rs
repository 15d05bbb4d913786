//! How much bandwidth a class gets now.
//!
//! Pure: every function takes what was measured and the time, and says what to ask for. Nothing here knows a router;
//! the agent carries measurements in and requests out.
//!
//! # How a class is run
//! 1. [`Settings`] say everything: range, meter, law, congestion control, patience with the broker.
//!    [`Allocator::new`] checks them ([`Stability`]); [`Unstable`] tells all violations at once, each with the nearest
//!    admissible value, and a whole configuration that would pass.
//! 2. The first output is [`Output::Allocate`] with the initial allocation.
//! 3. At [`Allocator::next_wakeup`] read the class's counters and give [`Input::Reading`] (or [`Input::Counted`] with a
//!    difference). A reading at any wake-up is right: the interval closes when its time is over. [`Input::Tick`] serves
//!    where nothing was read. After every input poll all outputs.
//! 4. Give [`Input::Queue`] as often as the queue can be read, best every [`CongestionConfig::sampling`]; while none is
//!    given there is no congestion control.
//! 5. [`Output::Ask`] goes to a [`Broker`]; its answer comes back as [`Input::Answer`] with the same id. At most one is
//!    in flight, and the machine itself gives up after its time-out. [`Output::Allocate`] is what the router must
//!    enforce from now on.
//!
//! ```
//! use perhop_allocate::{Allocator, Answer, Input, Output, Settings};
//! use perhop_units::{Instant, Rate};
//!
//! let settings = Settings::new(Rate::from_kbit(64), Rate::from_mbit(10));
//! let mut class = Allocator::new(&settings, Instant::ZERO)?;
//! assert_eq!(class.poll_output(), Some(Output::Allocate(Rate::from_kbit(64))));
//!
//! let now = class.next_wakeup().expect("a class always measures");
//! class.handle_input(now, Input::Counted { bits: 51_200, carried: None });
//! let Some(Output::Ask { id, rate, .. }) = class.poll_output() else { panic!("the class is full") };
//! class.handle_input(now, Input::Answer { id, answer: Answer::Granted(rate) });
//! assert_eq!(class.poll_output(), Some(Output::Allocate(rate)));
//! # Ok::<(), perhop_allocate::Unstable>(())
//! ```
//!
//! [`max_min()`] divides the bandwidth of links between flows of TCP that are held at a rate.
//!
//! [`tune`] finds good thresholds for given traffic, and [`fluid`] is a model of traffic to try them on.
//!
//! Source: L. Calarco, "Software Techniques for Multiservice IP Networks", chapters IV and V.
#![forbid(unsafe_code)]

pub mod allocator;
pub mod bounds;
pub mod broker;
pub mod congestion;
pub mod counters;
pub mod fluid;
pub mod logarithmic;
pub mod max_min;
mod random;
mod request;
pub mod settings;
pub mod stability;
pub mod threshold;
pub mod tune;
pub mod window;

pub use allocator::{Allocator, Answer, Input, Output, step_many};
pub use bounds::Bounds;
pub use broker::{
    Broker, BrokerAnswer, BrokerAsk, ClassId, EmulatedBroker, EmulatedBrokerConfig, ScriptedAnswer,
};
pub use congestion::CongestionConfig;
pub use counters::{Counters, Efficiency};
pub use logarithmic::LogarithmicConfig;
pub use max_min::{Group, Overcommitted, max_min};
pub use random::{Random, SplitMix64};
pub use request::AskId;
pub use settings::{Law, Patience, Settings};
pub use stability::{Stability, Unstable, Violation};
pub use threshold::ThresholdConfig;
pub use window::{Metering, WindowConfig};
