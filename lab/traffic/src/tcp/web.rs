//! Web users in a closed loop: think, fetch a page, think again. A slow network makes them ask less.

use crate::error::TrafficError;
use crate::random::Generator;
use crate::size::LognormalSize;
use crate::source::{check_range, check_span};
use crate::tcp::job::{Exchange, Job, Volume, check_back_off};
use perhop_units::Duration;

/// How objects use connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Http {
    /// HTTP/1.0 (RFC 1945 §1.3): one connection for each object; the server closes behind its response.
    V1_0,
    /// HTTP/1.1 (RFC 9112 §9.3): one persistent connection for all objects of a page, asked for one after the other;
    /// the client closes behind the last response.
    V1_1,
}

/// Parameters of a set of users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WebConfig {
    /// Number of users, above 0.
    pub users: u16,
    /// Users begin to think.
    pub start: Duration,
    /// What has not ended is cut here.
    pub stop: Duration,
    /// Shortest think time. Think times are uniform, and the first comes before the first page.
    pub think_least: Duration,
    /// Longest think time.
    pub think_most: Duration,
    /// Sizes of objects.
    pub objects: LognormalSize,
    /// Objects of a page, above 0, fetched one after the other.
    pub objects_per_page: u16,
    /// Length of a request in bytes, above 0.
    pub request_bytes: u32,
    /// What the response has before the object, in bytes.
    pub response_header_bytes: u32,
    /// How objects use connections.
    pub http: Http,
    /// A user who has waited this long for an object aborts the connection; above 0, `None` for endless patience.
    pub patience: Option<Duration>,
    /// Time from a failure to the next attempt at the same object, at least [`crate::tcp::MIN_BACK_OFF`].
    pub back_off: Duration,
    /// Number of this application in the run; its randomness follows from it and the seed.
    pub group: u16,
}

impl WebConfig {
    /// One client of the published measurements (Huttunen 2005): 55 users, 0 to 12 s of thinking, one object a page
    /// of geometric mean 10 kB, HTTP/1.0; from the beginning of the run without end. Sigma, a request of 180 B, a
    /// response header of 250 B, endless patience and a back-off of 1 s are ours.
    pub const SIEGE_CLIENT: Self = Self {
        users: 55,
        start: Duration::ZERO,
        stop: Duration::MAX,
        think_least: Duration::ZERO,
        think_most: Duration::from_secs(12),
        objects: LognormalSize::WEB_OBJECT,
        objects_per_page: 1,
        request_bytes: 180,
        response_header_bytes: 250,
        http: Http::V1_0,
        patience: None,
        back_off: Duration::from_secs(1),
        group: 0,
    };

    pub(crate) fn check(&self) -> Result<(), TrafficError> {
        check_span(self.start, self.stop)?;
        check_back_off(self.back_off)?;
        check_range("number of users", u64::from(self.users), 1, u64::from(u16::MAX))?;
        check_range("objects per page", u64::from(self.objects_per_page), 1, u64::from(u16::MAX))?;
        let (least, most) = (self.think_least.as_nanos(), self.think_most.as_nanos());
        check_range("longest think time in ns", most, least, 86_400_000_000_000)?;
        if self.request_bytes == 0 {
            return Err(TrafficError::Zero { what: "length of a request" });
        }
        if self.patience == Some(Duration::ZERO) {
            return Err(TrafficError::Zero { what: "patience" });
        }
        self.objects.check()
    }
}

/// What the users do next.
#[derive(Clone, Debug)]
pub(crate) struct WebPlan {
    config: WebConfig,
    /// Objects left of each user's page.
    left: Vec<u16>,
}

impl WebPlan {
    pub(crate) fn new(config: WebConfig) -> Self {
        Self { config, left: vec![0; usize::from(config.users)] }
    }

    pub(crate) fn job(&mut self, slot: u16, generator: &mut Generator) -> Option<Job> {
        let c = &self.config;
        let left = self.left.get_mut(usize::from(slot))?;
        let page_begins = *left == 0;
        let wait = if page_begins {
            *left = c.objects_per_page;
            generator.between(c.think_least, c.think_most)
        } else {
            Duration::ZERO
        };
        *left = left.saturating_sub(1);
        let object = c.objects.draw(generator);
        let exchange = Exchange {
            request: Volume::Bytes(u64::from(c.request_bytes)),
            response: Volume::Bytes(object + u64::from(c.response_header_bytes)),
            sender_closes: c.http == Http::V1_0,
        };
        let reuse = c.http == Http::V1_1 && !page_begins;
        Some(Job { wait, reuse, exchange, page_ends: *left == 0 })
    }
}
