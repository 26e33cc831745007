//! The shell around the pure core: the lock that makes a broker the broker, the one turn thread, and the doors.
//! The machine decides; this room asks, writes, starts, answers.

/// Parameters become requests.
pub mod accept;
pub mod asked;
/// Texts of messages.
pub mod bodies;
/// The state stated again.
mod carry;
/// Mutating calls.
pub mod changes;
/// Events and records.
pub mod codec;
/// Messages on their way to hosts.
mod deliver;
/// The turn's thread.
pub mod desk;
/// Publishing the discovery record.
pub mod discovery;
/// The ledger's disk.
pub mod disk;
/// Evidence of what lives of a session.
pub mod doubt;
#[cfg(test)]
mod dropped;
/// What subscribers are told.
pub mod events;
/// Records as subscribers read them.
mod feed;
/// The broker's own looks at session files.
pub mod files;
/// The state as the ledger tells it.
pub mod fold;
#[cfg(test)]
mod fold_tests;
/// Sessions as copies of others.
mod forks;
/// What the connections call.
pub mod front;
/// The broker lock as seen from outside.
pub mod holder;
/// Effects in the world.
pub mod hosts;
/// When a broker with nothing to do leaves.
pub mod idle;
/// The way into the turn.
pub mod inbox;
/// How a broker leaves.
mod leaving;
/// A message as its program gets it.
mod letter;
/// The broker lock.
pub mod lock;
/// The broker's log file.
pub mod log;
/// What became of an episode.
mod looks;
/// A broker that a service manager started.
mod managed;
/// Calls about messages.
mod messages;
/// Notices as their session reads them.
mod notices;
/// Operations as callers look them up.
pub mod operations;
/// Which effect may leave now.
pub mod outbox;
/// Output through the broker.
pub mod output;
/// The owner record in the lock.
pub mod owner;
/// Points that turn and hands pass.
mod passed;
#[cfg(feature = "testing")]
mod planted;
/// Whether clients can find it.
mod published;
/// Stale-lock quarantine.
pub mod quarantine;
/// When a session is ready, as callers say and are told it.
mod readiness;
/// Calls that only look.
pub mod reads;
/// Operations read back from the ledger.
pub mod recall;
/// Refusals as callers read them.
pub mod refused;
/// Whether this version reads the ledger, before it asks another one for its place.
pub mod rehearsal;
/// Documents.
pub mod render;
/// The broker's end of the report pipe.
pub mod report;
/// Calls about reports.
mod reports;
/// Room that is kept on the disk.
mod reserve;
/// Retirement as it is asked for.
pub mod retire;
/// Retirement in the turn.
pub mod retiring;
#[cfg(test)]
mod retiring_tests;
/// Where each method goes.
pub mod route;
/// The broker's life after its beat.
pub mod run;
/// The ledger verified behind everything else.
pub mod scrub;
/// The root's secret of the request digests.
pub mod secret;
mod segments;
/// Which records a subscriber may see.
mod sight;
/// What the system asks a broker.
mod signals;
/// Snapshots of the state.
pub mod snapshot;
/// The start, in order.
pub mod start;
/// Events as they are stored.
mod stored;
#[cfg(test)]
#[cfg(feature = "testing")]
mod token_tests;
/// What leaves a turn.
pub mod told;
/// The single writer.
pub mod turn;
#[cfg(test)]
mod turn_tests;
/// Refusals about messages.
mod unsent;
/// What readers see.
pub mod view;
/// The publication watch.
pub mod watch;
/// What hosts say, in the machine's words.
mod words;
