//! Statistics for latency tails, in three layers that are never mixed in one number: what was observed, bounds that assume no
//! distribution, and models of the tail.
