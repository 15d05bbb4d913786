//! What the endpoint is judged by: scripts, laws of throughput, a published run, another implementation, and properties
//! under any loss. One binary, so that it is linked once.

mod bytes;
mod hostile;
mod interop;
mod laws;
mod path;
mod properties;
mod reference_run;
mod script;
mod scripts;
mod transfer;
