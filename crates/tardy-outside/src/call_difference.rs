//! Compares two latencies function by function.
//!
//! The differences of all functions add up to the difference of the latencies. If only one side
//! executed a function, its callers and callees are used to find the function that corresponds to
//! it on the other side. The other side has it under another name, or has it inlined in its caller.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::call_tree::CallTree;

/// A function with its time and calls on both sides.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct FunctionDifference {
    /// The function's name on the base's side; if only the new side executed it, its name on the
    /// function.
    pub function: String,
    /// The function's name on the new side, if it differs. In this case, both functions have the
    /// same caller and mostly the same callees.
    pub renamed_to: Option<String>,
    /// Functions whose time is included here, because they were inlined into this function on one
    /// side but not on the other.
    pub with: Vec<String>,
    /// Time of the function's own instructions, without its callees.
    pub base_ns: u64,
    pub new_ns: u64,
    /// How often the function was called or continued.
    pub base_calls: u64,
    pub new_calls: u64,
    /// The chain of callers for which the function's own time is longest, outermost caller first.
    /// It is a chain of the side on which the function took longer.
    pub callers: Vec<String>,
}

impl FunctionDifference {
    /// Returns by how much the function took longer on the new side, in ns.
    #[must_use]
    pub fn difference_ns(&self) -> i64 {
        self.new_ns.cast_signed() - self.base_ns.cast_signed()
    }
}

/// A chain of callers that ends with a function, and the time of this function on both sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathDifference {
    /// The functions, outermost first. If a function has different names, this is its name on the
    /// base's side.
    pub functions: Vec<String>,
    /// Time of the last function's own instructions, without its callees.
    pub base_ns: u64,
    pub new_ns: u64,
}

/// Returns the difference of each function, the largest first, and the times of each chain of
/// callers, in the order of the functions' names.
#[must_use]
pub fn differences(
    base: &CallTree,
    new: &CallTree,
) -> (Vec<FunctionDifference>, Vec<PathDifference>) {
    let trees = [(base, false), (new, true)];
    let (base, new) = (Side::new(base), Side::new(new));
    let matches = Matches::find(&base, &new);
    let mut paths: BTreeMap<Vec<&str>, (u64, u64)> = BTreeMap::new();
    for (tree, is_new) in trees {
        for (index, node) in tree.nodes.iter().enumerate() {
            let functions = chain(tree, Some(index));
            let names = functions.into_iter();
            let path = names.map(|name| matches.base_name(name, is_new)).collect();
            let times = paths.entry(path).or_default();
            *(if is_new { &mut times.1 } else { &mut times.0 }) += node.own_ns;
        }
    }
    let path = |(functions, (base_ns, new_ns)): (Vec<&str>, _)| PathDifference {
        functions: functions.into_iter().map(str::to_owned).collect(),
        base_ns,
        new_ns,
    };
    let paths = paths.into_iter().map(path).collect();
    let mut rows: BTreeMap<&str, FunctionDifference> = BTreeMap::new();
    let mut heaviest: BTreeMap<&str, u64> = BTreeMap::new();
    for (side, is_new) in [(&base, false), (&new, true)] {
        for (&name, total) in &side.functions {
            let place = matches.row_of(name, is_new);
            let row = rows.entry(place).or_insert_with(|| FunctionDifference {
                function: place.to_owned(),
                renamed_to: matches.renamed.get(place).map(|&name| name.to_owned()),
                ..FunctionDifference::default()
            });
            let (ns, calls) = if is_new {
                (&mut row.new_ns, &mut row.new_calls)
            } else {
                (&mut row.base_ns, &mut row.base_calls)
            };
            *ns += total.own_ns;
            if matches.containers.contains_key(&(is_new, name)) {
                row.with.push(name.to_owned());
            } else {
                *calls += total.calls;
            }
            let most = heaviest.entry(place).or_default();
            if total.own_ns > *most {
                *most = total.own_ns;
                row.callers = total.callers.iter().map(|&name| name.to_owned()).collect();
            }
        }
    }
    let mut rows: Vec<FunctionDifference> = rows.into_values().collect();
    rows.sort_by(|one, other| {
        let size = |row: &FunctionDifference| row.difference_ns().unsigned_abs();
        size(other)
            .cmp(&size(one))
            .then_with(|| one.function.cmp(&other.function))
    });
    (rows, paths)
}

