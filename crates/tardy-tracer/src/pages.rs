//! Reads undecoded pages of the ring buffers, one CPU after the other.

use std::fs::File;
use std::io::{self, Read};

use tardy_core::cpu::CpuList;
use tardy_sys::file::open_without_waiting;

use crate::instance::Instance;

/// Reads the pages of several CPUs.
#[derive(Debug)]
pub(crate) struct PageReader {
    /// The open files; their order is that of [`PageReader::cpus`].
    files: Vec<File>,
    cpus: Vec<u32>,
    /// A buffer for one page.
    page: Vec<u8>,
}

impl PageReader {
    pub(crate) fn open(instance: &Instance, cpus: &CpuList) -> io::Result<Self> {
        let cpus: Vec<u32> = cpus.iter().map(|cpu| cpu.0).collect();
        let path = |cpu: &u32| {
            instance
                .path()
                .join(format!("per_cpu/cpu{cpu}/trace_pipe_raw"))
        };
        let files = cpus
            .iter()
            .map(|cpu| open_without_waiting(&path(cpu)))
            .collect::<io::Result<_>>()?;
        Ok(Self {
            files,
            cpus,
            page: vec![0; instance.layout.page_bytes],
        })
    }

    pub(crate) fn cpus(&self) -> &[u32] {
        &self.cpus
    }

    /// Returns the next page of the CPU with the index `place`; `None` if there is no page yet. A
    /// partly filled page is returned with the events it has so far.
    pub(crate) fn next(&mut self, place: usize) -> io::Result<Option<Vec<u8>>> {
        match self.files[place].read(&mut self.page) {
            Ok(0) => Ok(None),
            Ok(_) => Ok(Some(self.page.clone())),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}
