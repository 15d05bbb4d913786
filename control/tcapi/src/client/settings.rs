//! What a client is told when it is made.

use perhop_units::Duration;

/// How a client behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Number of this instance: above that of each earlier one of the same client.
    pub epoch: u64,
    /// Which client it is; none = that of its user.
    pub client: Option<String>,
    /// Reservations that have a life time end together so many seconds after the last greeting; none = each by itself.
    pub lease_s: Option<u32>,
    /// Number of the first message: two that use one epoch must not share any.
    pub first_txn: u64,
    /// Remember what stands and have it back after a restart of the server.
    pub restore: bool,
    /// Messages on their way at the same time, at least 1. A server lets 4,096 wait.
    pub window: usize,
    /// Requests that wait to be sent; one more is refused as `overload`.
    pub waiting: usize,
    /// A server that owes an answer and says nothing for so long is gone.
    pub silence: Duration,
    /// A request without an outcome for so long has none.
    pub patience: Duration,
    /// Bound of the first pause between two connections, and the least pause after an `overload`.
    pub least_pause: Duration,
    /// Bound of all pauses between connections.
    pub most_pause: Duration,
}

impl Settings {
    /// What fits most, of an instance.
    pub fn of_epoch(epoch: u64) -> Self {
        Self {
            epoch,
            client: None,
            lease_s: None,
            first_txn: 1,
            restore: true,
            window: 1_024,
            waiting: 65_536,
            silence: Duration::from_secs(5),
            patience: Duration::from_secs(30),
            least_pause: Duration::from_millis(100),
            most_pause: Duration::from_secs(10),
        }
    }

    /// Whether there is something to be said or learned before anything else: a HELLO without a lease ends one that another process
    /// of the same instance may hold.
    pub(super) fn greets(&self) -> bool {
        self.restore || self.client.is_some() || self.lease_s.is_some()
    }

    /// The pause after so many failures: from the upper half of a time that doubles. Epochs are different, so many who lost one
    /// server do not come back together.
    pub(super) fn pause(&self, failures: u32) -> Duration {
        let doubled = self.least_pause.0.saturating_mul(1 << failures.min(20));
        let whole = doubled.min(self.most_pause.0);
        let half = whole / 2;
        // Fibonacci hashing: consecutive numbers land far apart.
        let word = self.epoch.wrapping_add(u64::from(failures)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Duration(half + (u128::from(word) * u128::from(whole - half) >> 64) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_their_bound_and_differ_between_instances() {
        let settings = Settings::of_epoch(7);
        for failures in 0..40 {
            let whole = Duration::from_millis(100 << failures.min(20)).min(settings.most_pause).0;
            let pause = settings.pause(failures).0;
            assert!(whole / 2 <= pause && pause <= whole, "{failures}: {pause} of {whole}");
        }
        assert_ne!(settings.pause(0), Settings::of_epoch(8).pause(0));
    }
}
