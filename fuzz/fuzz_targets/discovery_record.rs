//! libFuzzer's door to `ostler_fuzz::discovery_record`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _understood = ostler_fuzz::discovery_record(data);
});