/// A function's time and calls on one side, summed over all nodes of the tree that stand for the
/// function.
#[derive(Debug, Default)]
struct Function<'a> {
    own_ns: u64,
    calls: u64,
    /// The chain of callers of the node with the largest own time, outermost caller first.
    callers: Vec<&'a str>,
    called_by: BTreeSet<&'a str>,
    callees: BTreeSet<&'a str>,
}

struct Side<'a> {
    functions: BTreeMap<&'a str, Function<'a>>,
}

impl<'a> Side<'a> {
    fn new(tree: &'a CallTree) -> Self {
        let mut functions: BTreeMap<&str, Function<'_>> = BTreeMap::new();
        let mut most: BTreeMap<&str, u64> = BTreeMap::new();
        for node in &tree.nodes {
            let name = &*node.name;
            let function = functions.entry(name).or_default();
            function.own_ns += node.own_ns;
            function.calls += node.calls;
            let most = most.entry(name).or_default();
            if node.own_ns > *most {
                *most = node.own_ns;
                function.callers = chain(tree, node.caller);
            }
            if let Some(caller) = node.caller {
                let caller = &*tree.nodes[caller].name;
                function.called_by.insert(caller);
                functions.entry(caller).or_default().callees.insert(name);
            }
        }
        Self { functions }
    }

    /// Returns the functions that this side executed and `other` did not.
    fn only_here(&self, other: &Self) -> BTreeSet<&'a str> {
        let names = self.functions.keys().copied();
        names
            .filter(|name| !other.functions.contains_key(name))
            .collect()
    }
}

fn chain(tree: &CallTree, caller: Option<usize>) -> Vec<&str> {
    let mut chain: Vec<&str> = std::iter::successors(caller, |&node| tree.nodes[node].caller)
        .map(|node| &*tree.nodes[node].name)
        .collect();
    chain.reverse();
    chain
}

/// Which functions of the two sides correspond to each other although they have different names.
#[derive(Default)]
struct Matches<'a> {
    /// From a function's name on the base's side to its name on the new side.
    renamed: BTreeMap<&'a str, &'a str>,
    /// From a function's name on the new side to its name on the base's side.
    old_names: BTreeMap<&'a str, &'a str>,
    /// For each function of a side, the function into which it is inlined on the other side. The
    /// first part of the key is true if the function is one of the new side.
    containers: BTreeMap<(bool, &'a str), &'a str>,
}

impl<'a> Matches<'a> {
    fn find(base: &Side<'a>, new: &Side<'a>) -> Self {
        let mut found = Self::default();
        let mut open = (base.only_here(new), new.only_here(base));
        // Each match may make it possible to match more functions, because their caller is then
        // known on both sides.
        while found.rename_one(base, new, &mut open) || found.contain_one(base, new, &mut open) {}
        found
    }

    /// Finds one function on each side such that both have the same caller and mostly the same
    /// callees.
    fn rename_one(
        &mut self,
        base: &Side<'a>,
        new: &Side<'a>,
        open: &mut (BTreeSet<&'a str>, BTreeSet<&'a str>),
    ) -> bool {
        for &old in &open.0 {
            let function = &base.functions[old];
            let called_by = self.in_new(&function.called_by);
            let callees = self.in_new(&function.callees);
            let candidates: Vec<&str> = open
                .1
                .iter()
                .copied()
                .filter(|name| !new.functions[name].called_by.is_disjoint(&called_by))
                .collect();
            let alike = candidates.iter().copied().find(|name| {
                let other = &new.functions[name].callees;
                let common = other.intersection(&callees).count();
                common > 0 && 2 * common >= other.len().max(callees.len())
            });
            // Functions without callees are matched only if there is only one candidate on each
            // side.
            let sole = || {
                let &[name] = &candidates[..] else {
                    return None;
                };
                let other = &new.functions[name];
                let is_sole = open.0.iter().all(|&rival| {
                    rival == old
                        || self
                            .in_new(&base.functions[rival].called_by)
                            .is_disjoint(&other.called_by)
                });
                let is_leaf = callees.is_empty() && other.callees.is_empty();
                (is_sole && is_leaf && other.calls == function.calls).then_some(name)
            };
            if let Some(name) = alike.or_else(sole) {
                self.renamed.insert(old, name);
                self.old_names.insert(name, old);
                open.0.remove(old);
                open.1.remove(name);
                return true;
            }
        }
        false
    }

