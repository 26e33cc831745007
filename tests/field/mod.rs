//! Cases from the field: a test is named after the report that it replays (`field_a01_...`).

/// Group D, and what runs in sessions.
mod children;
/// Group I.
mod clocks;
/// Group J.
mod crowds;
/// Group L.
mod descriptors;
/// Groups C, D and E, where nobody knows.
mod doubt;
/// Group F.
mod durable;
/// Groups D and E, where somebody ends in the middle of something.
mod endings;
/// What a hostile tester broke once.
mod hostile;
/// Groups D, E and K.
mod lives;
/// Group F, file by file.
mod odd_files;
/// Group E.
mod operations;
/// Group A.
mod ownership;
/// Group K.
mod places;
/// Groups A, B, C and H, where two meet.
mod rivals;
/// Group B.
mod starting;
/// Groups A, C and D, where somebody else is named.
mod strangers;
