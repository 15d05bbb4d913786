//! The place of the domain in this process: empty while another instance leads.

use crate::domain::{Domain, Keeper};
use perhop_broker::ledger::Refusal;
use perhop_reason::Code;
use std::sync::{Arc, PoisonError, RwLock};

/// See the module.
#[derive(Clone, Default)]
pub struct Seat(Arc<RwLock<Option<Led>>>);

/// A domain that is led here.
#[derive(Clone)]
pub(super) struct Led {
    pub(super) domain: Domain,
    pub(super) keeper: Arc<dyn Keeper>,
}

impl Seat {
    /// Leads from now on.
    pub fn take(&self, domain: Domain, keeper: Arc<dyn Keeper>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(Led { domain, keeper });
    }

    /// Leads no more.
    pub fn leave(&self) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    pub(super) fn led(&self) -> Result<Led, Refusal> {
        let led = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        led.ok_or_else(|| Refusal {
            retry_after_ms: 1_000,
            ..Refusal::new(Code::HeldElsewhere, "another instance leads the domain")
        })
    }
}
