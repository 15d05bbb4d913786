//! What a session may have, as access servers say it: by name, or in rates.
//!
//! `Filter-Id` (RFC 2865 section 5.11) names an SLA. WISPr's bandwidth attributes are bit/s in four octets, so at most
//! 4.29 Gbit/s. Mikrotik's rate limit is text from the access server's view: what it receives first (`rx`, the user's upload), then
//! what it sends; `k` and `M` are thousands and millions, and one rate alone is for both.

use crate::attribute::{Attribute, kind, vendor};
use crate::packet::{Packet, TooLong};
use perhop_units::Rate;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Authorization {
    /// Name of an SLA.
    pub sla: Option<String>,
    /// What the user sends, bit/s.
    pub up: Option<Rate>,
    /// What the user receives, bit/s.
    pub down: Option<Rate>,
}

impl Authorization {
    /// Of a packet. Where both vendors' attributes are there, WISPr's are taken. What cannot be read is as if it were not there.
    pub fn of(packet: &Packet) -> Self {
        let mut found = Self { sla: packet.text(kind::FILTER_ID).map(str::to_owned), ..Self::default() };
        let mut limit = (None, None);
        for attribute in packet.vendor_attributes() {
            let number = || attribute.value.try_into().ok().map(u32::from_be_bytes).filter(|bps| *bps > 0);
            let rate = || number().map(|bps| Rate(u64::from(bps)));
            match (attribute.vendor, attribute.kind) {
                (vendor::WISPR, vendor::WISPR_BANDWIDTH_MAX_UP) => found.up = found.up.or_else(rate),
                (vendor::WISPR, vendor::WISPR_BANDWIDTH_MAX_DOWN) => found.down = found.down.or_else(rate),
                (vendor::MIKROTIK, vendor::MIKROTIK_RATE_LIMIT) => {
                    let text = std::str::from_utf8(attribute.value).ok();
                    limit = text.and_then(rate_limit).map_or(limit, |(up, down)| (Some(up), Some(down)));
                }
                _ => {}
            }
        }
        Self { up: found.up.or(limit.0), down: found.down.or(limit.1), ..found }
    }

    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// As attributes, in every dialect that can say it: a rate beyond four octets is left to Mikrotik's.
    ///
    /// # Errors
    /// The name is longer than an attribute.
    pub fn attributes(&self) -> Result<Vec<Attribute>, TooLong> {
        let mut out = Vec::new();
        if let Some(sla) = &self.sla {
            if sla.len() > Attribute::MAX_VALUE {
                return Err(TooLong { octets: sla.len(), most: Attribute::MAX_VALUE });
            }
            out.push(Attribute::text(kind::FILTER_ID, sla));
        }
        let wispr =
            [(vendor::WISPR_BANDWIDTH_MAX_UP, self.up), (vendor::WISPR_BANDWIDTH_MAX_DOWN, self.down)];
        for (kind, rate) in wispr {
            if let Some(bps) = rate.and_then(|rate| u32::try_from(rate.0).ok()) {
                out.push(Attribute::of_vendor(vendor::WISPR, kind, &bps.to_be_bytes())?);
            }
        }
        if let (Some(up), Some(down)) = (self.up, self.down) {
            let text = format!("{}/{}", up.0, down.0);
            out.push(Attribute::of_vendor(vendor::MIKROTIK, vendor::MIKROTIK_RATE_LIMIT, text.as_bytes())?);
        }
        Ok(out)
    }
}

/// The first piece of Mikrotik's rate limit: up and down. `None` if it is none, or a rate of 0.
pub fn rate_limit(text: &str) -> Option<(Rate, Rate)> {
    let rate = |text: &str| {
        let (digits, factor) = match text.as_bytes().last()? {
            b'k' | b'K' => (&text[..text.len() - 1], 1_000),
            b'M' => (&text[..text.len() - 1], 1_000_000),
            b'G' => (&text[..text.len() - 1], 1_000_000_000),
            _ => (text, 1),
        };
        let is_number = digits.bytes().all(|octet| octet.is_ascii_digit());
        let number = digits.parse::<u64>().ok().filter(|_| is_number)?;
        number.checked_mul(factor).map(Rate).filter(|rate| *rate > Rate::ZERO && *rate <= Rate::MOST)
    };
    let first = text.split_whitespace().next()?;
    match first.split_once('/') {
        Some((up, down)) => Some((rate(up)?, rate(down)?)),
        None => rate(first).map(|both| (both, both)),
    }
}

#[cfg(test)]
#[path = "authorization_tests.rs"]
mod tests;
