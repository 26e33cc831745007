//! Cases from the field: a test is named after the report that it replays (`field_a01_...`).
