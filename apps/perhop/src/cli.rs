//! The command line as a whole. A new subcommand is one line in [`Command`] and one in [`Command::run`].

use crate::error::{AppError, Verdict};
use crate::{
    abr, agent, bench, classify, completions, controller, cops, lab, man, pki, policy, reserve, router, show,
    sip_proxy, tcapi, user,
};
use clap::{CommandFactory, Parser, Subcommand};

/// A DiffServ router that keeps calls usable on a congested link without any help from the applications.
#[derive(Debug, Parser)]
#[command(name = "perhop", version, propagate_version = true, disable_help_subcommand = true)]
#[command(after_help = "Exit codes: 0 done; 1 a target or check failed; 2 bad input; \
                        3 the environment lacks something.")]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Every subcommand.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Calls on a congested link, with and without Perhop
    Demo(lab::DemoArgs),
    /// Check, explain and run a router
    #[command(subcommand)]
    Router(router::RouterCommand),
    /// Decide for a router: allocate bandwidth to its classes
    #[command(subcommand)]
    Agent(agent::AgentCommand),
    /// Look after a domain of routers: what its links carry, and who has reserved how much of it
    #[command(subcommand)]
    Controller(controller::ControllerCommand),
    /// Reserve bandwidth of a domain
    #[command(subcommand)]
    Reserve(reserve::ReserveCommand),
    /// The policy of a domain: what its routers are to have, in editions
    #[command(subcommand)]
    Policy(policy::PolicyCommand),
    /// Show how the routers of a domain stand to its policy
    Status(policy::StatusArgs),
    /// Say where subscribers of the policy are
    #[command(subcommand)]
    User(user::UserCommand),
    /// Pass telephone calls on, and reserve bandwidth for them
    #[command(subcommand)]
    SipProxy(sip_proxy::SipProxyCommand),
    /// Hold TCP flows of this host at rates
    Abr(abr::AbrArgs),
    /// Show what a running router has and counts
    Show(show::ShowArgs),
    /// Reserve bandwidth in a router by the traffic-control API
    #[command(subcommand)]
    Tcapi(tcapi::TcapiCommand),
    /// Reserve bandwidth of a domain by COPS, and read what programs say by it
    #[command(subcommand)]
    Cops(cops::CopsCommand),
    /// Make certificates and tokens of a domain
    #[command(subcommand)]
    Pki(pki::PkiCommand),
    /// Recognise real-time flows in capture files
    #[command(subcommand)]
    Realtime(classify::RealtimeCommand),
    /// The laboratory: networks described in a file, run, judged and compared
    #[command(subcommand)]
    Lab(lab::LabCommand),
    /// Measure the packet path
    Bench(bench::Args),
    /// Print the completions of a shell
    Completions(completions::CompletionsArgs),
    /// Print the manual page, or write all of them to a directory
    Man(man::ManArgs),
}

impl Command {
    /// Does it.
    ///
    /// # Errors
    /// What kept the command from being done; the exit code goes with it.
    pub fn run(self) -> Result<Verdict, AppError> {
        match self {
            Self::Router(command) => command.run(),
            Self::Agent(command) => command.run(),
            Self::Controller(command) => command.run(),
            Self::Reserve(command) => command.run(),
            Self::Policy(command) => command.run(),
            Self::Status(args) => policy::status(&args),
            Self::User(command) => command.run(),
            Self::SipProxy(command) => command.run(),
            Self::Abr(args) => abr::run(&args),
            Self::Show(args) => show::run(&args),
            Self::Tcapi(command) => command.run(),
            Self::Cops(command) => command.run(),
            Self::Pki(command) => command.run(),
            Self::Realtime(command) => command.run(),
            Self::Lab(command) => command.run(),
            Self::Demo(args) => lab::demo(&args),
            Self::Bench(args) => bench::run(&args),
            Self::Completions(args) => completions::run(&args, Cli::command()),
            Self::Man(args) => man::run(&args, Cli::command()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
