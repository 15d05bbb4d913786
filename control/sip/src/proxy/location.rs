//! Where users are: as registrations that passed by have said (RFC 3261 §10.2), each with the flow that it came by.

use crate::message::{Message, Name, NameAddr, scan};
use crate::peer::Peer;
use perhop_units::{Duration, Instant};
use std::collections::{BTreeMap, BTreeSet};

/// What a registration holds if nothing says how long (§10.2.1.1 leaves it to the registrar; 3,600 s is the example of §20.19).
const DEFAULT_EXPIRY_S: u64 = 3_600;

/// A place where somebody is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The URI of the contact.
    pub uri: Vec<u8>,
    /// Where the registration came from, which is where requests go.
    pub peer: Peer,
    until: Instant,
}

/// All places that were learnt.
#[derive(Debug)]
pub struct Locations {
    records: BTreeMap<Vec<u8>, Vec<Binding>>,
    /// Flows by contact, for requests that another proxy sends to the contact itself.
    contacts: BTreeMap<Vec<u8>, Peer>,
    due: BTreeSet<(Instant, Vec<u8>)>,
    most_records: usize,
    most_contacts: usize,
}

impl Locations {
    /// None yet; at most so many records and contacts of each.
    pub fn new(most_records: usize, most_contacts: usize) -> Self {
        let (records, contacts, due) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        Self { records, contacts, due, most_records, most_contacts }
    }

    /// From now on at most so many; what there is stays.
    pub fn limit(&mut self, most_records: usize, most_contacts: usize) {
        (self.most_records, self.most_contacts) = (most_records, most_contacts);
    }

    /// Where the owner of a record is now.
    pub fn find(&self, now: Instant, record: &[u8]) -> impl Iterator<Item = &Binding> {
        self.records.get(record).into_iter().flatten().filter(move |binding| binding.until > now)
    }

    /// The flow of a contact.
    pub fn flow(&self, contact: &[u8]) -> Option<Peer> {
        self.contacts.get(contact).copied()
    }

    /// How many records there are.
    pub fn records(&self) -> usize {
        self.records.len()
    }

    /// A registration of `peer` was accepted. What the registrar says of times counts, and only contacts that the request names are
    /// learnt: others came by other flows.
    pub fn learn(&mut self, now: Instant, peer: Peer, request: &Message, response: &Message) {
        let Some(to) = request.value(Name::To).and_then(NameAddr::read) else { return };
        let record = to.uri.record();
        let expiry = |message: &Message| {
            message.value(Name::Expires).and_then(|v| scan::number(v, u64::from(u32::MAX)))
        };
        if request.value(Name::Contact) == Some(b"*") && expiry(request) == Some(0) {
            self.set(&record, Vec::new());
            return;
        }
        let mut bindings = self.records.get(&record).cloned().unwrap_or_default();
        bindings.retain(|b| b.until > now);
        for contact in request.contacts().flatten() {
            let of =
                |c: &NameAddr<'_>| c.params.get("expires").and_then(|v| scan::number(v, u64::from(u32::MAX)));
            let asked = of(&contact).or(expiry(request)).unwrap_or(DEFAULT_EXPIRY_S);
            let granted = response.contacts().flatten().find(|c| c.uri.text == contact.uri.text);
            let seconds = match granted {
                Some(granted) => of(&granted).or(expiry(response)).unwrap_or(asked),
                None => 0,
            };
            bindings.retain(|b| b.uri != contact.uri.text);
            if seconds > 0 && bindings.len() < self.most_contacts {
                let until = now + Duration::from_secs(seconds.min(u64::from(u32::MAX)));
                bindings.push(Binding { uri: contact.uri.text.to_vec(), peer, until });
            }
        }
        if self.records.len() < self.most_records || self.records.contains_key(&record) {
            self.set(&record, bindings);
        }
    }

    fn set(&mut self, record: &[u8], bindings: Vec<Binding>) {
        for old in self.records.remove(record).into_iter().flatten() {
            self.contacts.remove(&old.uri);
            self.due.remove(&(old.until, record.to_vec()));
        }
        if bindings.is_empty() {
            return;
        }
        for new in &bindings {
            self.contacts.insert(new.uri.clone(), new.peer);
            self.due.insert((new.until, record.to_vec()));
        }
        self.records.insert(record.to_vec(), bindings);
    }

    /// Forgets what is over.
    pub fn wake(&mut self, now: Instant) {
        while let Some((until, record)) = self.due.first().cloned().filter(|(until, _)| *until <= now) {
            self.due.remove(&(until, record.clone()));
            let left = self.find(now, &record).cloned().collect();
            self.set(&record, left);
        }
    }

    /// When [`Self::wake`] has something to do.
    pub fn next_wakeup(&self) -> Option<Instant> {
        self.due.first().map(|(until, _)| *until)
    }
}
