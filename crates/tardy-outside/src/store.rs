//! What is stored about a watched guest in its run folder: every section (compressed), and the
//! names of the functions in which sections start and end.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use serde::{Deserialize, Serialize};
use tardy_run::output_file::replace_in_run;
use tardy_sys::regular_file;

use crate::kernel_symbols::{Function, KernelSymbols};
use crate::stream::{End, Item, StreamError, StreamReader};

/// Name of the folder, within a run folder, that contains what is stored about the guest.
pub const FOLDER: &str = "outside";
const SECTIONS_NAME: &str = "sections";
const DESCRIPTION_NAME: &str = "outside.json";
/// Maximum size of the description. Real descriptions contain the names of a kernel's functions,
/// and are smaller.
const DESCRIPTION_BYTES_MAX: u64 = 256 << 20;
/// Maximum virtual time of an instruction in ns. QEMU has no slower clock (`-icount shift`, at most
/// 10).
const INSTRUCTION_NS_MAX: u64 = 1 << 10;
/// Version of [`WatchedGuest`]. Version 1 stores sections; version 2 also stores the code executed
/// before the worst samples; version 3 also stores the longest intervals.
const VERSION: u32 = 3;

/// What is stored about a watched guest, except its sections.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchedGuest {
    /// Version of this file.
    pub version: u32,
    /// Virtual time of one instruction in ns.
    pub instruction_ns: u64,
    /// Number of stored sections.
    pub sections: u64,
    /// Number of interrupts that came while interrupts seemed to be off.
    pub corrected: u64,
    /// Number of sections that were left out because there were too many code addresses at which
    /// sections started or ended.
    pub unstored: u64,
    /// Whether the plugin could see sections with preemption off.
    pub knows_preemption: bool,
    /// Names of functions by address (hexadecimal).
    pub functions: BTreeMap<String, String>,
    /// Number of samples for which the code executed before them is stored.
    #[serde(default)]
    pub windows: u64,
    /// Number of worst samples for which the code executed before them could not be stored.
    #[serde(default)]
    pub left_out_windows: u64,
    /// Whether the plugin saw the scheduler run.
    #[serde(default)]
    pub knows_scheduler: bool,
    /// Number of intervals that were the longest of their kind so far, but whose call path could
    /// not be stored.
    #[serde(default)]
    pub left_out_paths: u64,
    /// The functions whose code was executed before the worst samples, and before the longest
    /// intervals.
    #[serde(default)]
    pub code: Vec<Function>,
}

/// Why the plugin's output cannot be stored, or cannot be read back.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("{}: {error}", path.display())]
    File { path: PathBuf, error: io::Error },
    #[error("{}: {error}", path.display())]
    Stream { path: PathBuf, error: StreamError },
    #[error("{}: {instruction_ns} ns per instruction is more than any guest takes: the file is \
             damaged", path.display())]
    Clock { path: PathBuf, instruction_ns: u64 },
    #[error("{}: version {version} is newer than this tardy, which knows {VERSION}", path.display())]
    Version { path: PathBuf, version: u32 },
}

fn file_error(path: &Path) -> impl FnOnce(io::Error) -> StoreError + use<> {
    let path = path.to_owned();
    move |error| StoreError::File { path, error }
}

