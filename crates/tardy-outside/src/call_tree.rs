//! The calls before one sample, as a tree. If a function was called through different chains of
//! callers, each chain has its own node for the function.
//!
//! Every nanosecond between the due time and the clock read belongs to exactly one node, so the
//! nodes' own times add up to the latency.

use std::collections::HashMap;
use std::sync::Arc;

use crate::calls::{Callee, Calls};

/// The name of the node for the time in which the guest executed nothing.
const IDLE: &str = "(idle)";

/// A function that was called through one particular chain of callers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallNode {
    /// The function's name without the suffixes that a compiler adds: `f.isra.0` and
    /// `f.constprop.0` become `f`.
    pub name: Arc<str>,
    /// Index of the caller's node, which is always smaller than this node's index; `None` for a
    /// task and for idle time.
    pub caller: Option<usize>,
    /// Time of the function's own instructions, in ns.
    pub own_ns: u64,
    /// How often the function was called or continued.
    pub calls: u64,
}

/// The calls from the due time of a sample to the clock read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallTree {
    pub nodes: Vec<CallNode>,
}

impl CallTree {
    /// Returns the tree of the calls in the first `latency` ns after the due time.
    #[must_use]
    pub fn new(calls: &Calls, latency: u64, tasks: &[String]) -> Self {
        let mut tree = Self::default();
        let mut places: HashMap<(Option<usize>, Callee), usize> = HashMap::new();
        let mut of_calls: Vec<Option<usize>> = vec![None; calls.calls.len()];
        let end = i64::try_from(latency).unwrap_or(i64::MAX);
        let inside =
            |begin: i64, until: i64| (until.min(end) - begin.max(0)).max(0).cast_unsigned();
        let mut place = |tree: &mut Self, call: usize| {
            let chain: Vec<usize> =
                std::iter::successors(Some(call), |&call| calls.calls[call].parent)
                    .take_while(|&call| of_calls[call].is_none())
                    .collect();
            for &call in chain.iter().rev() {
                let callee = calls.calls[call].callee;
                let caller = calls.calls[call].parent.and_then(|parent| of_calls[parent]);
                let node = *places.entry((caller, callee)).or_insert_with(|| {
                    tree.nodes.push(CallNode {
                        name: plain(&calls.name(callee, tasks)).into(),
                        caller,
                        own_ns: 0,
                        calls: 0,
                    });
                    tree.nodes.len() - 1
                });
                tree.nodes[node].calls += 1;
                of_calls[call] = Some(node);
            }
            of_calls[call].expect("the chain starts with this call")
        };
        let mut executed = 0;
        for stretch in &calls.stretches {
            let own_ns = inside(stretch.begin, stretch.end);
            if own_ns > 0 {
                let node = place(&mut tree, stretch.call);
                tree.nodes[node].own_ns += own_ns;
                executed += own_ns;
            }
        }
        if executed < latency {
            tree.nodes.push(CallNode {
                name: IDLE.into(),
                caller: None,
                own_ns: latency - executed,
                calls: 1,
            });
        }
        tree
    }

    /// Returns the sum of all nodes' own times: the latency, in ns.
    #[must_use]
    pub fn sum_ns(&self) -> u64 {
        self.nodes.iter().map(|node| node.own_ns).sum()
    }
}

/// Returns a function's name without the suffixes that a compiler adds.
fn plain(name: &str) -> &str {
    match name.find('.') {
        Some(end) if end > 0 => &name[..end],
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::{Call, Stretch};

    #[test]
    fn own_times_add_up_to_the_latency_and_idle_time_has_its_own_node() {
        let call = |callee, parent, begin, end| Call {
            callee,
            parent,
            begin,
            end,
        };
        let stretch = |call, begin, end| Stretch { call, begin, end };
        let calls = Calls {
            names: ["irq".into(), "tick.isra.0".into()].into(),
            calls: vec![
                call(Callee::Task(0), None, 40, 300),
                call(Callee::Function(0), Some(0), 40, 300),
                call(Callee::Function(1), Some(1), 100, 140),
                call(Callee::Function(1), Some(1), 180, 220),
            ],
            stretches: vec![
                stretch(1, 40, 100),
                stretch(2, 100, 140),
                stretch(1, 140, 180),
                stretch(3, 180, 220),
                stretch(1, 220, 300),
            ],
            ..Calls::default()
        };
        let tree = CallTree::new(&calls, 250, &["swapper".to_owned()]);
        let found: Vec<_> = tree
            .nodes
            .iter()
            .map(|node| (&*node.name, node.caller, node.own_ns, node.calls))
            .collect();
        assert_eq!(
            found,
            [
                ("swapper", None, 0, 1),
                ("irq", Some(0), 130, 1),
                ("tick", Some(1), 80, 2),
                ("(idle)", None, 40, 1),
            ]
        );
        assert_eq!(tree.sum_ns(), 250);
    }
}
