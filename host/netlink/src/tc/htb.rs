//! Classes of the hierarchical token bucket (tc-htb(8)).

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::TcMessage;
use perhop_units::{Bytes, Rate};

use super::ratespec::KernelRate;
use super::{Handle, Parts, Statistics, attribute, push_attribute, word};
use crate::connection::Netlink;
use crate::error::NetlinkError;

const HTB_PARMS: u16 = 1;
const HTB_RATE64: u16 = 6;
const HTB_CEIL64: u16 = 7;
/// `TC_HTB_NUMPRIO`.
const PRIORITIES: u32 = 8;

/// Parameters of an HTB class. Rates count Ethernet headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HtbClass {
    /// Guaranteed rate, at least 8 bit/s.
    pub rate: Rate,
    /// Most that it may borrow up to; not below `rate`.
    pub ceil: Rate,
    /// Bucket of the guarantee. Reads back up to one 64 ns tick larger.
    pub burst: Bytes,
    /// Bucket of the ceiling; likewise.
    pub cburst: Bytes,
    /// 0 (first) to 7: who is offered unused rate first.
    pub priority: u32,
    /// Bytes per round among equals; 0 lets the kernel derive it from the rate.
    pub quantum: u32,
}

impl HtbClass {
    /// Whether the kernel can hold these parameters.
    ///
    /// # Errors
    /// [`NetlinkError::OutOfRange`].
    pub fn check(&self) -> Result<(), NetlinkError> {
        self.options("check class").map(drop)
    }

    pub(super) fn options(&self, operation: &'static str) -> Result<Vec<u8>, NetlinkError> {
        let out_of_range =
            |field, value, allowed| Err(NetlinkError::OutOfRange { operation, field, value, allowed });
        if self.priority >= PRIORITIES {
            return out_of_range("priority", self.priority.into(), "0 to 7");
        }
        if self.ceil < self.rate {
            return out_of_range("ceil", self.ceil.bits_per_sec(), "the rate and above");
        }
        let rate = KernelRate::new(operation, "rate", self.rate)?;
        let ceil = KernelRate::new(operation, "ceil", self.ceil)?;
        // struct tc_htb_opt: rate, ceil, buffer, cbuffer, quantum, level, prio.
        let mut parms = Vec::from(rate.spec());
        parms.extend(ceil.spec());
        for word in [
            rate.ticks(operation, "burst", self.burst)?,
            ceil.ticks(operation, "cburst", self.cburst)?,
            self.quantum,
            0,
            self.priority,
        ] {
            parms.extend(word.to_ne_bytes());
        }
        let mut bytes = Vec::new();
        push_attribute(&mut bytes, HTB_PARMS, &parms);
        for (kind, rate) in [(HTB_RATE64, rate), (HTB_CEIL64, ceil)] {
            if let Some(wide) = rate.wide() {
                push_attribute(&mut bytes, kind, &wide);
            }
        }
        Ok(bytes)
    }

    fn read(raw: &[u8]) -> Option<Self> {
        let parms = attribute(raw, HTB_PARMS)?;
        let rate = KernelRate::read(word(&parms, 2)?, attribute(raw, HTB_RATE64).as_deref());
        let ceil = KernelRate::read(word(&parms, 5)?, attribute(raw, HTB_CEIL64).as_deref());
        Some(Self {
            rate: rate.rate(),
            ceil: ceil.rate(),
            burst: rate.burst(word(&parms, 6)?),
            cburst: ceil.burst(word(&parms, 7)?),
            quantum: word(&parms, 8)?,
            priority: word(&parms, 10)?,
        })
    }
}

/// The parameters of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClassSpec {
    /// A class of HTB.
    Htb(HtbClass),
    /// A class of a kind that is not typed here.
    Other(String),
}

/// A class of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// Interface index.
    pub ifindex: u32,
    /// Its name.
    pub handle: Handle,
    /// The class above; [`Handle::ROOT`] directly under the qdisc.
    pub parent: Handle,
    /// Kind and parameters.
    pub spec: ClassSpec,
    /// Counters.
    pub stats: Statistics,
}

