//! Speech codecs: their packets on the wire and their impairment in the E-model.
//!
//! Source: payload types and clock rates from RFC 3551 §6; impairment factors Ie and loss robustness Bpl from ITU-T
//! G.113 Appendix I (G.711 concealment as in G.711 Appendix I); payload sizes from the codecs' frame sizes.

use perhop_units::Duration;
use serde::{Deserialize, Serialize};

/// A codec as calls of the laboratory use it, one frame arrangement each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Codec {
    /// G.711 µ-law, 64 kbit/s, 20 ms a packet.
    #[serde(rename = "g711u")]
    G711U,
    /// G.711 A-law, 64 kbit/s, 20 ms a packet.
    #[serde(rename = "g711a")]
    G711A,
    /// G.729, 8 kbit/s, two 10 ms frames a packet.
    #[serde(rename = "g729")]
    G729,
    /// G.729 Annex A with voice activity detection (Annex B), 8 kbit/s, two 10 ms frames a packet.
    #[serde(rename = "g729ab")]
    G729AB,
    /// G.723.1 at 6.3 kbit/s (MP-MLQ), one 30 ms frame a packet.
    #[serde(rename = "g723.1-6.3")]
    G7231High,
    /// G.723.1 at 5.3 kbit/s (ACELP), one 30 ms frame a packet.
    #[serde(rename = "g723.1-5.3")]
    G7231Low,
}

/// A codec name that is not in the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownCodec {
    /// What was asked for.
    pub given: String,
}

impl std::fmt::Display for UnknownCodec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "unknown codec {:?}; known are ", self.given)?;
        for (i, codec) in Codec::ALL.iter().enumerate() {
            let separator = if i == 0 { "" } else { ", " };
            write!(f, "{separator}{}", codec.name())?;
        }
        Ok(())
    }
}

impl std::error::Error for UnknownCodec {}

impl Codec {
    /// Every codec of the table.
    pub const ALL: [Self; 6] =
        [Self::G711U, Self::G711A, Self::G729, Self::G729AB, Self::G7231High, Self::G7231Low];

    /// Name in files, options and results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::G711U => "g711u",
            Self::G711A => "g711a",
            Self::G729 => "g729",
            Self::G729AB => "g729ab",
            Self::G7231High => "g723.1-6.3",
            Self::G7231Low => "g723.1-5.3",
        }
    }

    /// RTP payload type (RFC 3551 table 4).
    pub const fn payload_type(self) -> u8 {
        match self {
            Self::G711U => 0,
            Self::G711A => 8,
            Self::G729 | Self::G729AB => 18,
            Self::G7231High | Self::G7231Low => 4,
        }
    }

    /// RTP clock rate in Hz; 8000 for every narrow-band codec here.
    pub const fn clock_rate_hz(self) -> u32 {
        8_000
    }

    /// Time between two packets, which is the speech time in one packet.
    pub const fn packet_interval(self) -> Duration {
        match self {
            Self::G711U | Self::G711A | Self::G729 | Self::G729AB => Duration::from_millis(20),
            Self::G7231High | Self::G7231Low => Duration::from_millis(30),
        }
    }

    /// RTP payload of one packet in bytes, without the 12-byte RTP header.
    pub const fn payload_bytes(self) -> u16 {
        match self {
            Self::G711U | Self::G711A => 160,
            Self::G729 | Self::G729AB | Self::G7231Low => 20,
            Self::G7231High => 24,
        }
    }

    /// RTP time-stamp step from one packet to the next, in units of the clock rate.
    pub const fn timestamp_step(self) -> u32 {
        (self.packet_interval().as_nanos() * self.clock_rate_hz() as u64 / 1_000_000_000) as u32
    }

    /// Speech the encoder must hear beyond the frame before it can code it (G.729: 5 ms, G.723.1: 7.5 ms).
    pub const fn look_ahead(self) -> Duration {
        match self {
            Self::G711U | Self::G711A => Duration::ZERO,
            Self::G729 | Self::G729AB => Duration::from_millis(5),
            Self::G7231High | Self::G7231Low => Duration::from_micros(7_500),
        }
    }

    /// Equipment impairment factor Ie without loss, 0 … 95.
    pub const fn equipment_impairment(self) -> f64 {
        match self {
            Self::G711U | Self::G711A => 0.0,
            Self::G729 => 10.0,
            Self::G729AB => 11.0,
            Self::G7231High => 15.0,
            Self::G7231Low => 19.0,
        }
    }

    /// Packet-loss robustness factor Bpl. Concealment is built into every codec here but G.711, where `concealment`
    /// says whether the receiver has it.
    pub const fn loss_robustness(self, concealment: bool) -> f64 {
        match self {
            Self::G711U | Self::G711A if concealment => 25.1,
            Self::G711U | Self::G711A => 4.3,
            Self::G729 | Self::G729AB => 19.0,
            Self::G7231High | Self::G7231Low => 16.1,
        }
    }
}

impl std::fmt::Display for Codec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Codec {
    type Err = UnknownCodec;

    /// Takes the names of [`Codec::name`] in any case, with or without dots, and the short forms `g711` (µ-law),
    /// `pcmu`, `pcma`, `g723`, `g723.1` (6.3 kbit/s).
    fn from_str(text: &str) -> Result<Self, UnknownCodec> {
        let key: String = text.trim().to_ascii_lowercase().chars().filter(|c| *c != '.').collect();
        match key.as_str() {
            "g711" | "g711u" | "pcmu" => Ok(Self::G711U),
            "g711a" | "pcma" => Ok(Self::G711A),
            "g729" => Ok(Self::G729),
            "g729ab" => Ok(Self::G729AB),
            "g723" | "g7231" | "g7231-63" => Ok(Self::G7231High),
            "g7231-53" => Ok(Self::G7231Low),
            _ => Err(UnknownCodec { given: text.to_owned() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_parses_back() {
        for codec in Codec::ALL {
            assert_eq!(codec.name().parse(), Ok(codec));
            assert_eq!(codec.name().to_uppercase().parse(), Ok(codec));
        }
        assert_eq!("g711".parse(), Ok(Codec::G711U));
        let error = "opus".parse::<Codec>().expect_err("not in the table");
        assert_eq!(
            error.to_string(),
            "unknown codec \"opus\"; known are g711u, g711a, g729, g729ab, g723.1-6.3, g723.1-5.3"
        );
    }

    /// Payload bits over packet interval must give the codec's nominal bit rate, rounded up to whole bytes a frame.
    #[test]
    fn payload_and_interval_give_the_nominal_bit_rate() {
        let nominal = [64_000.0, 64_000.0, 8_000.0, 8_000.0, 6_400.0, 5_333.3];
        for (codec, bit_s) in Codec::ALL.into_iter().zip(nominal) {
            let got = f64::from(codec.payload_bytes()) * 8.0 / codec.packet_interval().as_secs_f64();
            assert!((got - bit_s).abs() < 0.1, "{codec}: {got}");
        }
        assert_eq!(Codec::G711U.timestamp_step(), 160);
        assert_eq!(Codec::G7231Low.timestamp_step(), 240);
    }
}
