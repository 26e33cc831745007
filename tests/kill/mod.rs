//! Kill at every step: brokers, hosts and clients die at each named point, once; callers repeat what was not answered, and the laws hold.

/// What has to hold after each kill.
mod laws;
/// Every point, killed at.
mod matrix;
/// Processes that are stopped at a point while something else happens.
mod pauses;
/// One run: a root whose processes were told what to do at a point.
mod run;
/// What is done in a run.
mod script;