impl Netlink {
    /// Adds an HTB class under `parent`: the qdisc (`1:0`) or another class.
    ///
    /// # Errors
    /// EEXIST; ENOENT when there is no such qdisc;
    /// [`NetlinkError::OutOfRange`].
    pub fn add_class(
        &self,
        name: &str,
        parent: Handle,
        handle: Handle,
        class: &HtbClass,
    ) -> Result<(), NetlinkError> {
        self.put_class("add class", name, parent, handle, class, NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Changes the rates, bursts and priority of a class; what waits in it
    /// stays.
    ///
    /// # Errors
    /// ENOENT when there is no such class; as [`Netlink::add_class`].
    pub fn change_class(
        &self,
        name: &str,
        parent: Handle,
        handle: Handle,
        class: &HtbClass,
    ) -> Result<(), NetlinkError> {
        self.put_class("change class", name, parent, handle, class, 0)
    }

    fn put_class(
        &self,
        operation: &'static str,
        name: &str,
        parent: Handle,
        handle: Handle,
        class: &HtbClass,
        flags: u16,
    ) -> Result<(), NetlinkError> {
        let message = self.tc_message(name, parent, handle, "htb", Some(class.options(operation)?))?;
        let object = format!("{handle} of {name}");
        self.request(operation, &object, RouteNetlinkMessage::NewTrafficClass(message), flags)
    }

    /// Deletes a class; what waits in it is dropped.
    ///
    /// # Errors
    /// EBUSY while it has classes or filters point to it; ENOENT.
    pub fn delete_class(&self, name: &str, handle: Handle) -> Result<(), NetlinkError> {
        let message = self.tc_message(name, Handle::NONE, handle, "", None)?;
        let object = format!("{handle} of {name}");
        self.request("delete class", &object, RouteNetlinkMessage::DelTrafficClass(message), 0)
    }

    /// The classes of interface `name`.
    ///
    /// # Errors
    /// [`NetlinkError::NoSuchInterface`].
    pub fn classes(&self, name: &str) -> Result<Vec<Class>, NetlinkError> {
        let message = self.tc_message(name, Handle::NONE, Handle::NONE, "", None)?;
        let message = RouteNetlinkMessage::GetTrafficClass(message);
        self.dump("list classes", name, &message, |answer| match answer {
            RouteNetlinkMessage::NewTrafficClass(m) => Some(read_class(&m)),
            _ => None,
        })
    }
}

fn read_class(message: &TcMessage) -> Class {
    let parts = Parts::of(message);
    let htb = if parts.kind == "htb" { HtbClass::read(&parts.raw_options()) } else { None };
    Class {
        ifindex: parts.ifindex,
        handle: parts.handle,
        parent: parts.parent,
        spec: htb.map_or_else(|| ClassSpec::Other(parts.kind.into()), ClassSpec::Htb),
        stats: parts.stats,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_that_the_kernel_cannot_hold_are_refused_by_name() {
        let good = HtbClass {
            rate: Rate::from_mbit(1),
            ceil: Rate::from_mbit(2),
            burst: Bytes(3000),
            cburst: Bytes(3000),
            priority: 7,
            quantum: 0,
        };
        let back = HtbClass::read(&good.options("test").unwrap()).unwrap();
        assert_eq!(back, good, "exact here: a tick carries less than a byte");
        for (bad, field) in [
            (HtbClass { priority: 8, ..good }, "priority"),
            (HtbClass { rate: Rate::ZERO, ..good }, "rate"),
            (HtbClass { ceil: Rate::from_kbit(1), ..good }, "ceil"),
            (HtbClass { burst: Bytes(u64::MAX), ..good }, "burst"),
        ] {
            let error = bad.options("test").unwrap_err().to_string();
            assert!(error.contains(field), "{error}");
        }
        assert_eq!(HtbClass::read(&[1, 2, 3]), None, "short input is no panic");
    }
}
