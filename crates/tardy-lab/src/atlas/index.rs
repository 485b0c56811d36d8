//! The parts of an atlas. Each cell is named by a digest of the inputs of its run.
//!
//! Names of cells must be known before any guest boots. The digest therefore covers only what is
//! known before the guest boots. The digest leaves out the snapshot from which the cell starts,
//! because the snapshot does not exist at that time.
//!
//! All cells of a kernel in one replica form a group. One worker makes these cells and the snapshot
//! from which they start. Each group has a file lock, by which several labs can share an atlas. If
//! a killed lab left unfinished folders in the group, the next holder of the lock removes them.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use tardy_core::units::Nanos;
use tardy_sys::regular_file;

use super::Cells;
use crate::cache::{CacheError, write_whole};
use crate::digest::Digest;
use crate::initramfs;
use crate::machine::Machine;
use crate::qemu::Qemu;
use crate::variant::Variant;

/// Name of the index file in the atlas's folder.
pub const INDEX_NAME: &str = "cells.json";
/// Version of [`Index`].
const VERSION: u32 = 1;
/// Size limit of an index file; real ones are far smaller.
const BYTES_MAX: u64 = 256 << 20;

/// What the user requested: the kernels, loads and replicas.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grid {
    pub variants: Vec<Variant>,
    /// Kernels that could not be found or booted, each with the reason.
    pub absent: Vec<(String, String)>,
    pub loads: Vec<String>,
    pub replicas: u32,
    /// Length of each run, in the guest's time.
    pub length: Nanos,
    /// Additional arguments of `tardy run`.
    pub arguments: Vec<String>,
}

/// The cells of an atlas; some of them may not exist yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Index {
    version: u32,
    #[serde(flatten)]
    pub grid: Grid,
    /// The virtual machine of the guests.
    pub machine: Machine,
    /// QEMU's version text.
    pub qemu: String,
    /// Names of the cells, ordered by variant, then replica, then load.
    keys: Vec<Digest>,
}

impl Index {
    /// Creates the index, and computes the names of all cells.
    ///
    /// # Errors
    /// Returns an error if a file for the guests cannot be read.
    pub fn new(grid: Grid, qemu: &Qemu, cells: &Cells<'_>) -> io::Result<Self> {
        // The initial file system contains only the part of the job that the guest needs before the
        // snapshot. This part is the same for all loads.
        let any_load = grid.loads.first().map_or("", String::as_str);
        let initramfs = initramfs::digest(
            cells.binary,
            &(cells.job_of_cell)(any_load, 0).until_pause(),
            cells.added,
        )?;
        let mut keys =
            Vec::with_capacity(grid.variants.len() * grid.loads.len() * grid.replicas as usize);
        for variant in &grid.variants {
            for replica in 0..grid.replicas {
                for load in &grid.loads {
                    let job = (cells.job_of_cell)(load, replica);
                    let mut inputs = cells
                        .guest(variant, replica, &job)
                        .inputs(qemu, initramfs.clone());
                    inputs.job = Some(Digest::of_bytes(
                        &serde_json::to_vec(&job).expect("a job can always be written as JSON"),
                    ));
                    keys.push(inputs.digest());
                }
            }
        }
        Ok(Self {
            version: VERSION,
            grid,
            machine: cells.machine.clone(),
            qemu: qemu.version.clone(),
            keys,
        })
    }

    /// Returns the loads of a kernel in one replica, with the names of their cells.
    pub fn cells_of(&self, variant: usize, replica: u32) -> impl Iterator<Item = (&str, &Digest)> {
        let loads = &self.grid.loads;
        let first = (variant * self.grid.replicas as usize + replica as usize) * loads.len();
        loads
            .iter()
            .map(String::as_str)
            .zip(self.keys.get(first..).into_iter().flatten())
    }

    /// Returns the number of cells.
    #[must_use]
    pub fn cells(&self) -> usize {
        self.keys.len()
    }

    /// Writes the index into the atlas's folder, replacing the previous one.
    ///
    /// # Errors
    /// Returns [`CacheError::Io`].
    pub fn write(&self, folder: &Path) -> Result<(), CacheError> {
        write_whole(
            &folder.join(INDEX_NAME),
            &serde_json::to_vec_pretty(self).expect("an index can always be written as JSON"),
        )
    }

    /// Reads the index in this folder; returns `None` if there is none.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or its JSON cannot be parsed; returns
    /// `InvalidData` if the file has another version.
    pub fn read(folder: &Path) -> io::Result<Option<Self>> {
        let bytes = match regular_file::read(&folder.join(INDEX_NAME), BYTES_MAX) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            bytes => bytes?,
        };
        let index: Self = serde_json::from_slice(&bytes)?;
        let wanted =
            index.grid.variants.len() * index.grid.loads.len() * index.grid.replicas as usize;
        if index.version != VERSION || index.keys.len() != wanted {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "this version of tardy cannot read this atlas index",
            ));
        }
        Ok(Some(index))
    }
}
