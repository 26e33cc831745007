//! libFuzzer's door to `ostler_fuzz::ledger_snapshot`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _understood = ostler_fuzz::ledger_snapshot(data);
});
