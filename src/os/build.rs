//! Which build of ostler this process is: what one program says of itself to programs of other versions.
//!
//! Promise: it is the same from the first line of `main` to the end of the process. A release is always the build that its source makes; in a test build another
//! program may be another build, so that upgrade and downgrade are tried between two programs that differ as versions do.

/// What differs between builds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Build {
    /// The product version.
    pub version: &'static str,
    /// Lowest and highest version of the protocol between clients and brokers.
    pub protocol: (u32, u32),
    /// Version of the wire between brokers and hosts; all before it are spoken too.
    pub host_wire: u32,
}

/// The build that this source makes.
pub const THIS: Build = Build { version: env!("CARGO_PKG_VERSION"), protocol: (1, 1), host_wire: 1 };

/// The build of this process.
#[cfg(not(feature = "testing"))]
pub fn build() -> Build {
    THIS
}

/// The build of this process.
#[cfg(feature = "testing")]
pub fn build() -> Build {
    *OTHER.get().unwrap_or(&THIS)
}

#[cfg(feature = "testing")]
static OTHER: std::sync::OnceLock<Build> = std::sync::OnceLock::new();

/// Makes this process another build; the first thing that `main` does, if it does it.
///
/// # Panics
/// If it is one already.
#[cfg(feature = "testing")]
pub fn be(other: Build) {
    OTHER.set(other).expect("a process is one build");
}
