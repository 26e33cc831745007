//! An append-only, digest-chained record ledger. It knows records and chains, not what they mean.
