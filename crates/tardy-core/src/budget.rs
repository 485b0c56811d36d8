//! Texts about control groups that have no budget for real-time tasks. The kernel refuses
//! real-time policies in such groups, even to root (CONFIG_RT_GROUP_SCHED).

/// Start of the message for a control group of version 1 with a budget of 0, in which the kernel
/// refuses real-time policies. The group's path follows.
pub const NO_BUDGET: &str = "no real-time budget in the control group ";

/// Start of the message for a control group of version 2, in which the kernel refuses real-time
/// policies. The group's path follows.
pub const NO_BUDGETS: &str = "this kernel gives no real-time budget to control groups of version \
                              2, such as ";

/// Returns the remedy for a refusal with this reason.
#[must_use]
pub fn remedy(reason: &str) -> &'static str {
    if reason.starts_with(NO_BUDGET) {
        "write a budget to the group's cpu.rt_runtime_us, or run outside the group"
    } else if reason.starts_with(NO_BUDGETS) {
        "run in the root control group, or boot Linux 6.18 or later with rt_group_sched=0"
    } else {
        "run as root, or grant CAP_SYS_NICE or an rtprio limit"
    }
}
