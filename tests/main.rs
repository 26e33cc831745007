//! The one test binary of the root crate: laws, simulation, real processes.
