//! The thread that answers stimuli. The thread is set up like a probe's thread.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;

use tardy_core::warning::Warning;
use tardy_machine::cgroup;
use tardy_machine::root::Root;
use tardy_probes::link::answer_log::AnswerLog;
use tardy_probes::link::respond::{Responder, ResponderResult};
use tardy_sys::{affinity, memlock, sched, scoped};

use super::responding::ResponderRequest;

const STACK_BYTES: usize = 256 << 10;

/// The responder's thread, which returns the counts of its answers.
pub type ResponderThread = JoinHandle<io::Result<ResponderResult>>;

/// Starts the thread, which answers until `is_over` is set. Returns the thread, and warnings about
/// refused settings.
///
/// # Errors
/// Returns an error if no thread can be started.
pub fn start(
    asked: &ResponderRequest<'_>,
    mut responder: Box<dyn Responder>,
    log: AnswerLog,
    is_over: &Arc<AtomicBool>,
) -> io::Result<(ResponderThread, Vec<Warning>)> {
    let (ready, is_ready) = std::sync::mpsc::sync_channel(1);
    let (cpu, priority, is_over) = (asked.cpu, asked.priority, Arc::clone(is_over));
    let handle = std::thread::Builder::new()
        .name("tardy-respond".into())
        .stack_size(STACK_BYTES)
        .spawn(move || {
            let mut warnings = Vec::new();
            if let Some(cpu) = cpu
                && let Err(error) = affinity::set(0, &[cpu.0])
            {
                warnings.push(Warning::NotBound {
                    cpu,
                    error: error.to_string(),
                });
            }
            if let Some(priority) = priority
                && let Err(error) = sched::set_policy(0, sched::Policy::Fifo { priority })
            {
                warnings.push(Warning::NoRealTimePolicy {
                    policy: format!("SCHED_FIFO {priority}"),
                    error: cgroup::why_no_real_time(&Root::system(), &error),
                });
            }
            memlock::touch_stack();
            let _ = ready.send(warnings);
            drop(ready);
            let mut log = Some(log);
            let mut answered = ResponderResult::default();
            let ended = responder.answer(&is_over, &mut log, &mut answered);
            log.into_iter().for_each(AnswerLog::close);
            ended.map(|()| answered)
        });
    let handle = handle.map_err(scoped::refused)?;
    let warnings = is_ready
        .recv()
        .map_err(|_| io::Error::other("it exited before it was ready"))?;
    Ok((handle, warnings))
}
