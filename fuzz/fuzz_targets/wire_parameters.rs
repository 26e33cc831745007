//! libFuzzer's door to `ostler_fuzz::wire_parameters`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _understood = ostler_fuzz::wire_parameters(data);
});
