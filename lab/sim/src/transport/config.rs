//! What an endpoint is told of the transport that a scenario describes.

use perhop_scenario::{SlowStart, Tcp};
use perhop_tcp::{Algorithm, Config, CubicConfig, DelayedAck, RtoLimits, SlowStartExit};
use perhop_units::{Bytes, Duration};

/// Bytes of a segment that time-stamps take.
const STAMP_OPTION: u16 = 12;

/// What the endpoint is told.
pub(super) fn config_of(tcp: &Tcp) -> Result<Config, String> {
    let congestion = match tcp.congestion.as_str() {
        "newreno" | "reno" => Algorithm::NewReno,
        "cubic" => {
            let slow_start = match tcp.slow_start {
                SlowStart::Standard => SlowStartExit::AtLoss,
                SlowStart::HyStart => SlowStartExit::HyStart,
            };
            Algorithm::Cubic(CubicConfig { slow_start, ..CubicConfig::default() })
        }
        other => {
            return Err(format!(
                "no congestion control \"{other}\" in the simulator; there are newreno and cubic"
            ));
        }
    };
    let size = |bytes: Bytes| u32::try_from(bytes.get()).unwrap_or(u32::MAX);
    let standard = Config::default();
    let config = Config {
        // The model counts payload; the endpoint takes the options' room out of what it announces.
        mss: tcp.mss + if tcp.timestamps { STAMP_OPTION } else { 0 },
        initial_window: tcp.initial_window,
        send_buffer: size(tcp.send_buffer),
        receive_buffer: size(tcp.receive_buffer),
        congestion,
        sack: tcp.sack,
        rack: tcp.rack,
        timestamps: tcp.timestamps,
        window_scaling: tcp.window_scaling,
        ecn: tcp.ecn,
        delayed_ack: match tcp.delayed_ack {
            Some(timeout) => DelayedAck { segments: 2, timeout },
            None => DelayedAck { segments: 1, timeout: Duration::ZERO },
        },
        rto: RtoLimits { initial: tcp.initial_rto.max(tcp.min_rto), min: tcp.min_rto, ..standard.rto },
        ..standard
    };
    config.check().map_err(|e| e.to_string())?;
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_traffic::tcp::ENDLESS_BACKLOG_BYTES;

    #[test]
    fn an_endless_transfer_has_more_bytes_than_the_largest_buffers_hold() {
        let with = |size| Tcp { send_buffer: Bytes(size), receive_buffer: Bytes(size), ..Tcp::default() };
        let most = 1 << 30;
        assert!(config_of(&with(most)).is_ok() && config_of(&with(most + 1)).is_err());
        assert!(
            ENDLESS_BACKLOG_BYTES > 2 * most,
            "a path may hold what one buffer does, an application the other"
        );
    }
}