    /// Finds a function of one side that seems to be inlined on the other side: there, the
    /// function's caller calls at least half of the function's callees.
    fn contain_one(
        &mut self,
        base: &Side<'a>,
        new: &Side<'a>,
        open: &mut (BTreeSet<&'a str>, BTreeSet<&'a str>),
    ) -> bool {
        for (is_new, here, there) in [(false, base, new), (true, new, base)] {
            let names = if is_new { &open.1 } else { &open.0 };
            let found = names.iter().find_map(|&name| {
                let function = &here.functions[name];
                let callees = self.translated(&function.callees, is_new);
                let container = function.called_by.iter().copied().find(|&caller| {
                    let inner = there.functions.get(self.counterpart(caller, is_new));
                    let before = self.translated(&here.functions[caller].callees, is_new);
                    let taken = inner.map_or(0, |inner| {
                        let here = inner.callees.intersection(&callees);
                        here.filter(|callee| !before.contains(*callee)).count()
                    });
                    taken > 0 && 2 * taken >= callees.len()
                })?;
                Some((name, container))
            });
            if let Some((name, container)) = found {
                self.containers.insert((is_new, name), container);
                if is_new {
                    open.1.remove(name);
                } else {
                    open.0.remove(name);
                }
                return true;
            }
        }
        false
    }

