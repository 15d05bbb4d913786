//! Clients that reserve, change, renew and release at random, and crash: whatever protocol they speak.

use super::books::{Books, Known, count};
use super::draw::{Draw, now_ms};
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Reservations of one client at a time.
const MOST: usize = 12;
/// How long a client asks again for the same before it gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// A reservation that a client wants.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub key: String,
    pub from: &'static str,
    pub to: &'static str,
    pub class: &'static str,
    pub bps: u64,
    pub back_bps: Option<u64>,
    pub lifetime_ms: u64,
}

/// A reservation as an answer has it.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    pub id: u64,
    pub bps: u64,
    pub expires_ms: u64,
}

/// A refusal for good.
#[derive(Clone, Debug)]
pub struct Refused {
    /// As in HTTP.
    pub status: u16,
    /// With code, link, class, what was asked and what is free.
    pub refusal: Value,
}

/// What became of a request.
#[derive(Clone, Debug)]
pub enum Outcome<T> {
    Done(T),
    Refused(Refused),
    /// Nobody answered, or not now: the same may be asked again.
    Unknown,
}

/// A protocol by which a domain is asked.
pub trait Asking: Send {
    fn reserve(&mut self, wanted: &Wanted) -> Outcome<Held>;
    fn change(&mut self, id: u64, bps: u64) -> Outcome<Held>;
    fn renew(&mut self, id: u64) -> Outcome<Held>;
    fn release(&mut self, id: u64) -> Outcome<()>;
    /// Its connection is gone without a word.
    fn crash(&mut self);
}

/// Where and for how much clients ask.
pub struct Field {
    pub edges: &'static [&'static str],
    pub classes: &'static [&'static str],
    /// Shortest and longest life, ms.
    pub lives: (u64, u64),
}

pub struct Client<'a> {
    pub number: u64,
    pub owner: String,
    pub asking: Box<dyn Asking>,
    pub draw: Draw,
    pub books: &'a Books,
    pub field: &'a Field,
    pub mine: Vec<(u64, Wanted, Known)>,
    pub made: u64,
}

