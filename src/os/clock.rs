//! The clocks of the machine. The pure core never asks them; the shell does and hands the answer in (law 2).

use nix::time::{ClockId, clock_gettime};

/// Microseconds since the Unix epoch. Advisory: it may jump, so nothing is ordered by it.
#[must_use]
pub fn wall_us() -> u64 {
    shifted(read_us(ClockId::CLOCK_REALTIME))
}

#[cfg(not(feature = "testing"))]
fn shifted(us: u64) -> u64 {
    us
}

/// In a test build the wall clock can be set: the file that `OSTLER_TEST_WALL` names holds the seconds by which it is off.
#[cfg(feature = "testing")]
fn shifted(us: u64) -> u64 {
    let file = super::environment::Environment::process().get("OSTLER_TEST_WALL");
    let seconds = file.and_then(|file| std::fs::read_to_string(file).ok()).and_then(|text| text.trim().parse().ok());
    us.saturating_add_signed(seconds.map_or(0, |seconds: i64| seconds.saturating_mul(1_000_000)))
}

/// Microseconds since the machine started, suspended time included: a deadline passes while the lid is closed.
#[must_use]
pub fn boot_us() -> u64 {
    read_us(BOOT_CLOCK)
}

#[cfg(target_os = "linux")]
const BOOT_CLOCK: ClockId = ClockId::CLOCK_BOOTTIME;
/// Elsewhere this clock already counts suspended time (Darwin), or is the best there is.
#[cfg(not(target_os = "linux"))]
const BOOT_CLOCK: ClockId = ClockId::CLOCK_MONOTONIC;

fn read_us(clock: ClockId) -> u64 {
    let at = clock_gettime(clock).expect("the kernel has this clock and the pointer is valid");
    // A wall clock set before 1970 reads as 1970.
    let seconds = u64::try_from(at.tv_sec()).unwrap_or(0);
    let nanoseconds = u64::try_from(at.tv_nsec()).unwrap_or(0);
    seconds.saturating_mul(1_000_000).saturating_add(nanoseconds / 1_000)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_boot_clock_never_goes_back_and_the_wall_clock_is_in_this_era() {
        let before = super::boot_us();
        assert!(super::boot_us() >= before);
        let year_2020_us = 1_577_836_800_000_000;
        assert!(super::wall_us() > year_2020_us);
    }
}
