//! Time as the machine sees it: a value that comes with the input (law 2). Order is the ledger's sequence, never time.

use serde::{Deserialize, Serialize};

/// One reading of both clocks, taken once a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Time {
    /// Wall clock, microseconds since the Unix epoch. Shown to people, never compared for deadlines (report I03).
    pub wall_us: u64,
    /// Boot-time clock, microseconds; it counts suspend and never steps. Deadlines are measured on it.
    pub boot_us: u64,
}

impl Time {
    /// The boot-clock instant `ms` milliseconds from here.
    pub fn boot_after_ms(self, ms: u64) -> u64 {
        self.boot_us.saturating_add(ms.saturating_mul(1_000))
    }
}
