//! How a router's agent hears of what the router is to have: pieces of news in order, all of it or what changed.
//!
//! ```text
//!            begin               end: News
//!   Between ──────► Open(after) ───────────► Between
//!                     ⟲ objects
//! ```
//!
//! An agent that has something says what: the number of its last change, the edition that it is of, and that edition's digest. It is
//! told the changes behind that number if these are still known and its edition is one of the domain's; otherwise all of it.

use crate::reconcile::{Known, MAX_OBJECTS, News, is_of_policy};
use perhop_model::{Key, Kind, Name, Spec};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

/// Objects of one piece of news at most: a piece is a line, and a line is read whole.
pub const PIECE: usize = 500;

/// A piece of news.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FeedNews {
    /// Objects follow: all that the router is to have, or what changed behind a number.
    Begin {
        /// That number; none = all of it.
        after: Option<u64>,
    },
    /// Some of them.
    Objects(Vec<Fed>),
    /// That was all.
    End(Mark),
}

/// How far somebody is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Number of the last change.
    pub seq: u64,
    /// The edition that it is of; 0 = none yet.
    pub edition: u64,
    /// Digest of that edition's policy.
    pub sha256: String,
}

/// An object that is to be so, or not to be any more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fed {
    /// Kind.
    pub kind: Kind,
    /// Name.
    pub name: Name,
    /// What it is to be; none = it is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<Value>,
}

/// News that make no sense.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FeedError {
    /// Pieces in another order than they can come.
    #[error("news of the policy come in the wrong order")]
    Order,
    /// An object of a kind that a policy does not have, or whose specification is none of its kind.
    #[error("the policy wants {0}, which this agent does not understand")]
    Object(Key),
    /// More than [`MAX_OBJECTS`].
    #[error("the policy wants more than {MAX_OBJECTS} objects of one router")]
    TooMany,
    /// They follow another change than the last that is known.
    #[error("changes of the policy are missing behind {have}")]
    Gap {
        /// The last that is known.
        have: u64,
    },
}

/// Puts news together. What it gives fits behind what it gave before.
#[derive(Debug)]
pub struct Assembler {
    have: Mark,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    after: Option<u64>,
    changes: Vec<(Key, Option<Spec>)>,
}

impl Assembler {
    /// For somebody who has this.
    pub fn new(have: Mark) -> Self {
        Self { have, open: None }
    }

    /// How far what was given reaches.
    pub fn have(&self) -> &Mark {
        &self.have
    }

    /// What was begun is not continued: another conversation begins.
    pub fn interrupt(&mut self) {
        self.open = None;
    }

    /// Takes a piece; gives what is complete with it.
    ///
    /// # Errors
    /// [`FeedError`]; the conversation has to begin anew.
    pub fn take(&mut self, news: FeedNews) -> Result<Option<News>, FeedError> {
        match (news, &mut self.open) {
            (FeedNews::Begin { after }, None) => {
                if after.is_some_and(|after| after != self.have.seq) {
                    return Err(FeedError::Gap { have: self.have.seq });
                }
                self.open = Some(Open { after, changes: Vec::new() });
                Ok(None)
            }
            (FeedNews::Objects(fed), Some(open)) => {
                if open.changes.len() + fed.len() > MAX_OBJECTS {
                    return Err(FeedError::TooMany);
                }
                for one in fed {
                    open.changes.push(one.read()?);
                }
                Ok(None)
            }
            (FeedNews::End(mark), open @ Some(_)) => {
                let Some(Open { after, changes }) = open.take() else { return Err(FeedError::Order) };
                let (seq, edition) = (mark.seq, mark.edition);
                let news = match after {
                    Some(after) if seq < after => return Err(FeedError::Order),
                    Some(after) => News::Changes { after, seq, edition, changes },
                    None => {
                        let wanted =
                            changes.into_iter().filter_map(|(key, spec)| Some((key, spec?))).collect();
                        News::Whole(Known { seq, edition, wanted })
                    }
                };
                self.have = mark;
                Ok(Some(news))
            }
            _ => Err(FeedError::Order),
        }
    }
}

impl Fed {
    /// Of an object.
    pub fn of(key: &Key, spec: Option<&Spec>) -> Self {
        let spec = spec.and_then(|spec| serde_json::to_value(spec).ok());
        Self { kind: key.kind, name: key.name.clone(), spec }
    }

    /// The object.
    ///
    /// # Errors
    /// [`FeedError::Object`].
    pub fn read(self) -> Result<(Key, Option<Spec>), FeedError> {
        let key = Key { kind: self.kind, name: self.name };
        if !is_of_policy(&key) {
            return Err(FeedError::Object(key));
        }
        match self.spec.map(|spec| Spec::from_value(key.kind, &spec)).transpose() {
            Ok(spec) => Ok((key, spec)),
            Err(_) => Err(FeedError::Object(key)),
        }
    }
}

#[cfg(test)]
#[path = "feed_tests.rs"]
mod tests;
