//! The place of the domain in this process: empty while another instance leads.

use crate::domain::{Domain, Keeper};
use crate::peer::Between;
use crate::policy::Policies;
use perhop_broker::ledger::Refusal;
use perhop_reason::Code;
use std::sync::Arc;
use tokio::sync::watch;

/// See the module.
#[derive(Clone)]
pub struct Seat(watch::Sender<Option<Led>>);

/// A domain that is led here.
#[derive(Clone)]
pub(crate) struct Led {
    pub(crate) domain: Domain,
    pub(super) keeper: Arc<dyn Keeper>,
    /// What it has with neighbouring domains; none = it has none.
    pub(crate) between: Option<Between>,
    policies: Option<Policies>,
}

impl Led {
    pub(crate) fn policies(&self) -> Result<&Policies, Refusal> {
        let none = || Refusal::new(Code::Unsupported, "this domain has no policy");
        self.policies.as_ref().ok_or_else(none)
    }
}

impl Default for Seat {
    fn default() -> Self {
        Self(watch::Sender::new(None))
    }
}

impl Seat {
    /// Leads from now on, a domain without a policy.
    pub fn take(&self, domain: Domain, keeper: Arc<dyn Keeper>) {
        self.take_with(domain, keeper, None, None);
    }

    /// Leads from now on, reaches other domains like this, and has these policies.
    pub fn take_with(
        &self,
        domain: Domain,
        keeper: Arc<dyn Keeper>,
        between: Option<Between>,
        policies: Option<Policies>,
    ) {
        self.0.send_replace(Some(Led { domain, keeper, between, policies }));
    }

    /// Reaches other domains like this from now on, if it leads.
    pub fn reach(&self, between: Option<Between>) {
        self.0.send_modify(|led| {
            if let Some(led) = led {
                led.between = between;
            }
        });
    }

    /// Leads no more.
    pub fn leave(&self) {
        self.0.send_replace(None);
    }

    /// Who leads here from now on.
    pub(crate) fn watch(&self) -> watch::Receiver<Option<Led>> {
        self.0.subscribe()
    }

    pub(crate) fn led(&self) -> Result<Led, Refusal> {
        let led = self.0.borrow().clone();
        led.ok_or_else(|| Refusal {
            retry_after_ms: 1_000,
            ..Refusal::new(Code::HeldElsewhere, "another instance leads the domain")
        })
    }
}
