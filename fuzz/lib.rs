//! Fuzz targets as plain functions.
