//! Metrics of a run in progress, for Prometheus and other readers of OpenMetrics over HTTP
//! (`--metrics`).
//!
//! One thread on the housekeeping CPUs answers all clients. It reads requests as they arrive, so an
//! idle connection does not delay other clients. The recorder never waits for this thread. When a
//! client requests new numbers, the recorder publishes them when it next empties the rings.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tardy_core::cpu::CpuList;
use tardy_core::openmetrics::{self, SeriesMetrics, family, label_list, seconds};
use tardy_core::units::Nanos;
use tardy_live::progress::{LoadProgress, RunProgress};
use tardy_run::record::RunRecord;
use tardy_sys::signal::wait_readable;
use tardy_sys::{affinity, scoped};

const STACK_BYTES: usize = 256 << 10;
/// Interval between checks whether the run has ended.
const LOOK: Duration = Duration::from_millis(250);
/// Back-off after accept(2) fails (e.g. EMFILE).
const REST: Duration = Duration::from_millis(100);
/// How long the server waits for a client's request. The time during which the whole machine was
/// stopped does not count.
const READER_LIMIT: Duration = Duration::from_secs(2);
/// How long the server waits until a client accepts the answer. This time is limited because other
/// clients wait meanwhile. The wait is rare, because an answer usually fits into a socket's buffer.
const ANSWER_LIMIT: Duration = Duration::from_millis(500);
/// Maximum number of open connections. If one more client connects, the server closes the oldest
/// connection.
const READERS_MAX: usize = 64;
/// How long the server waits for new numbers. The recorder publishes eight times a second.
const NUMBERS_LIMIT: Duration = Duration::from_secs(1);
/// Maximum length of a request in bytes.
const QUESTION_BYTES_MAX: usize = 8 << 10;

/// The data that the run shares with the server's thread.
#[derive(Debug, Default)]
pub struct Desk {
    is_wanted: AtomicBool,
    numbers: Mutex<Numbers>,
    have_come: Condvar,
}

#[derive(Debug, Default)]
struct Numbers {
    series: Vec<SeriesMetrics>,
    /// Number of times that `series` has been published.
    edition: u64,
    run: Option<RunStatus>,
}

/// The status of the run, without its samples.
#[derive(Debug, Clone)]
struct RunStatus {
    labels: String,
    started: Nanos,
    progress: RunProgress,
    warnings: usize,
}

/// The thread that serves the metrics, and its address.
#[derive(Debug)]
pub struct MetricsServer {
    desk: Arc<Desk>,
    is_ending: Arc<AtomicBool>,
    handle: Option<JoinHandle<()>>,
}

