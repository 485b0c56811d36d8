//! A user's request for a load, such as `io`, `io:size=64MiB`, `busy:1ms:10ms:50` or
//! `exec:stress-ng --cpu 1`.

use std::collections::BTreeMap;

use tardy_run::nearest::did_you_mean;
use tardy_run::parameter::{self, ParameterError, Value, ValueError};

use super::composite::Composite;
use super::info::LoadInfo;
use super::{LOADS, composite, find};

/// One requested load, with the parameter values that the user gave. All other parameters have
/// their defaults.
#[derive(Debug, Clone)]
pub struct LoadRequest {
    pub info: &'static LoadInfo,
    /// The text that the user wrote.
    pub text: String,
    /// Whether the load was requested by its own name: by the user, or by a list with
    /// [`Composite::names_dangers`].
    pub by_name: bool,
    /// The list that contained the load. If a load of a list cannot run, the others still run.
    pub list: Option<&'static str>,
    /// The values that the user gave, by parameter.
    pub given: BTreeMap<&'static str, Value>,
}

/// Why a text is not a request for loads.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The load or list is unknown.
    #[error("there is no load `{name}`{}: use {}", did_you_mean(name, known.iter().copied()), known.join(", "))]
    UnknownLoad {
        /// The name that the user wrote.
        name: String,
        /// The valid names.
        known: Vec<&'static str>,
    },
    /// The load has no such parameter.
    #[error("load `{load}` has no parameter `{name}`{}: it has {}", did_you_mean(name, known.iter().copied()), if known.is_empty() { "none".to_owned() } else { known.join(", ") })]
    UnknownParameter {
        load: &'static str,
        /// The name that the user wrote.
        name: String,
        /// The valid names.
        known: Vec<&'static str>,
    },
    /// There are more values than parameters.
    #[error("load `{load}`: `{value}` is one value too many; the load takes {count}")]
    TooMany {
        load: &'static str,
        /// The first value without a parameter.
        value: String,
        /// Number of parameters.
        count: usize,
    },
    /// A parameter was given twice.
    #[error("load `{load}`: `{name}` is given twice; give it once")]
    Twice {
        load: &'static str,
        name: &'static str,
    },
    /// A parameter without a default has no value.
    #[error("load `{load}` needs `{name}`: write {load}:{name}=...")]
    Needed {
        load: &'static str,
        name: &'static str,
    },
    /// A list of loads takes no parameters.
    #[error("`{0}` is a list of loads and takes no parameters: ask for its loads one by one")]
    CompositeWithParameters(&'static str),
    /// A value is wrong.
    #[error("load `{load}`: {source}")]
    Value {
        load: &'static str,
        /// Why the value is wrong.
        source: ValueError,
    },
}

impl LoadRequest {
    /// Parses one request, or several with commas between them. If the text names a list, returns a
    /// request for each of the list's loads.
    ///
    /// # Errors
    /// Returns the wrong part of the text, and what to write instead.
    pub fn parse(text: &str) -> Result<Vec<Self>, RequestError> {
        let (name, rest) = text
            .trim()
            .split_once(':')
            .map_or((text.trim(), None), |(name, rest)| (name, Some(rest)));
        // Names of loads contain no comma, so a comma before the first colon separates requests.
        if let Some((first, others)) = text.split_once(',').filter(|_| name.contains(',')) {
            let mut requests = Self::parse(first)?;
            requests.extend(Self::parse(others)?);
            return Ok(requests);
        }
        if let Some(composite) = composite::find(name) {
            return match rest {
                None => composite
                    .requests()
                    .map(|member| Self::member(member, composite))
                    .collect(),
                Some(_) => Err(RequestError::CompositeWithParameters(composite.name)),
            };
        }
        Ok(vec![Self::of_load(text)?])
    }

    /// Parses the request for one load.
    fn of_load(text: &str) -> Result<Self, RequestError> {
        let (name, rest) = match text.trim().split_once(':') {
            Some((name, rest)) => (name, Some(rest)),
            None => (text.trim(), None),
        };
        let info = find(name).ok_or_else(|| RequestError::UnknownLoad {
            name: name.to_owned(),
            known: known_names(),
        })?;
        let given = rest.map_or_else(|| Ok(BTreeMap::new()), |rest| parse_values(info, rest))?;
        let unset = info
            .parameters
            .iter()
            .find(|parameter| parameter.needed && !given.contains_key(parameter.name));
        if let Some(parameter) = unset {
            return Err(RequestError::Needed {
                load: info.name,
                name: parameter.name,
            });
        }
        Ok(Self {
            info,
            text: text.trim().to_owned(),
            by_name: true,
            list: None,
            given,
        })
    }

