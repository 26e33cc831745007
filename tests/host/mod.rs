//! The host as a process of its own: gate, life lock, exit record, output, endpoint.
