//! Every configuration key there is: name, environment variable, form, default, what it does. A key stands here only if code reads it.
//! `config show`, `config validate`, the file reader and the environment reader all walk this one table.

use std::time::Duration;

use super::super::duration;

/// One configuration key.
#[derive(Debug)]
pub(crate) struct Key {
    /// The name in the file.
    pub(crate) name: &'static str,
    /// The environment variable that overrides the files.
    pub(crate) variable: &'static str,
    /// Which values it takes.
    pub(crate) form: Form,
    /// The built-in value; none where each command has its own.
    pub(crate) default: Option<&'static str>,
    /// One line for eyes.
    pub(crate) help: &'static str,
}

/// The form of a key's value. Values are kept as the text that was written; `check` says whether the text is one.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Form {
    /// `500ms`, `10s`, `2m`, at most the given one.
    Duration(Duration),
    /// A duration of at least the given one, or `never`.
    AtLeastOrNever(Duration),
    /// A number from the first to the second.
    Count(u64, u64),
    /// One of a few words.
    Choice(&'static [&'static str]),
}

/// A stop may wait this long before it kills (contract section 4).
pub(crate) const STOP_GRACE_MAX: Duration = Duration::from_secs(120);

/// A shorter time would end brokers between two steps of a script.
const IDLE_EXIT_MIN: Duration = Duration::from_secs(1);
/// The word for a broker that stays.
pub(crate) const NEVER: &str = "never";

pub(crate) const TIMEOUT: &str = "timeout";
pub(crate) const INHERIT_ENV: &str = "inherit_env";
pub(crate) const STOP_GRACE: &str = "stop_grace";
pub(crate) const IDLE_EXIT: &str = "idle_exit";
pub(crate) const LIVE_CHILDREN: &str = "live_children";
pub(crate) const FAMILY_DEPTH: &str = "family_depth";

/// The table.
pub(crate) const KEYS: [Key; 6] = [
    Key {
        name: TIMEOUT,
        variable: "OSTLER_TIMEOUT",
        form: Form::Duration(duration::MAX),
        default: None,
        help: "the deadline of a command without --timeout (without it: what the command needs)",
    },
    Key {
        name: INHERIT_ENV,
        variable: "OSTLER_INHERIT_ENV",
        form: Form::Choice(&["caller", "minimal"]),
        default: Some("caller"),
        help: "what a session's command inherits: the environment of the calling client, or only the minimum",
    },
    Key {
        name: STOP_GRACE,
        variable: "OSTLER_STOP_GRACE",
        form: Form::Duration(STOP_GRACE_MAX),
        default: Some("10s"),
        help: "how long a stop waits after TERM before it kills",
    },
    Key {
        name: IDLE_EXIT,
        variable: "OSTLER_IDLE_EXIT",
        form: Form::AtLeastOrNever(IDLE_EXIT_MIN),
        default: Some("1h"),
        help: "how long a broker stays that has nothing to do, read when it starts: a duration, or never",
    },
    Key {
        name: LIVE_CHILDREN,
        variable: "OSTLER_LIVE_CHILDREN",
        form: Form::Count(0, 10_000),
        default: Some("64"),
        help: "how many children of one session may live at a time, read when the broker starts",
    },
    Key {
        name: FAMILY_DEPTH,
        variable: "OSTLER_FAMILY_DEPTH",
        form: Form::Count(1, 1_000),
        default: Some("8"),
        help: "how deep a family of sessions may be, the owner's at 1, read when the broker starts",
    },
];

/// The key of this name.
pub(crate) fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// The known key that a mistyped one most likely meant, if one is near enough to be a help.
pub(crate) fn suggest(name: &str) -> Option<&'static str> {
    const NEAR: f64 = 0.7;
    KEYS.iter()
        .map(|key| (strsim::jaro_winkler(name, key.name), key.name))
        .filter(|(nearness, _)| *nearness >= NEAR)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known)
}

impl Form {
    /// Whether `text` is a value of this form.
    ///
    /// # Errors
    /// A sentence that says what was expected.
    pub(crate) fn check(self, text: &str) -> Result<(), String> {
        match self {
            Form::Duration(most) => match duration::parse(text)? {
                given if given <= most => Ok(()),
                _ => Err(format!("{text} is more than {}", duration::show(most))),
            },
            Form::AtLeastOrNever(_) if text == NEVER => Ok(()),
            Form::AtLeastOrNever(least) => {
                match duration::parse(text).map_err(|why| format!("{why}, nor `{NEVER}`"))? {
                    given if given >= least => Ok(()),
                    _ => Err(format!("{text} is less than {}", duration::show(least))),
                }
            }
            Form::Count(least, most) => match text.parse::<u64>() {
                Ok(given) if (least..=most).contains(&given) => Ok(()),
                Ok(_) | Err(_) => Err(format!("`{text}` is no number from {least} to {most}")),
            },
            Form::Choice(words) if words.contains(&text) => Ok(()),
            Form::Choice(words) => Err(format!("`{text}` is none of {}", words.join(", "))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_a_value_of_its_key() {
        for key in &KEYS {
            if let Some(default) = key.default {
                key.form.check(default).expect(key.name);
            }
        }
    }

    #[test]
    fn mistyped_keys_find_the_key_that_was_meant() {
        for (typed, meant) in [
            ("time_out", Some(TIMEOUT)),
            ("timeouts", Some(TIMEOUT)),
            ("stop-grace", Some(STOP_GRACE)),
            ("inheritenv", Some(INHERIT_ENV)),
            ("zzz", None),
        ] {
            assert_eq!(suggest(typed), meant, "{typed}");
        }
    }

    #[test]
    fn forms_refuse_with_a_reason() {
        let grace = find(STOP_GRACE).unwrap().form;
        assert!(grace.check("120s").is_ok());
        assert!(grace.check("121s").unwrap_err().contains("2m"));
        assert!(grace.check("soon").unwrap_err().contains("soon"));
        let idle = find(IDLE_EXIT).unwrap().form;
        assert!(idle.check("1s").is_ok() && idle.check("never").is_ok());
        assert!(idle.check("999ms").unwrap_err().contains("1s"));
        assert!(idle.check("nie").unwrap_err().contains("`never`"));
        assert!(find(INHERIT_ENV).unwrap().form.check("none").unwrap_err().contains("caller, minimal"));
    }
}
