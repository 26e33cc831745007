//! The endpoint incarnation: 64 hex digits that name one endpoint of one host for good, so that a retried request can
//! tell whether what it started is still what runs.

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use crate::os::identity::ProcessIdentity;

/// SHA-256 over the canonical JSON (names sorted, no white space) of episode, host identity, nonce and session.
#[must_use]
pub fn of(session: &str, episode: u32, host: &ProcessIdentity, nonce: &str) -> String {
    // serde_json's map keeps names sorted and its compact form has no white space; all values are ASCII text or integers.
    let canonical = serde_json::json!({
        "episode": episode,
        "host": { "boot": host.boot, "ns": host.ns, "pid": host.pid, "start": host.start },
        "nonce": nonce,
        "session": session,
    });
    HEXLOWER.encode(&Sha256::digest(canonical.to_string().as_bytes()))
}

#[cfg(test)]
mod tests {
    use crate::os::identity::ProcessIdentity;

    #[test]
    fn it_is_the_digest_of_the_documented_text() {
        use sha2::{Digest, Sha256};
        let host = ProcessIdentity { boot: "b".into(), ns: 4, pid: 7, start: 9 };
        let text = br#"{"episode":2,"host":{"boot":"b","ns":4,"pid":7,"start":9},"nonce":"n","session":"s"}"#;
        let want = data_encoding::HEXLOWER.encode(&Sha256::digest(text));
        assert_eq!(super::of("s", 2, &host, "n"), want);
        assert_ne!(super::of("s", 3, &host, "n"), want);
    }
}