    /// Returns the name of a function on the other side.
    fn counterpart(&self, name: &'a str, is_new: bool) -> &'a str {
        let names = if is_new {
            &self.old_names
        } else {
            &self.renamed
        };
        names.get(name).copied().unwrap_or(name)
    }

    fn translated(&self, names: &BTreeSet<&'a str>, is_new: bool) -> BTreeSet<&'a str> {
        let names = names.iter();
        names.map(|&name| self.counterpart(name, is_new)).collect()
    }

    fn in_new(&self, names: &BTreeSet<&'a str>) -> BTreeSet<&'a str> {
        self.translated(names, false)
    }

    /// Returns the name of the row in which the time of a function is counted.
    fn row_of(&self, name: &'a str, is_new: bool) -> &'a str {
        let mut name = name;
        while let Some(&container) = self.containers.get(&(is_new, name)) {
            name = container;
        }
        self.base_name(name, is_new)
    }

    /// Returns the name of a function on the base's side.
    fn base_name(&self, name: &'a str, is_new: bool) -> &'a str {
        if is_new {
            self.counterpart(name, true)
        } else {
            name
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::call_tree::CallNode;

    /// Makes a tree from lines such as `swapper/irq/tick 80 2`.
    fn tree(lines: &[&str]) -> CallTree {
        let mut tree = CallTree::default();
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        for line in lines {
            let mut words = line.split(' ');
            let path = words.next().unwrap();
            let mut number = || words.next().map_or(1, |word| word.parse().unwrap());
            let (own_ns, calls) = (number(), number());
            let (caller, name) = path.rsplit_once('/').unzip();
            let caller = caller.map(|caller| places[caller]);
            places.insert(path.to_owned(), tree.nodes.len());
            tree.nodes.push(CallNode {
                name: name.unwrap_or(path).into(),
                caller,
                own_ns,
                calls,
            });
        }
        tree
    }

    fn lines(rows: &[FunctionDifference]) -> Vec<String> {
        let line = |row: &FunctionDifference| {
            let renamed = row.renamed_to.as_deref().unwrap_or_default();
            format!(
                "{}>{renamed}+{} {}:{} {}:{}",
                row.function,
                row.with.join(","),
                row.base_ns,
                row.base_calls,
                row.new_ns,
                row.new_calls
            )
        };
        rows.iter().map(line).collect()
    }

    #[test]
    fn a_longer_function_comes_first_and_a_function_of_one_side_has_zero_on_the_other() {
        let base = tree(&[
            "task 0",
            "task/irq 100",
            "task/irq/tick 50 2",
            "task/work 30",
        ]);
        let new = tree(&[
            "task 0",
            "task/irq 110",
            "task/irq/tick 90 4",
            "task/irq/check 7 1",
        ]);
        let rows = differences(&base, &new).0;
        assert_eq!(
            lines(&rows),
            [
                "tick>+ 50:2 90:4",
                "work>+ 30:1 0:0",
                "irq>+ 100:1 110:1",
                "check>+ 0:0 7:1",
                "task>+ 0:1 0:1",
            ]
        );
        assert_eq!(rows[0].callers, ["task", "irq"]);
    }

    #[test]
    fn a_renamed_function_is_known_by_its_caller_and_callees() {
        let base = tree(&[
            "task 0",
            "task/irq 9",
            "task/irq/update 20",
            "task/irq/update/read 5",
        ]);
        let new = tree(&[
            "task 0",
            "task/irq 9",
            "task/irq/refresh 60",
            "task/irq/refresh/read 5",
        ]);
        assert_eq!(
            lines(&differences(&base, &new).0)[0],
            "update>refresh+ 20:1 60:1"
        );
    }

    #[test]
    fn a_function_inlined_on_one_side_shares_the_row_of_its_caller() {
        let base = tree(&[
            "task 0",
            "task/irq 40",
            "task/irq/run 30",
            "task/irq/run/read 5",
        ]);
        let new = tree(&["task 0", "task/irq 90", "task/irq/read 5"]);
        assert_eq!(lines(&differences(&base, &new).0)[0], "irq>+run 70:1 90:1");
        assert_eq!(lines(&differences(&new, &base).0)[0], "irq>+run 90:1 70:1");
    }

    #[test]
    fn leaves_in_the_same_place_are_one_function_only_if_there_is_no_other_choice() {
        let base = tree(&["task 0", "task/irq 9", "task/irq/old 20"]);
        let new = tree(&["task 0", "task/irq 9", "task/irq/new 60"]);
        assert_eq!(lines(&differences(&base, &new).0)[0], "old>new+ 20:1 60:1");
        let two = tree(&[
            "task 0",
            "task/irq 9",
            "task/irq/new 60",
            "task/irq/other 1",
        ]);
        assert_eq!(
            lines(&differences(&base, &two).0)[..3],
            ["new>+ 0:0 60:1", "old>+ 20:1 0:0", "other>+ 0:0 1:1"]
        );
    }

    fn any_tree() -> impl Strategy<Value = CallTree> {
        let node = (0_usize..8, 0_usize..12, 0_u64..1000, 1_u64..4);
        prop::collection::vec(node, 1..30).prop_map(|nodes| {
            let node =
                |(place, (name, caller, own_ns, calls)): (usize, (usize, usize, u64, u64))| {
                    CallNode {
                        name: ["a", "b", "c", "d", "e", "f", "g", "h"][name].into(),
                        caller: (place > 0).then(|| caller % place),
                        own_ns,
                        calls,
                    }
                };
            CallTree {
                nodes: nodes.into_iter().enumerate().map(node).collect(),
            }
        })
    }

    proptest! {
        #[test]
        fn the_differences_add_up_to_the_difference_of_the_latencies(
            base in any_tree(),
            new in any_tree(),
        ) {
            let (rows, paths) = differences(&base, &new);
            let sums = paths.iter().fold((0, 0), |sums, path| (sums.0 + path.base_ns, sums.1 + path.new_ns));
            prop_assert_eq!(sums, (base.sum_ns(), new.sum_ns()));
            prop_assert_eq!(rows.iter().map(|row| row.base_ns).sum::<u64>(), base.sum_ns());
            prop_assert_eq!(rows.iter().map(|row| row.new_ns).sum::<u64>(), new.sum_ns());
            let sum: i64 = rows.iter().map(FunctionDifference::difference_ns).sum();
            prop_assert_eq!(sum, new.sum_ns().cast_signed() - base.sum_ns().cast_signed());
        }
    }
}
