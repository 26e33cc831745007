//! Whole brokers on real files and sockets.
