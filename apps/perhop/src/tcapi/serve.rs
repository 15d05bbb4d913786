//! `perhop tcapi serve`: the traffic-control API where the kernel forwards.

use super::class::Class;
use crate::error::{AppError, Verdict};
use crate::output::progress;
use clap::{Args, ValueEnum};
use perhop_engine::{Handle, KernelShaper, ShaperConfig};
use perhop_model::Call;
use perhop_serve::{Clients, RouterApi, TcapiServer, claim_at};
use perhop_units::Rate;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};

/// What keeps the reservations.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Backend {
    /// The kernel's traffic control: HTB and u32
    Linux,
}

/// Arguments of `perhop tcapi serve`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  \
    perhop tcapi serve --backend linux --interface eth1 --socket /run/perhop/eth1.tcapi --rate \"100 Mbit/s\" \\\n    \
    --class \"voice=20 Mbit/s@ef\" --class \"video=30 Mbit/s\"\n\n\
    The interface gets a queueing discipline of ours until this ends. One that has somebody else's is left alone.")]
pub struct ServeArgs {
    /// What keeps the reservations
    #[arg(long, value_enum, default_value = "linux")]
    backend: Backend,
    /// Interface by which the packets leave
    #[arg(long, value_name = "IF")]
    interface: String,
    /// Socket to listen on
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    /// Rate of the interface, counted from the IP header on
    #[arg(long)]
    rate: Rate,
    /// A class and its guarantee, the most important first; number 1, 2, … in messages that have no name
    #[arg(long = "class", value_name = "NAME=GUARANTEE[@DSCP]", required = true)]
    classes: Vec<Class>,
}

struct Shaped(Handle);

impl RouterApi for Shaped {
    fn call(&self, call: Call) {
        self.0.call(call);
    }
}

/// Serves until it is stopped.
///
/// # Errors
/// The interface cannot be had, or the socket.
pub fn run(args: &ServeArgs) -> Result<Verdict, AppError> {
    let Backend::Linux = args.backend;
    let classes: Vec<_> = args.classes.iter().map(|class| class.0.clone()).collect();
    let numbers = (1..).zip(classes.iter().map(|class| class.name.clone())).collect();
    let claimed = claim_at(&args.socket)?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(AppError::Runtime)?;
    // Signals first: one that comes during the start must not leave the interface half changed.
    let (mut interrupt, mut terminate) = {
        let _inside = runtime.enter();
        let watch = |kind| signal(kind).map_err(AppError::Runtime);
        (watch(SignalKind::interrupt())?, watch(SignalKind::terminate())?)
    };
    let config =
        ShaperConfig { interface: args.interface.clone(), namespace: None, rate: args.rate, classes };
    let (shaper, handle) = KernelShaper::start(&config)?;
    let serving =
        TcapiServer::start_at(&claimed.path, Arc::new(Shaped(handle)), &Clients::default(), numbers)?;
    progress(format_args!("{}: reservations by {}", args.interface, claimed.path.display()));
    runtime.block_on(async {
        tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
    });
    drop(serving);
    drop(shaper);
    drop(claimed);
    Ok(Verdict::Done)
}