/// Stores the plugin's output `raw` in the run folder, compressed and with a description, and
/// removes `raw`.
///
/// # Errors
/// Returns [`StoreError`].
pub fn keep(
    raw: &Path,
    run: &Path,
    symbols: &KernelSymbols,
    instruction_ns: u64,
) -> Result<WatchedGuest, StoreError> {
    let stream_error = |error| StoreError::Stream {
        path: raw.to_owned(),
        error,
    };
    let open = || File::open(raw).map_err(file_error(raw));
    let mut reader = StreamReader::new(BufReader::new(open()?)).map_err(stream_error)?;
    let (mut sections, mut windows, mut of_longest) = (0, 0, Vec::new());
    let end = loop {
        match reader.next_item().map_err(stream_error)? {
            Item::Section(_) => sections += 1,
            Item::Window(_) => windows += 1,
            Item::Longest(longest) => of_longest.extend([longest.begin_pc, longest.end_pc]),
            Item::Mark { .. } => {}
            Item::End(end) => break end,
        }
    };
    let addresses = reader
        .sites()
        .iter()
        .flat_map(|site| [site.begin_pc, site.end_pc])
        .chain(of_longest);
    let name = |address: u64| {
        Some((
            format!("{address:x}"),
            symbols.function(address)?.to_owned(),
        ))
    };
    let functions = addresses.filter_map(name).collect();
    let code = symbols.functions(reader.blocks().iter().map(|block| block.pc));
    let End {
        corrected,
        unstored,
        knows_preemption,
        left_out_windows,
        knows_scheduler,
        left_out_paths,
    } = end;
    let watched = WatchedGuest {
        version: VERSION,
        instruction_ns,
        sections,
        corrected,
        unstored,
        knows_preemption,
        functions,
        windows,
        left_out_windows,
        knows_scheduler,
        left_out_paths,
        code,
    };

    let folder = run.join(FOLDER);
    std::fs::create_dir_all(&folder).map_err(file_error(&folder))?;
    let path = folder.join(SECTIONS_NAME);
    let packed = replace_in_run(&path, |file| {
        let mut encoder = DeflateEncoder::new(BufWriter::new(file), Compression::new(6));
        io::copy(&mut File::open(raw)?, &mut encoder)?;
        encoder
            .finish()?
            .into_inner()
            .map(drop)
            .map_err(|error| error.into_error())
    });
    packed.map_err(file_error(&path))?;
    let path = folder.join(DESCRIPTION_NAME);
    let text =
        serde_json::to_vec_pretty(&watched).expect("a description can always be written as JSON");
    replace_in_run(&path, |mut file| file.write_all(&text)).map_err(file_error(&path))?;
    std::fs::remove_file(raw).map_err(file_error(raw))?;
    Ok(watched)
}

/// Returns what the run folder contains about its guest; `None` if the guest was not watched.
///
/// # Errors
/// Returns [`StoreError`].
pub fn read(run: &Path) -> Result<Option<WatchedGuest>, StoreError> {
    let path = run.join(FOLDER).join(DESCRIPTION_NAME);
    let bytes = match regular_file::read(&path, DESCRIPTION_BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(StoreError::File { path, error }),
    };
    let watched: WatchedGuest =
        serde_json::from_slice(&bytes).map_err(|error| StoreError::File {
            path: path.clone(),
            error: error.into(),
        })?;
    if watched.version > VERSION {
        return Err(StoreError::Version {
            path,
            version: watched.version,
        });
    }
    if watched.instruction_ns > INSTRUCTION_NS_MAX {
        return Err(StoreError::Clock {
            path,
            instruction_ns: watched.instruction_ns,
        });
    }
    Ok(Some(watched))
}

/// Passes each item of a run folder to `take`, in the order in which the plugin wrote them:
/// sections come in the order of their ends.
///
/// # Errors
/// Returns [`StoreError`].
pub fn read_items(
    run: &Path,
    mut take: impl FnMut(Item, &StreamReader<BufReader<DeflateDecoder<BufReader<File>>>>),
) -> Result<(), StoreError> {
    let path = run.join(FOLDER).join(SECTIONS_NAME);
    let file = regular_file::open(&path).map_err(file_error(&path))?;
    let stream_error = |error| StoreError::Stream {
        path: path.clone(),
        error,
    };
    let mut reader = StreamReader::new(BufReader::new(DeflateDecoder::new(BufReader::new(file))))
        .map_err(stream_error)?;
    loop {
        let item = reader.next_item().map_err(stream_error)?;
        let is_end = matches!(item, Item::End(_));
        take(item, &reader);
        if is_end {
            return Ok(());
        }
    }
}
