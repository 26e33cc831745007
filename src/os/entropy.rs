//! Randomness from the kernel: ids, nonces, salts, secrets. The pure core gets it as input (law 2).

use rand::TryRng;
use rand::rngs::SysRng;

/// `N` unpredictable bytes, straight from the kernel; no user-space generator that a fork could copy.
///
/// # Panics
/// If the kernel has no entropy to give, which Linux rules out once it has booted.
#[must_use]
pub fn bytes<const N: usize>() -> [u8; N] {
    let mut out = [0_u8; N];
    SysRng.try_fill_bytes(&mut out).expect("the kernel gives entropy after boot");
    out
}

/// `N` unpredictable bytes as lower-case hex, `2 * N` characters.
#[must_use]
pub fn hex<const N: usize>() -> String {
    data_encoding::HEXLOWER.encode(&bytes::<N>())
}

#[cfg(test)]
mod tests {
    #[test]
    fn two_draws_differ() {
        assert_ne!(super::bytes::<16>(), super::bytes::<16>());
        assert_eq!(super::hex::<16>().len(), 32);
    }
}
