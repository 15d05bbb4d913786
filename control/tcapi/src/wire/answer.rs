//! What servers send.

use super::request::{once, unknown};
use super::tlv::{self, Each, Value};
use super::{Malformed, part};
use perhop_reason::Code;

/// When the server took a request, and when it was in force, ns of the server's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Taken.
    pub received_ns: u64,
    /// In force.
    pub committed_ns: u64,
}

/// Why something was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Reason.
    pub code: Code,
    /// Where in the request, octets; 0 = as a whole.
    pub offset: u32,
    /// In words.
    pub message: String,
    /// The link that does not have it, by its port; empty = it is no matter of one.
    pub link: String,
    /// The class; empty likewise.
    pub class: String,
    /// What was asked for, bit/s.
    pub asked_bps: u64,
    /// What there is of it, bit/s.
    pub free_bps: u64,
    /// With [`Code::Overload`] and [`Code::BackendFailed`]: when to try again, ms; 0 = nobody knows.
    pub retry_after_ms: u32,
}

impl Refusal {
    /// For a reason, in words.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            offset: 0,
            message: message.into(),
            link: String::new(),
            class: String::new(),
            asked_bps: 0,
            free_bps: 0,
            retry_after_ms: 0,
        }
    }
}

impl From<Malformed> for Refusal {
    fn from(malformed: Malformed) -> Self {
        let offset = u32::try_from(malformed.at()).unwrap_or(u32::MAX);
        Self { offset, ..Self::new(malformed.code(), malformed.to_string()) }
    }
}

/// An answer: `ACK` without a refusal, `NACK` with one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Why not.
    pub refusal: Option<Refusal>,
    /// When; of what is in force.
    pub timing: Option<Timing>,
    /// The router's life: what was reserved in another is gone.
    pub router_epoch: u64,
}

impl Answer {
    pub(super) fn read(ack: bool, parts: Each<'_>) -> Result<Self, Malformed> {
        let (mut error, mut refused, mut timing, mut epoch) = (None, None, None, None);
        for item in parts {
            let (head, mut value) = item?;
            let at = value.at();
            match head.kind {
                part::ERROR => once(&mut error, head.kind, at, read_error(value)?)?,
                part::REFUSAL => once(&mut refused, head.kind, at, read_refusal(value)?)?,
                part::TIMING => {
                    let read = Timing { received_ns: value.u64()?, committed_ns: value.u64()? };
                    value.end()?;
                    once(&mut timing, head.kind, at, read)?;
                }
                part::EPOCH => {
                    let read = value.u64()?;
                    value.end()?;
                    once(&mut epoch, head.kind, at, read)?;
                }
                _ => unknown(head, value)?,
            }
        }
        let refusal = match (ack, error) {
            (true, _) => None,
            (false, None) => return Err(Malformed::Missing { kind: part::ERROR }),
            (false, Some((code, offset, message))) => {
                let plain = Refusal { offset, ..Refusal::new(code, message) };
                Some(refused.map_or(plain.clone(), |(asked_bps, free_bps, retry_after_ms, link, class)| {
                    Refusal { link, class, asked_bps, free_bps, retry_after_ms, ..plain }
                }))
            }
        };
        Ok(Self { refusal, timing, router_epoch: epoch.unwrap_or(0) })
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        if let Some(refusal) = &self.refusal {
            tlv::put(out, part::ERROR, true, |out| {
                out.extend(refusal.code.number().to_be_bytes());
                out.extend(refusal.offset.to_be_bytes());
                out.extend(refusal.message.as_bytes());
            });
            if (refusal.asked_bps, refusal.free_bps, refusal.retry_after_ms) != (0, 0, 0)
                || !refusal.link.is_empty()
                || !refusal.class.is_empty()
            {
                tlv::put(out, part::REFUSAL, false, |out| {
                    out.extend(refusal.asked_bps.to_be_bytes());
                    out.extend(refusal.free_bps.to_be_bytes());
                    out.extend(refusal.retry_after_ms.to_be_bytes());
                    tlv::put_text(out, &refusal.link);
                    tlv::put_text(out, &refusal.class);
                });
            }
        }
        if let Some(timing) = &self.timing {
            tlv::put(out, part::TIMING, false, |out| {
                out.extend(timing.received_ns.to_be_bytes());
                out.extend(timing.committed_ns.to_be_bytes());
            });
        }
        tlv::put(out, part::EPOCH, false, |out| out.extend(self.router_epoch.to_be_bytes()));
    }
}

fn read_error(mut value: Value<'_>) -> Result<(Code, u32, String), Malformed> {
    let code = Code::from_number(value.u16()?).ok_or_else(|| value.wrong())?;
    Ok((code, value.u32()?, value.rest_text()?.to_owned()))
}

fn read_refusal(mut value: Value<'_>) -> Result<(u64, u64, u32, String, String), Malformed> {
    let (asked, free, retry) = (value.u64()?, value.u64()?, value.u32()?);
    let (link, class) = (value.text()?.to_owned(), value.text()?.to_owned());
    value.end().map(|()| (asked, free, retry, link, class))
}