impl Desk {
    /// Returns whether a client waits for new numbers.
    pub fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Acquire)
    }

    /// Publishes the metrics of all series, unless the server is reading the older ones at this
    /// moment.
    pub fn leave_series(&self, series: impl Iterator<Item = SeriesMetrics>) {
        if let Ok(mut numbers) = self.numbers.try_lock() {
            numbers.series = series.collect();
            numbers.edition += 1;
            self.is_wanted.store(false, Ordering::Release);
            self.have_come.notify_all();
        }
    }

    /// Publishes the status of the run, unless the server is reading the older one at this moment.
    pub fn leave_run(&self, record: &RunRecord, now: Nanos) {
        let Ok(mut numbers) = self.numbers.try_lock() else {
            return;
        };
        let machine = &record.machine;
        let labels = label_list(&[
            ("host", machine.host_name.as_deref().unwrap_or("")),
            ("kernel", machine.kernel.release.as_deref().unwrap_or("")),
            ("scenario", &record.plan.scenario),
            ("version", &record.tool.version),
        ]);
        let is_first = numbers.run.is_none();
        numbers.run = Some(RunStatus {
            labels,
            started: record.started.realtime_ns,
            progress: RunProgress::of(record, String::new(), now),
            warnings: record.warnings.len(),
        });
        if is_first {
            self.have_come.notify_all();
        }
    }

    /// Returns the metrics with the status of the run, as text. Waits for new metrics; if none
    /// arrive in time, returns the previous ones.
    fn text(&self) -> String {
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        let (edition, begin) = (numbers.edition, Instant::now());
        self.is_wanted.store(true, Ordering::Release);
        while numbers.edition == edition || numbers.run.is_none() {
            let left = NUMBERS_LIMIT.saturating_sub(begin.elapsed());
            if left.is_zero() {
                break;
            }
            numbers = self
                .have_come
                .wait_timeout(numbers, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        let (series, run) = (numbers.series.clone(), numbers.run.clone());
        drop(numbers);
        let mut text = openmetrics::series(&series);
        if let Some(run) = run {
            run.write(&mut text);
        }
        text.push_str(openmetrics::END);
        text
    }
}

impl RunStatus {
    fn write(&self, text: &mut String) {
        let Self {
            labels,
            started,
            progress,
            warnings,
        } = self;
        let plain = |value: String| [(String::new(), value)];
        family(
            text,
            "tardy_run_info",
            ("gauge", ""),
            "Host, kernel and scenario of the run.",
            [(labels.clone(), "1".to_owned())],
        );
        let started_help = "Start time of the run, since 1970.";
        family(
            text,
            "tardy_run_started_timestamp_seconds",
            ("gauge", ""),
            started_help,
            plain(seconds(started.get())),
        );
        let elapsed = seconds(progress.elapsed.get().max(0));
        family(
            text,
            "tardy_run_elapsed_seconds",
            ("gauge", ""),
            "Time since the run started.",
            plain(elapsed),
        );
        if let Some(planned) = progress.planned {
            family(
                text,
                "tardy_run_planned_seconds",
                ("gauge", ""),
                "Planned length of the run.",
                plain(seconds(planned.get())),
            );
        }
        family(
            text,
            "tardy_run_warnings",
            ("gauge", ""),
            "Warnings of the run so far.",
            plain(warnings.to_string()),
        );
        if let Some(deadline) = progress.window.map(|window| window.latest) {
            let help = "Deadline of a wake-up.";
            family(
                text,
                "tardy_deadline_seconds",
                ("gauge", ""),
                help,
                plain(seconds(deadline.get())),
            );
        }
        let Some(phase) = progress.phases.last() else {
            return;
        };
        let of_phase = [(label_list(&[("phase", &phase.name)]), "1".to_owned())];
        family(
            text,
            "tardy_run_phase",
            ("gauge", ""),
            "Current phase of the run.",
            of_phase,
        );
        let of_loads = |value: &dyn Fn(&LoadProgress) -> u64| -> Vec<(String, String)> {
            let labels =
                |load: &LoadProgress| label_list(&[("phase", &phase.name), ("load", &load.name)]);
            progress
                .loads
                .iter()
                .map(|load| (labels(load), value(load).to_string()))
                .collect()
        };
        if progress.loads.is_empty() {
            return;
        }
        let help = "Operations of a load in this phase.";
        family(
            text,
            "tardy_load_operations",
            ("counter", "_total"),
            help,
            of_loads(&|load| load.operations),
        );
        let help = "Bytes moved by a load in this phase.";
        family(
            text,
            "tardy_load_bytes",
            ("counter", "_total"),
            help,
            of_loads(&|load| load.bytes),
        );
        let help = "Failed operations of a load in this phase.";
        family(
            text,
            "tardy_load_errors",
            ("counter", "_total"),
            help,
            of_loads(&|load| load.errors),
        );
    }
}

impl MetricsServer {
    /// Answers clients of `listener`, from a thread on `cpus`.
    ///
    /// # Errors
    /// Returns an error if the thread cannot be started.
    pub fn start(listener: TcpListener, cpus: &CpuList) -> io::Result<Self> {
        let cpus: Vec<u32> = cpus.iter().map(|cpu| cpu.0).collect();
        let desk = Arc::new(Desk::default());
        let is_ending = Arc::new(AtomicBool::new(false));
        let (own, ending) = (Arc::clone(&desk), Arc::clone(&is_ending));
        // A client that has disconnected must not delay the end of the run.
        listener.set_nonblocking(true)?;
        let handle = std::thread::Builder::new()
            .name("tardy-metrics".into())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                let _ = affinity::set(0, &cpus);
                let mut readers = Vec::new();
                while !ending.load(Ordering::Acquire) {
                    if serve(&listener, &mut readers, &own).is_err() {
                        return;
                    }
                }
            });
        let handle = handle.map_err(scoped::refused)?;
        Ok(Self {
            desk,
            is_ending,
            handle: Some(handle),
        })
    }

    /// Returns the data shared with the thread.
    pub fn desk(&self) -> &Arc<Desk> {
        &self.desk
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.is_ending.store(true, Ordering::Release);
        if let Some(handle) = self.handle.take() {
            // A panic of the thread was already printed.
            let _ = handle.join();
        }
    }
}

