//! The ledger beside a database that is a few maps, and beside recounting everything.
#![forbid(unsafe_code)]

mod database;
mod domains;
mod oracle;
mod preempting;
mod rules;
mod schedules;
mod shortage;
mod writing;
