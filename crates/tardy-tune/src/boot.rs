//! Lists settings that need a reboot. They are words for the kernel's command line; this module
//! also describes how to pass them to each boot loader
//! (Documentation/admin-guide/kernel-parameters.txt).

use tardy_core::cpu::CpuList;
use tardy_machine::checks::Profile;

/// A word of the kernel's command line, and its purpose, worded as the end of a sentence.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct BootWord {
    pub word: String,
    pub why: String,
}

/// The boot loaders, each with a description of how to add words to the kernel's command line.
pub const LOADERS: [(&str, &str); 4] = [
    (
        "GRUB",
        "add these parameters to GRUB_CMDLINE_LINUX_DEFAULT in /etc/default/grub, then run update-grub \
         (Debian, Ubuntu) or grub2-mkconfig -o /boot/grub2/grub.cfg",
    ),
    (
        "systemd-boot",
        "add these parameters to /etc/kernel/cmdline and install the kernel again, or to `options` in \
         /boot/loader/entries/*.conf",
    ),
    (
        "extlinux",
        "add these parameters to `append` in /boot/extlinux/extlinux.conf",
    ),
    (
        "U-Boot",
        "setenv bootargs \"${bootargs} PARAMETERS\"; saveenv",
    ),
];

/// Words that a search in virtual time tries by default: words that real-time guides recommend and
/// that affect a guest with one CPU, and their opposites.
pub const TRIED: [&str; 13] = [
    "preempt=none",
    "preempt=full",
    "threadirqs",
    "highres=off",
    "nohz=off",
    "skew_tick=1",
    "nowatchdog",
    "idle=poll",
    "mitigations=off",
    "rcu_nocbs=0",
    "rcutree.use_softirq=0",
    "transparent_hugepage=never",
    "init_on_alloc=0",
];

/// Kernel parameters whose value is a list of CPUs.
const CPU_WORDS: [&str; 4] = ["isolcpus", "irqaffinity", "rcu_nocbs", "nohz_full"];

/// Returns the words that must be added to `command_line` so that it suits `profile`, with its
/// tasks on `cpus`. A word that `command_line` already has, but with a list of CPUs that does not
/// fit, is also returned. `others` are the remaining CPUs. If there are none, no CPU can be
/// isolated.
#[must_use]
pub fn words(
    profile: Profile,
    cpus: &CpuList,
    others: &CpuList,
    command_line: &str,
    is_real_time: bool,
) -> Vec<BootWord> {
    let mut words = Vec::new();
    let mut add = |name: &str, value: String, why: &str| {
        let there: Vec<&str> = command_line
            .split_whitespace()
            .filter(|word| word.split('=').next() == Some(name))
            .collect();
        let fits = |word: &&str| match cpus_in(word) {
            Some(found) if name == "irqaffinity" => found.and(cpus).is_empty(),
            Some(found) => cpus.minus(&found).is_empty(),
            None => true,
        };
        if there.iter().any(fits) {
            return;
        }
        let word = if value.is_empty() {
            name.to_owned()
        } else {
            format!("{name}={value}")
        };
        let why = match there.as_slice() {
            [] => why.to_owned(),
            with_others => format!("{why} (instead of {})", with_others.join(" ")),
        };
        words.push(BootWord { word, why });
    };
    if !is_real_time {
        add(
            "preempt",
            "full".into(),
            "tasks can be preempted in the kernel, too; PREEMPT_RT goes further",
        );
        add(
            "threadirqs",
            String::new(),
            "interrupt handlers run in threads with priorities",
        );
    }
    if !others.is_empty() {
        add(
            "isolcpus",
            format!("managed_irq,domain,{cpus}"),
            "other tasks and queue interrupts stay off these CPUs",
        );
        add(
            "irqaffinity",
            others.to_string(),
            "interrupts go to the other CPUs from boot on",
        );
        add(
            "rcu_nocbs",
            cpus.to_string(),
            "RCU callbacks run on the other CPUs",
        );
        if profile.is_busy() {
            add(
                "nohz_full",
                cpus.to_string(),
                "a task alone on its CPU is not interrupted by the tick",
            );
        }
    }
    add(
        "skew_tick",
        "1".into(),
        "timer ticks of different CPUs do not contend for the same lock",
    );
    add(
        "nowatchdog",
        String::new(),
        "the lockup detectors set no timers",
    );
    words
}

/// Returns the CPUs in a word such as `isolcpus=managed_irq,domain,2-3`; `None` if the word has no
/// number of a CPU.
fn cpus_in(word: &str) -> Option<CpuList> {
    let (name, value) = word.split_once('=')?;
    if !CPU_WORDS.contains(&name) {
        return None;
    }
    let numbers: Vec<&str> = value
        .split(',')
        .filter(|part| part.starts_with(|first: char| first.is_ascii_digit()))
        .collect();
    let cpus: CpuList = numbers.join(",").parse().ok()?;
    (!cpus.is_empty()).then_some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(
        profile: Profile,
        others: &str,
        command_line: &str,
        is_real_time: bool,
    ) -> Vec<String> {
        let others = if others.is_empty() {
            CpuList::default()
        } else {
            others.parse().unwrap()
        };
        words(
            profile,
            &"2-3".parse().unwrap(),
            &others,
            command_line,
            is_real_time,
        )
        .into_iter()
        .map(|word| word.word)
        .collect()
    }

    #[test]
    fn what_is_on_the_command_line_is_not_said_again() {
        let all = texts(Profile::Periodic, "0-1", "quiet", false);
        let expected = [
            "preempt=full",
            "threadirqs",
            "isolcpus=managed_irq,domain,2-3",
            "irqaffinity=0-1",
            "rcu_nocbs=2-3",
            "skew_tick=1",
            "nowatchdog",
        ];
        assert_eq!(all, expected);
        assert!(texts(Profile::Periodic, "0-1", &expected.join(" "), false).is_empty());
    }

    #[test]
    fn a_word_with_other_cpus_does_not_count() {
        let there = "isolcpus=managed_irq,domain,4-5 irqaffinity=0-3 rcu_nocbs=1-3 nohz_full=3 \
                     preempt=full threadirqs skew_tick=1 nowatchdog";
        assert_eq!(
            texts(Profile::Polling, "0-1", there, false),
            [
                "isolcpus=managed_irq,domain,2-3",
                "irqaffinity=0-1",
                "nohz_full=2-3"
            ]
        );
        let cpus: CpuList = "2-3".parse().unwrap();
        let others: CpuList = "0-1".parse().unwrap();
        let found = words(Profile::Periodic, &cpus, &others, there, true);
        assert_eq!(
            found[0].why,
            "other tasks and queue interrupts stay off these CPUs (instead of \
             isolcpus=managed_irq,domain,4-5)"
        );
        let unknown = "isolcpus=domain,0-N irqaffinity=all rcu_nocbs nohz_full=1-7";
        assert_eq!(
            texts(Profile::Polling, "0-1", unknown, true),
            ["skew_tick=1", "nowatchdog"]
        );
    }

    #[test]
    fn profiles_and_machines_differ() {
        assert!(texts(Profile::Polling, "0", "", true).contains(&"nohz_full=2-3".to_owned()));
        assert_eq!(
            texts(Profile::Periodic, "", "", true),
            ["skew_tick=1", "nowatchdog"]
        );
    }
}
