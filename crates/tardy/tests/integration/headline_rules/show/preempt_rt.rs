//! Checks the answer to "Do you need PREEMPT_RT?" against the verdict, the kernel and the loads.

use super::super::Findings;
use super::super::numbers::word_after;
use super::verdict::Verdict;
use super::{Page, loads};

pub(super) fn check(page: &Page, verdict: &Verdict, found: &mut Findings) {
    check_verdict(page, verdict, found);
    check_kernel(page, found);
    check_loads(page, found);
}

fn says(page: &Page, words: &str) -> bool {
    page.answer
        .starts_with(&format!("Do you need PREEMPT_RT? {words}"))
}

fn check_verdict(page: &Page, verdict: &Verdict, found: &mut Findings) {
    let answer = page.answer;
    let fitting = if says(page, "No:") || answer.contains(", but no load ran") {
        "PASSED"
    } else if says(page, "Perhaps:") || says(page, "PREEMPT_RT is not enough") {
        "FAILED"
    } else if answer.contains("do not decide whether") {
        "INCONCLUSIVE"
    } else {
        verdict.word
    };
    found.add_if(
        fitting != verdict.word,
        format_args!(
            "PREEMPT_RT answer fits {fitting}, the verdict is {:?}",
            verdict.word
        ),
    );
}

fn check_kernel(page: &Page, found: &mut Findings) {
    let after = page
        .answer
        .split_once("Linux ")
        .map_or("", |(_, after)| after);
    let end = [" (largest", " do not"]
        .iter()
        .filter_map(|pattern| after.find(pattern))
        .min();
    let kernel = &after[..end.unwrap_or(after.len())];
    let is_real_time = kernel.contains("PREEMPT_RT");
    let is_wrong = if is_real_time {
        says(page, "No:") || says(page, "Perhaps:")
    } else {
        !kernel.is_empty() && says(page, "PREEMPT_RT is not enough")
    };
    found.add_if(
        is_wrong,
        format_args!("PREEMPT_RT answer against its kernel {kernel}"),
    );
    let machine = page.paragraphs.iter().find_map(|line| release(line));
    let of_answer = kernel.split(' ').next();
    found.add_if(
        machine.is_some() && !kernel.is_empty() && of_answer != machine,
        format_args!("PREEMPT_RT answer: Linux {kernel} against the machine's Linux {machine:?}"),
    );
}

/// Finds the kernel release in a line such as `board7: Linux 6.12.0 PREEMPT`.
fn release(line: &str) -> Option<&str> {
    let (host, _) = line.split_once("Linux ")?;
    let is_machine = host.is_empty() || host.ends_with(": ") && !host.trim_end().contains(' ');
    is_machine.then(|| word_after(line, "Linux "))?
}

fn check_loads(page: &Page, found: &mut Findings) {
    let named = loads::named(page);
    let load = named
        .iter()
        .map(|(name, _)| *name)
        .chain(loads::rows(page).iter().map(|row| row.label.as_str()))
        .find(|name| *name != "idle");
    found.add_if(
        page.answer.contains("no load ran") && load.is_some(),
        format_args!("PREEMPT_RT answer says `no load ran`, against load {load:?}"),
    );
}
