//! `tardy lab shell`.

use tardy_core::units::Nanos;
use tardy_lab::binary;
use tardy_lab::guest::SHELL;
use tardy_lab::guest_job::{self, GuestJob, Task};
use tardy_lab::initramfs::{self, AddedFile};
use tardy_lab::machine::kernel_command_line;
use tardy_lab::qemu::{Boot, INITRAMFS_NAME, Plugin};
use tardy_results::exit::Exit;

use super::setting::{LabError, Setting};
use crate::cli::lab::ShellArguments;

pub(super) fn shell(arguments: &ShellArguments) -> Result<Exit, LabError> {
    let setting = Setting::new(&arguments.machine)?;
    let variants = arguments.kernels.variants(
        setting.machine.architecture,
        &setting.cache,
        arguments.machine.refresh,
    )?;
    let [variant] = variants.as_slice() else {
        return Err(LabError::Usage(
            "a shell runs on one kernel: give one --kernel and at most one --preempt".into(),
        ));
    };
    let setting = setting.with_working_accelerator(variant);
    binary::check(&arguments.busybox, setting.machine.architecture).map_err(|error| {
        let path = arguments.busybox.display();
        LabError::Unable(format!(
            "the guest needs a static busybox for its shell: {path}: {error}: install \
             busybox-static, or give one with --busybox"
        ))
    })?;
    let job = GuestJob {
        version: guest_job::VERSION,
        task: Task::Shell,
        settle: Nanos::ZERO,
        time_limit: Nanos::ZERO,
        modules: Vec::new(),
        late_modules: Vec::new(),
        loads: Vec::new(),
        injection: None,
        hand_out_symbols: false,
        scenario: None,
    };
    let busybox = AddedFile {
        source: arguments.busybox.clone(),
        path: SHELL.trim_start_matches('/').to_owned(),
        executable: true,
    };
    let added: Vec<AddedFile> = arguments
        .add
        .iter()
        .map(|add| add.0.clone())
        .chain([busybox])
        .collect();
    let scratch = setting.cache.scratch("shell")?;
    let folder = scratch.path();
    let unable = |error: std::io::Error| LabError::Unable(format!("{}: {error}", folder.display()));
    let written = std::fs::File::create(folder.join(INITRAMFS_NAME)).and_then(|file| {
        initramfs::write(std::io::BufWriter::new(file), &setting.binary, &job, &added)
    });
    let result = written.map_err(unable).and_then(|_| {
        let command_line = kernel_command_line(&setting.machine, &variant.command_line_words(), 0);
        let boot = Boot {
            machine: &setting.machine,
            kernel: &variant.kernel.image,
            command_line: &command_line,
            folder,
            plugin: Plugin::None,
        };
        say!(
            "tardy: `exit` leaves the shell; Ctrl-A X stops the guest; the guest's clock differs \
             from the host's"
        );
        Ok(boot.run_interactively(&setting.qemu)?)
    });
    Ok(if result?.success() {
        Exit::Done
    } else {
        Exit::Machine
    })
}
