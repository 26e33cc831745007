//! libFuzzer's door to `ostler_fuzz::ledger_proof`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _understood = ostler_fuzz::ledger_proof(data);
});
