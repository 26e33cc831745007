//! The laws, executed: a test here is named after the law that it holds the product to (`law_06_...`).