/// A connection whose request is not complete yet.
#[derive(Debug)]
struct Reader {
    stream: TcpStream,
    waited: Duration,
    request: Vec<u8>,
}

/// What was read from a connection.
enum RequestState {
    Incomplete,
    Complete,
    /// The client disconnected, or its request is too long.
    Failed,
}

/// Waits once for connections and requests, and answers complete requests.
///
/// # Errors
/// Returns the errors of ppoll(2).
fn serve(listener: &TcpListener, readers: &mut Vec<Reader>, desk: &Desk) -> io::Result<()> {
    let mut fds = vec![listener.as_fd()];
    fds.extend(readers.iter().map(|reader| reader.stream.as_fd()));
    let begin = Instant::now();
    let ready = wait_readable(&fds, LOOK.as_millis() as i32)?;
    let waited = begin.elapsed().min(LOOK);
    let mut waiting = Vec::new();
    for (mut reader, is_ready) in readers.drain(..).zip(&ready[1..]) {
        let state = if *is_ready {
            reader.read()
        } else {
            RequestState::Incomplete
        };
        reader.waited += waited;
        match state {
            RequestState::Incomplete if reader.waited < READER_LIMIT => {
                waiting.push(reader);
            }
            // The result is ignored, because a client may have disconnected.
            RequestState::Complete => drop(answer(reader, desk)),
            RequestState::Incomplete | RequestState::Failed => {}
        }
    }
    *readers = waiting;
    if ready[0] {
        accept(listener, readers);
    }
    Ok(())
}

fn accept(listener: &TcpListener, readers: &mut Vec<Reader>) {
    match listener.accept() {
        Ok((stream, _)) if stream.set_nonblocking(true).is_ok() => {
            if readers.len() == READERS_MAX {
                readers.remove(0);
            }
            readers.push(Reader {
                stream,
                waited: Duration::ZERO,
                request: Vec::new(),
            });
        }
        Ok(_) => {}
        Err(_) => std::thread::sleep(REST),
    }
}

impl Reader {
    fn read(&mut self) -> RequestState {
        let mut part = [0; 1024];
        loop {
            match self.stream.read(&mut part) {
                Ok(0) => return RequestState::Failed,
                Ok(read) => self.request.extend_from_slice(&part[..read]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return RequestState::Incomplete;
                }
                Err(_) => return RequestState::Failed,
            }
            if self.request.windows(4).any(|end| end == b"\r\n\r\n") {
                return RequestState::Complete;
            }
            if self.request.len() > QUESTION_BYTES_MAX {
                return RequestState::Failed;
            }
        }
    }

    /// Returns the first line of the request.
    fn question(&self) -> String {
        let line = self.request.split(|&byte| byte == b'\r').next();
        String::from_utf8_lossy(line.unwrap_or_default()).into_owned()
    }
}

/// Answers a complete request.
fn answer(reader: Reader, desk: &Desk) -> io::Result<()> {
    let question = reader.question();
    let mut stream = reader.stream;
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(ANSWER_LIMIT))?;
    let mut words = question.split(' ');
    let (status, kind, body) = match (
        words.next(),
        words
            .next()
            .map(|target| target.split('?').next().unwrap_or_default()),
    ) {
        (Some("GET"), Some("/metrics")) => ("200 OK", openmetrics::MEDIA_TYPE, desk.text()),
        (Some("GET"), Some("/")) => (
            "200 OK",
            PLAIN,
            "tardy: a run is in progress. Its metrics are at /metrics.\n".to_owned(),
        ),
        (Some("GET"), Some(_)) => (
            "404 Not Found",
            PLAIN,
            "tardy: the only page is /metrics.\n".to_owned(),
        ),
        _ => (
            "405 Method Not Allowed",
            PLAIN,
            "tardy: only GET is supported.\n".to_owned(),
        ),
    };
    let mut head = String::new();
    let _ = write!(
        head,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: \
         close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}

const PLAIN: &str = "text/plain; charset=utf-8";

