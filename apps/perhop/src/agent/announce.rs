//! `perhop agent announce`: tells a running agent that a link will have another rate.

use super::listen::{Announcement, MAX_LINE, beside, clear_dead};
use crate::error::{AppError, Verdict};
use crate::output::{Output, progress};
use crate::remote::Remote;
use clap::Args;
use perhop_model::Name;
use perhop_units::{Duration, Rate};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;

/// Longest that a person waits for the agent.
const ANSWER: Duration = Duration::from_secs(5);

/// Arguments of `perhop agent announce`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example: perhop agent announce --link satellite --rate \"512 kbit/s\" --in \"5 s\"\n\n\
                        The rates of flows are lower before the link is, by the notice that the agent's file gives it."
)]
pub struct AnnounceArgs {
    /// The link, as the agent's file calls it
    #[arg(long, value_name = "NAME")]
    link: Name,
    /// Its rate from then on, for example "512 kbit/s"
    #[arg(long, allow_hyphen_values = true)]
    rate: Rate,
    /// When, from now
    #[arg(long, value_name = "TIME", default_value = "0 s", allow_hyphen_values = true)]
    r#in: Duration,
    /// The router that the agent looks after
    #[arg(long, value_name = "NAME")]
    router: Option<String>,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

/// Tells the agent.
///
/// # Errors
/// No agent listens there, or its answer is none.
pub fn run(args: &AnnounceArgs) -> Result<Verdict, AppError> {
    let remote = Remote::find(args.router.as_deref())?;
    let path = beside(remote.path());
    clear_dead(remote.path());
    let unreachable = |source| AppError::NoAgent { path: path.clone(), source };
    let mut stream = UnixStream::connect(&path).map_err(unreachable)?;
    stream.set_read_timeout(Some(ANSWER.to_std())).map_err(unreachable)?;
    let question =
        Announcement { link: args.link.clone(), rate: args.rate, in_ms: args.r#in.as_nanos() / 1_000_000 };
    writeln!(stream, "{}", serde_json::json!(question)).map_err(unreachable)?;
    let mut line = String::new();
    BufReader::new(stream.take(MAX_LINE)).read_line(&mut line).map_err(unreachable)?;
    let answer: Value = serde_json::from_str(&line).map_err(AppError::BadAnswer)?;
    let refused = answer["not_announced"]["error"]["message"].as_str();
    if args.json {
        let mut out = Output::new();
        out.json(&answer)?;
        out.flush()?;
    } else if refused.is_none() {
        progress(format_args!("link {}: {} in {}", args.link, args.rate, args.r#in));
    }
    refused.map_or(Ok(Verdict::Done), |why| {
        Err(AppError::NotAnnounced { link: args.link.to_string(), why: why.to_owned() })
    })
}
