//! Ctrl-C and a polite kill, for commands that run until they are stopped or take a while.

use perhop_labrun::LabError;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// A flag that Ctrl-C and a polite kill set. A second one ends the process at once, and so do `patience` after the first
/// one, since large networks take a while in which nobody looks at the flag; nothing is left behind even so, as
/// everything hangs on file descriptors.
pub(crate) fn watch_signals(patience: Option<Duration>) -> Result<Arc<AtomicBool>, LabError> {
    let io = |source| LabError::Io { doing: "watch for Ctrl-C", source };
    let flag = Arc::new(AtomicBool::new(false));
    let set = Arc::clone(&flag);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(io)?;
    let (mut interrupt, mut terminate) = {
        let _guard = runtime.enter();
        (signal(SignalKind::interrupt()).map_err(io)?, signal(SignalKind::terminate()).map_err(io)?)
    };
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            runtime.block_on(async {
                loop {
                    tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
                    if set.swap(true, Ordering::Relaxed) {
                        std::process::exit(130);
                    }
                    if let Some(patience) = patience {
                        std::thread::spawn(move || {
                            std::thread::sleep(patience);
                            std::process::exit(130);
                        });
                    }
                }
            });
        })
        .map_err(io)?;
    Ok(flag)
}
