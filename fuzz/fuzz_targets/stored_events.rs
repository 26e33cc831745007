//! libFuzzer's door to `ostler_fuzz::stored_events`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _understood = ostler_fuzz::stored_events(data);
});
