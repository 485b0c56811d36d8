//! Errors of tasks: each is a sentence for the person at the terminal. If there is a remedy, the
//! sentence ends with it.

use std::fmt;
use std::process::ExitCode;

/// Why a task failed.
#[derive(Debug)]
pub struct Failure(String);

/// The result of a task.
pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// Makes a failure with this sentence as its text.
    pub fn new(sentence: impl Into<String>) -> Self {
        Self(sentence.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Converts a task's result to an exit code; prints the failure if there is one.
pub fn exit_code(result: Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("xtask: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// If there are items, fails with a sentence that lists them.
///
/// # Errors
/// Returns a failure whose sentence starts with `beginning`, if there are items.
pub fn unless_empty(beginning: &str, items: &[impl AsRef<str>]) -> Result<()> {
    if items.is_empty() {
        return Ok(());
    }
    let items: Vec<&str> = items.iter().map(AsRef::as_ref).collect();
    Err(Failure(format!("{beginning}{}", items.join("; "))))
}

/// Adds to a failure what the task was doing.
pub trait While<T> {
    /// Adds "while" and `doing` to the failure's sentence.
    fn while_doing(self, doing: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: fmt::Display> While<T> for std::result::Result<T, E> {
    fn while_doing(self, doing: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| Failure(format!("while {}: {error}", doing())))
    }
}

/// Returns the items with these names; if no names are given, returns all items.
///
/// # Errors
/// Returns an error that lists the items if a given name belongs to none of them.
pub fn chosen<'a, T>(
    kind: &str,
    items: &'a [T],
    name: impl Fn(&'a T) -> &'a str,
    wanted: &[String],
) -> Result<Vec<&'a T>> {
    let find = |wanted: &String| {
        items
            .iter()
            .find(|item| name(item) == wanted)
            .ok_or_else(|| {
                let known: Vec<&str> = items.iter().map(&name).collect();
                let known = known.join(", ");
                Failure::new(format!("no {kind} `{wanted}`: choose from {known}"))
            })
    };
    if wanted.is_empty() {
        return Ok(items.iter().collect());
    }
    wanted.iter().map(find).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_does_not_exist_is_refused_with_the_names_that_do() {
        let choose = |wanted: &[&str]| {
            let wanted: Vec<String> = wanted.iter().map(|&name| name.to_owned()).collect();
            chosen("figure", &["memory", "losses"], |name| *name, &wanted)
        };
        assert_eq!(choose(&["losses"]).unwrap(), [&"losses"]);
        assert_eq!(choose(&[]).unwrap().len(), 2);
        let failure = choose(&["losses", "memori"]).unwrap_err().to_string();
        assert!(
            failure.contains("`memori`") && failure.contains("memory, losses"),
            "{failure}"
        );
    }
}