impl Client<'_> {
    pub fn run(&mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            let now = now_ms();
            self.mine.retain(|(_, _, known)| known.expires_ms > now);
            match self.draw.below(10) {
                _ if self.mine.is_empty() => self.reserve(),
                0..4 if self.mine.len() < MOST => self.reserve(),
                0..6 => self.release(),
                6 => self.change(),
                7 => self.renew(),
                8 => self.again(),
                _ if self.draw.one_in(10) => self.crash(),
                _ => {}
            }
            std::thread::sleep(Duration::from_millis(self.draw.below(40)));
        }
    }

    /// Asks until there is an answer for good, none = the client crashes before, or nobody answers.
    fn until<T>(&mut self, mut ask: impl FnMut(&mut dyn Asking) -> Outcome<T>) -> Option<Result<T, Refused>> {
        let end = Instant::now() + PATIENCE;
        loop {
            match ask(&mut *self.asking) {
                Outcome::Done(done) => return Some(Ok(done)),
                // Too many wait, or too often.
                Outcome::Refused(refused) if refused.status == 429 => {}
                Outcome::Refused(refused) => {
                    count(&self.books.counts.refused);
                    return Some(Err(refused));
                }
                Outcome::Unknown => count(&self.books.counts.unknown),
            }
            if self.draw.one_in(40) {
                count(&self.books.counts.forgotten);
                return None;
            }
            if Instant::now() > end {
                self.books.fail(format!("client {} is not answered in {PATIENCE:?}", self.number));
                return None;
            }
            std::thread::sleep(Duration::from_millis(20 + self.draw.below(80)));
        }
    }

    fn reserve(&mut self) {
        let (edges, classes) = (self.field.edges, self.field.classes);
        let from = self.draw.below(edges.len() as u64);
        let to = (from + 1 + self.draw.below(edges.len() as u64 - 1)) % edges.len() as u64;
        let (least, most) = self.field.lives;
        self.made += 1;
        let wanted = Wanted {
            key: format!("{}-{}", self.number, self.made),
            from: edges[from as usize],
            to: edges[to as usize],
            class: classes[self.draw.below(classes.len() as u64) as usize],
            bps: 1_000 * (1 + self.draw.below(100)),
            back_bps: self.draw.one_in(3).then(|| 1_000 * (1 + self.draw.below(100))),
            lifetime_ms: least + self.draw.below(most - least),
        };
        match self.until(|asking| asking.reserve(&wanted)) {
            Some(Ok(held)) => {
                count(&self.books.counts.granted);
                self.took(held, &wanted, wanted.back_bps);
            }
            Some(Err(refused)) => self.check_refusal(&refused, Some(&wanted)),
            None => {}
        }
    }

    fn took(&mut self, held: Held, wanted: &Wanted, back_bps: Option<u64>) {
        let (owner, key) = (self.owner.clone(), wanted.key.clone());
        let known = Known { owner, key, bps: held.bps, back_bps, expires_ms: held.expires_ms };
        self.mine.retain(|(id, ..)| *id != held.id);
        self.mine.push((held.id, wanted.clone(), known.clone()));
        self.books.hold(held.id, known);
    }

    /// One of its own, of which nothing is known from now on.
    fn pick(&mut self) -> (u64, Wanted, Known) {
        let at = self.draw.below(self.mine.len() as u64) as usize;
        let picked = self.mine.swap_remove(at);
        self.books.let_go(picked.0);
        picked
    }

    fn release(&mut self) {
        let (id, ..) = self.pick();
        match self.until(|asking| asking.release(id)) {
            // It may have been given back by a request whose answer was lost, or its life was over.
            Some(Ok(()) | Err(Refused { status: 404, .. })) => {
                count(&self.books.counts.released);
                self.books.end(id);
            }
            Some(Err(refused)) => self.books.fail(format!("{id} cannot be given back: {refused:?}")),
            None => {}
        }
    }

    fn change(&mut self) {
        let (id, wanted, known) = self.pick();
        let bps = 1_000 * (1 + self.draw.below(120));
        match self.until(|asking| asking.change(id, bps)) {
            Some(Ok(held)) => {
                count(&self.books.counts.changed);
                if held.bps != bps {
                    self.books.fail(format!("{id} has {held:?} and not {bps} bit/s"));
                }
                self.took(held, &wanted, known.back_bps);
            }
            Some(Err(refused)) if refused.status == 404 => self.must_be_over(id, &known),
            Some(Err(refused)) => {
                self.check_refusal(&refused, None);
                // It is as it was: a refusal changes nothing.
                let held = Held { id, bps: known.bps, expires_ms: known.expires_ms };
                self.took(held, &wanted, known.back_bps);
            }
            None => {}
        }
    }

    fn renew(&mut self) {
        let (id, wanted, known) = self.pick();
        match self.until(|asking| asking.renew(id)) {
            Some(Ok(held)) => self.took(held, &wanted, known.back_bps),
            Some(Err(refused)) if refused.status == 404 => self.must_be_over(id, &known),
            Some(Err(refused)) => self.books.fail(format!("{id} cannot be renewed: {refused:?}")),
            None => {}
        }
    }

    /// The same request with the same key: the same reservation, while it lives.
    fn again(&mut self) {
        let (id, wanted, known) = self.pick();
        match self.until(|asking| asking.reserve(&wanted)) {
            Some(Ok(held)) if held.id == id && held.bps != known.bps => {
                self.books.fail(format!("{id} was told as {known:?} and is {held:?}"));
            }
            Some(Ok(held)) if held.id == id => self.took(held, &wanted, known.back_bps),
            Some(Ok(other)) => {
                self.must_be_over(id, &known);
                self.took(other, &wanted, wanted.back_bps);
            }
            Some(Err(refused)) => {
                self.must_be_over(id, &known);
                self.check_refusal(&refused, Some(&wanted));
            }
            None => {}
        }
    }

    /// Everything of it is forgotten, and its reservations are left to the end of their lives.
    fn crash(&mut self) {
        self.asking.crash();
        for (id, ..) in self.mine.drain(..) {
            self.books.let_go(id);
            count(&self.books.counts.forgotten);
        }
    }

    fn must_be_over(&self, id: u64, known: &Known) {
        let now = now_ms();
        if known.expires_ms > now {
            self.books.fail(format!("{id} is gone {} ms before its time: {known:?}", known.expires_ms - now));
        }
    }

    /// A refusal for want of capacity says where, of what, how much was asked and how much there is.
    fn check_refusal(&self, refused: &Refused, wanted: Option<&Wanted>) {
        let refusal = &refused.refusal;
        let number = |key: &str| refusal[key].as_u64();
        let good = match refusal["code"].as_str() {
            Some("no_capacity") => {
                let class = wanted.is_none_or(|wanted| refusal["class"] == wanted.class);
                refusal["link"].as_str().is_some_and(|link| link.contains('/'))
                    && class
                    && number("asked_bps") > number("free_bps")
            }
            Some("quota") => true,
            // It was granted, and its life was over before the answer was.
            Some("not_found") => refused.status == 404,
            _ => false,
        };
        if !good {
            self.books.fail(format!("refused: {refused:?} of {wanted:?}"));
        }
    }
}