/// Opens the address at which metrics are served: a port of the loopback interface, or an address
/// and a port.
///
/// # Errors
/// Returns an error message if `place` is neither a port nor an address with a port, or if the
/// address cannot be used.
pub fn listen(place: &str) -> Result<TcpListener, String> {
    let address: SocketAddr = match place.parse::<u16>() {
        Ok(port) => SocketAddr::from(([127, 0, 0, 1], port)),
        Err(_) => place.parse().map_err(|_| {
            format!("{place} is not a port or an address with a port: give 9877 or 127.0.0.1:9877")
        })?,
    };
    TcpListener::bind(address)
        .map_err(|error| format!("{address} is not available ({error}): give another port"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::OwnedFd;

    fn asked(server: &MetricsServer, address: SocketAddr, question: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(question.as_bytes()).unwrap();
        // The test stands in for the recorder: it waits until the server wants new numbers, and
        // publishes them.
        while !server.desk().is_wanted() && question.contains("/metrics") {
            std::thread::yield_now();
        }
        server.desk().leave_series(std::iter::empty());
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn metrics_are_answered_and_nothing_else_is() {
        let listener = listen("0").unwrap();
        let address = listener.local_addr().unwrap();
        assert!(address.ip().is_loopback());
        let server = MetricsServer::start(listener, &CpuList::default()).unwrap();
        let text = asked(&server, address, "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(
            text.starts_with("HTTP/1.1 200 OK\r\n")
                && text.contains("openmetrics-text")
                && text.ends_with("# EOF\n"),
            "{text}"
        );
        assert!(
            asked(&server, address, "GET /run.json HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404")
        );
        assert!(asked(&server, address, "POST / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
    }

    #[test]
    fn a_reader_that_asks_nothing_or_too_much_is_left() {
        let listener = listen("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = MetricsServer::start(listener, &CpuList::default()).unwrap();
        let mut endless = TcpStream::connect(address).unwrap();
        // The server closes the connection before the client has sent all of this.
        let sent = (0..1 << 16)
            .map_while(|_| endless.write_all(&[b'a'; 1024]).ok())
            .count();
        assert!(sent < 1 << 16);
        drop(TcpStream::connect(address).unwrap());
        assert!(asked(&server, address, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200"));
    }

    #[test]
    fn time_in_which_the_thread_did_not_run_ends_no_connection() {
        let listener = listen("0").unwrap();
        let address = listener.local_addr().unwrap();
        let (mut readers, desk) = (Vec::new(), Desk::default());
        let _first = TcpStream::connect(address).unwrap();
        accept(&listener, &mut readers);
        std::thread::sleep(READER_LIMIT + LOOK);
        let _second = TcpStream::connect(address).unwrap();
        serve(&listener, &mut readers, &desk).unwrap();
        assert_eq!(readers.len(), 2);
        // The time that passed before the first call of `serve` did not count, so both connections
        // are still open. The time that `serve` waits does count.
        let begin = Instant::now();
        while !readers.is_empty() {
            serve(&listener, &mut readers, &desk).unwrap();
        }
        assert!(begin.elapsed() >= READER_LIMIT - LOOK);
    }

    #[test]
    fn a_refused_accept_does_not_keep_the_thread_busy() {
        // accept(2) always fails on this socket.
        let listener = TcpListener::from(OwnedFd::from(UdpSocket::bind("127.0.0.1:0").unwrap()));
        let begin = Instant::now();
        let mut readers = Vec::new();
        accept(&listener, &mut readers);
        assert!(readers.is_empty());
        assert!(begin.elapsed() >= REST);
    }

    #[test]
    fn a_place_that_cannot_be_had_is_refused_in_words() {
        let taken = listen("0").unwrap();
        let address = taken.local_addr().unwrap();
        assert!(
            listen(&address.to_string())
                .unwrap_err()
                .contains("another port")
        );
        assert!(listen("somewhere").unwrap_err().contains("127.0.0.1:9877"));
    }

    #[test]
    fn idle_connections_keep_no_reader_waiting() {
        let listener = listen("0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = MetricsServer::start(listener, &CpuList::default()).unwrap();
        let idle: Vec<TcpStream> = (0..2 * READERS_MAX)
            .map(|_| TcpStream::connect(address).unwrap())
            .collect();
        let mut half = TcpStream::connect(address).unwrap();
        half.write_all(b"GET / HTTP").unwrap();
        // If the server waited for one connection after the other, the idle ones would delay this
        // one for four minutes.
        let text = asked(&server, address, "GET / HTTP/1.1\r\n\r\n");
        assert!(text.contains("200 OK"), "{text}");
        drop(idle);
    }
}