    /// Parses the request for a load of a list.
    fn member(text: &str, list: &Composite) -> Result<Self, RequestError> {
        Ok(Self {
            by_name: list.names_dangers,
            list: Some(list.name),
            ..Self::of_load(text)?
        })
    }
}

fn known_names() -> Vec<&'static str> {
    LOADS
        .iter()
        .map(|info| info.name)
        .chain(composite::COMPOSITES.iter().map(|composite| composite.name))
        .collect()
}

fn parse_values(
    info: &'static LoadInfo,
    rest: &str,
) -> Result<BTreeMap<&'static str, Value>, RequestError> {
    let load = info.name;
    parameter::parse_values(&info.parameters.iter().collect::<Vec<_>>(), rest).map_err(|refused| {
        match refused {
            ParameterError::Unknown { name, known } => {
                RequestError::UnknownParameter { load, name, known }
            }
            ParameterError::TooMany { value, count } => {
                RequestError::TooMany { load, value, count }
            }
            ParameterError::Twice(name) => RequestError::Twice { load, name },
            ParameterError::Value(source) => RequestError::Value { load, source },
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one(text: &str) -> LoadRequest {
        let mut requests = LoadRequest::parse(text).unwrap();
        assert_eq!(requests.len(), 1);
        requests.remove(0)
    }

    #[test]
    fn a_name_alone_gives_nothing() {
        let request = one("io");
        assert_eq!(
            (
                request.info.name,
                request.given.len(),
                request.by_name,
                request.list
            ),
            ("io", 0, true, None)
        );
    }

    #[test]
    fn several_loads_stand_with_commas_between_them() {
        let names = |text: &str| -> Vec<String> {
            let found = LoadRequest::parse(text).unwrap();
            found.into_iter().map(|request| request.text).collect()
        };
        assert_eq!(names("fork,io"), ["fork", "io"]);
        assert_eq!(names("fork, io:size=64MiB"), ["fork", "io:size=64MiB"]);
        assert_eq!(names("exec:sort a,io"), ["exec:sort a,io"], "a command");
        let error = LoadRequest::parse("fork,nosuch").unwrap_err().to_string();
        assert!(error.starts_with("there is no load `nosuch`"), "{error}");
        assert!(LoadRequest::parse("fork,").is_err());
    }

    #[test]
    fn values_are_given_by_name_or_in_order() {
        assert_eq!(one("io:size=64MiB").given["size"], Value::Bytes(64 << 20));
        assert_eq!(one("io:64MiB").given, one("io:size=64MiB").given);
        assert_eq!(
            one("io:64MiB:block=1MiB").given["block"],
            Value::Bytes(1 << 20)
        );
    }

    #[test]
    fn what_is_wrong_is_named_with_what_would_be_right() {
        let error = |text: &str| LoadRequest::parse(text).unwrap_err().to_string();
        assert!(
            error("disco").starts_with("there is no load `disco`: use memory, io, "),
            "{}",
            error("disco")
        );
        assert!(
            error("hackbnech")
                .starts_with("there is no load `hackbnech` (did you mean `hackbench`?): use "),
            "{}",
            error("hackbnech")
        );
        assert!(error("io:colour=red").contains("has no parameter `colour`: it has size"));
        assert!(error("io:1MiB:size=2MiB").contains("`size` is given twice"));
        assert!(error("fork:1:4KiB:4KiB:0ns:6:7").contains("one value too many"));
        assert!(error("io:size=64").contains("not a size"));
        assert!(error("all:size=64").contains("list of loads"));
        assert!(error("").contains("there is no load"));
    }

    #[test]
    fn a_list_gives_its_loads_with_the_papers_parameters() {
        let requests = LoadRequest::parse("paper-script").unwrap();
        let [build, .., du] = requests.as_slice() else {
            panic!("{requests:?}")
        };
        assert_eq!(build.given["jobs"], Value::Count(8));
        assert_eq!(du.text, "du:folder=/");
        let requests = LoadRequest::parse("all").unwrap();
        assert!(
            requests.len() > 1
                && requests
                    .iter()
                    .all(|request| !request.by_name && request.list == Some("all"))
        );
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "(io|fork|exec|busy|all|hackbench)?[:=a-z0-9µ \
                                                   ,]{0,30}") {
            let _ = LoadRequest::parse(&text);
        }
    }
}
