//! libFuzzer's door to `ostler_fuzz::owner_record`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _understood = ostler_fuzz::owner_record(data);
});
