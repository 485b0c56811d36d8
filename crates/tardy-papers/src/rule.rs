//! Rules: comparisons between named values, as in `full < none / 5 and rt < 100us`. All must hold.

use std::fmt;
use std::str::FromStr;

use tardy_core::units::Nanos;

/// A rule: comparisons, all of which must hold.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    text: String,
    comparisons: Vec<Comparison>,
}

#[derive(Debug, Clone, PartialEq)]
struct Comparison {
    left: Side,
    relation: Relation,
    right: Side,
}

/// One side of a comparison: terms joined by operators, which are applied from left to right.
/// Multiplications and divisions must therefore stand before additions and subtractions.
#[derive(Debug, Clone, PartialEq)]
struct Side {
    first: Term,
    then: Vec<(Operator, Term)>,
}

#[derive(Debug, Clone, PartialEq)]
enum Term {
    Value(String),
    Number(f64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relation {
    Less,
    AtMost,
    More,
    AtLeast,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Plus,
    Minus,
    Times,
    Over,
}

/// Why a text does not form a rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a rule ({what}): write names, numbers and times with spaces between, as in \
     `full < none / 5 and rt < 100us`"
)]
pub struct RuleError {
    text: String,
    what: &'static str,
}

impl Rule {
    /// Returns the names of the values in the rule, each once.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        let sides = self
            .comparisons
            .iter()
            .flat_map(|comparison| [&comparison.left, &comparison.right]);
        let terms = sides.flat_map(|side| {
            std::iter::once(&side.first).chain(side.then.iter().map(|(_, term)| term))
        });
        let mut names = Vec::new();
        for term in terms {
            if let Term::Value(name) = term
                && !names.contains(&name.as_str())
            {
                names.push(name.as_str());
            }
        }
        names
    }

    /// Returns whether the rule holds; `None` if a value is unknown.
    #[must_use]
    pub fn holds(&self, value: &dyn Fn(&str) -> Option<f64>) -> Option<bool> {
        let holds = self
            .comparisons
            .iter()
            .map(|comparison| comparison.holds(value))
            .collect::<Option<Vec<bool>>>()?;
        Some(holds.into_iter().all(|holds| holds))
    }
}

impl Comparison {
    fn holds(&self, value: &dyn Fn(&str) -> Option<f64>) -> Option<bool> {
        let (left, right) = (self.left.worth(value)?, self.right.worth(value)?);
        Some(match self.relation {
            Relation::Less => left < right,
            Relation::AtMost => left <= right,
            Relation::More => left > right,
            Relation::AtLeast => left >= right,
        })
    }
}

impl Side {
    fn worth(&self, value: &dyn Fn(&str) -> Option<f64>) -> Option<f64> {
        let of = |term: &Term| match term {
            Term::Value(name) => value(name),
            Term::Number(number) => Some(*number),
        };
        self.then
            .iter()
            .try_fold(of(&self.first)?, |worth, (operator, term)| {
                let term = of(term)?;
                Some(match operator {
                    Operator::Plus => worth + term,
                    Operator::Minus => worth - term,
                    Operator::Times => worth * term,
                    Operator::Over => worth / term,
                })
            })
    }

    fn parse(words: &[&str]) -> Result<Self, &'static str> {
        let (first, rest) = words.split_first().ok_or("a side is empty")?;
        let mut then = Vec::new();
        let mut may_multiply = true;
        for pair in rest.chunks(2) {
            let [operator, term] = pair else {
                return Err("an operator lacks the value after it");
            };
            let operator = match *operator {
                "+" => Operator::Plus,
                "-" => Operator::Minus,
                "*" if may_multiply => Operator::Times,
                "/" if may_multiply => Operator::Over,
                "*" | "/" => {
                    return Err("multiply before you add: terms are evaluated from left to right");
                }
                _ => return Err("an operator is +, -, * or /"),
            };
            may_multiply = matches!(operator, Operator::Times | Operator::Over);
            then.push((operator, Term::parse(term)?));
        }
        Ok(Self {
            first: Term::parse(first)?,
            then,
        })
    }
}

impl Term {
    fn parse(word: &str) -> Result<Self, &'static str> {
        if word.starts_with(|first: char| first.is_ascii_digit()) {
            let time = || word.parse::<Nanos>().ok().map(|time| time.get() as f64);
            return word
                .parse()
                .ok()
                .or_else(time)
                .map(Self::Number)
                .ok_or("write a plain number, or a time with its unit");
        }
        let is_name = word
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        if is_name {
            Ok(Self::Value(word.to_owned()))
        } else {
            Err("names are lower case")
        }
    }
}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refuse = |what| RuleError {
            text: text.to_owned(),
            what,
        };
        let words: Vec<&str> = text.split_whitespace().collect();
        let comparison = |words: &[&str]| {
            let place = words
                .iter()
                .position(|word| word.starts_with(['<', '>']))
                .ok_or("a comparison needs <, <=, > or >=")?;
            let relation = match words[place] {
                "<" => Relation::Less,
                "<=" => Relation::AtMost,
                ">" => Relation::More,
                ">=" => Relation::AtLeast,
                _ => return Err("a comparison needs <, <=, > or >="),
            };
            Ok(Comparison {
                left: Side::parse(&words[..place])?,
                relation,
                right: Side::parse(&words[place + 1..])?,
            })
        };
        let comparisons = words
            .split(|word| *word == "and")
            .map(comparison)
            .collect::<Result<_, _>>()
            .map_err(refuse)?;
        Ok(Self {
            text: words.join(" "),
            comparisons,
        })
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(rule: &str) -> Option<bool> {
        let value = |name: &str| match name {
            "none" => Some(15_000_000.0),
            "full" => Some(400_000.0),
            "rt" => Some(20_000.0),
            _ => None,
        };
        rule.parse::<Rule>().unwrap().holds(&value)
    }

    #[test]
    fn all_comparisons_must_hold() {
        assert_eq!(holds("full < none / 5 and rt < 100us"), Some(true));
        assert_eq!(holds("full < none / 5 and rt > 100us"), Some(false));
        assert_eq!(holds("rt * 2 + 1us <= 41us"), Some(true));
        assert_eq!(holds("rt * 2 + 1us < 41us"), Some(false));
        assert_eq!(holds("none - full >= 14600000"), Some(true));
    }

    #[test]
    fn a_value_that_is_not_known_leaves_the_rule_open() {
        assert_eq!(holds("lazy < none"), None);
        assert_eq!(
            "lazy < none / rt and rt < none"
                .parse::<Rule>()
                .unwrap()
                .names(),
            ["lazy", "none", "rt"]
        );
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        for wrong in [
            "",
            "full",
            "full < ",
            "< none",
            "full < none and",
            "full <> none",
            "full < none + rt / 2",
            "full < none none",
            "Full < 1",
            "full < 1meter",
        ] {
            assert!(wrong.parse::<Rule>().is_err(), "{wrong}");
        }
    }
}
