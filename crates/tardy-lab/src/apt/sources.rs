//! The machine's package sources, read from both of apt's formats (sources.list(5)), and the same
//! sources for another release.
//!
//! tardy itself contains no addresses of servers. It fetches other releases of Debian from the
//! servers that the machine's own release comes from.

use std::path::Path;

use tardy_sys::regular_file;

/// Size limit of a file with package sources; real ones are far smaller.
const BYTES_MAX: u64 = 1 << 20;

/// Debian's releases with kernels worth comparing, oldest first. The machine's own sources decide
/// which of these releases can be fetched.
pub const RELEASES: [&str; 5] = ["bullseye", "bookworm", "trixie", "forky", "sid"];

/// Names that may stand in a sources file in place of a release's code name.
const ALIASES: [&str; 5] = ["oldoldstable", "oldstable", "stable", "testing", "unstable"];

/// One entry: the addresses of servers, and the suites and components that are fetched from them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Source {
    /// Addresses, separated by blanks.
    pub uris: String,
    /// Suites, such as `bookworm` and `bookworm-updates`.
    pub suites: Vec<String>,
    /// Components, separated by blanks.
    pub components: String,
    /// Other options of the entry, such as `Signed-By`, which are copied unchanged. A signing key
    /// that is written in the entry itself keeps its line breaks.
    pub options: Vec<(String, String)>,
}

/// Reads every source of binary packages below `root` (`/`, or a test's folder):
/// `etc/apt/sources.list` and `etc/apt/sources.list.d`. Skips files that this user cannot read, as
/// apt does.
#[must_use]
pub fn read_all(root: &Path) -> Vec<Source> {
    let etc = root.join("etc/apt");
    let mut paths = vec![etc.join("sources.list")];
    let mut parts: Vec<_> = std::fs::read_dir(etc.join("sources.list.d"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    parts.sort();
    paths.append(&mut parts);
    let mut sources = Vec::new();
    for path in paths {
        let read = regular_file::read(&path, BYTES_MAX)
            .ok()
            .and_then(|bytes| String::from_utf8(bytes).ok());
        let Some(text) = read else { continue };
        sources.extend(parse(&path, &text));
    }
    sources
}

/// Parses the sources in a file. The file's extension determines in which of the two formats it is
/// parsed. Returns no sources if the file does not belong to apt.
#[must_use]
pub fn parse(path: &Path, text: &str) -> Vec<Source> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("list") => text.lines().filter_map(one_line).collect(),
        Some("sources") => paragraphs(text).iter().filter_map(from_fields).collect(),
        _ => Vec::new(),
    }
}

/// Parses a line such as `deb [signed-by=/x arch=amd64] URI SUITE COMPONENT...`.
fn one_line(line: &str) -> Option<Source> {
    let line = line.split('#').next().unwrap_or_default().trim();
    let rest = line.strip_prefix("deb")?;
    let rest = rest
        .starts_with([' ', '\t', '['])
        .then(|| rest.trim_start())?;
    let (options, rest) = match rest.strip_prefix('[') {
        Some(inside) => inside.split_once(']')?,
        None => ("", rest),
    };
    let mut words = rest.split_whitespace();
    let (uris, suite) = (words.next()?.to_owned(), words.next()?.to_owned());
    let components: Vec<_> = words.collect();
    let option = |word: &str| {
        let (name, value) = word.split_once('=')?;
        Some((kept_option(name)?.to_owned(), value.replace(',', " ")))
    };
    let options = options.split_whitespace().filter_map(option).collect();
    Some(Source {
        uris,
        suites: vec![suite],
        components: components.join(" "),
        options,
    })
}

/// If the option concerns trust, returns its name as spelled in a `.sources` paragraph. Returns
/// `None` for other options, such as architectures and languages: these are not copied, because the
/// tool chooses these itself.
fn kept_option(name: &str) -> Option<&'static str> {
    const KEPT: [&str; 5] = [
        "Signed-By",
        "Trusted",
        "Allow-Insecure",
        "Check-Valid-Until",
        "Check-Date",
    ];
    KEPT.into_iter()
        .find(|kept| kept.eq_ignore_ascii_case(name))
}

type Fields = Vec<(String, String)>;

/// Splits a text into paragraphs of `Name: value` fields. Indented lines continue a value.
fn paragraphs(text: &str) -> Vec<Fields> {
    let mut paragraphs = vec![Fields::new()];
    for line in text.lines() {
        if line.starts_with('#') {
            continue;
        }
        if line.trim().is_empty() {
            paragraphs.push(Fields::new());
        } else if line.starts_with([' ', '\t']) {
            if let Some((_, value)) = paragraphs.last_mut().and_then(|fields| fields.last_mut()) {
                value.push('\n');
                value.push_str(line);
            }
        } else if let (Some((name, value)), Some(fields)) =
            (line.split_once(':'), paragraphs.last_mut())
        {
            fields.push((name.trim().to_owned(), value.trim().to_owned()));
        }
    }
    paragraphs
}

fn from_fields(fields: &Fields) -> Option<Source> {
    let get = |name: &str| {
        fields
            .iter()
            .find(|(field, _)| field.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    };
    let words = |text: &str| {
        text.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    if get("Enabled").is_some_and(|value| value.eq_ignore_ascii_case("no"))
        || !words(get("Types")?).contains(&"deb".to_owned())
    {
        return None;
    }
    let options = fields
        .iter()
        .filter_map(|(name, value)| Some((kept_option(name)?.to_owned(), value.clone())))
        .collect();
    Some(Source {
        uris: words(get("URIs")?).join(" "),
        suites: words(get("Suites")?),
        components: words(get("Components").unwrap_or_default()).join(" "),
        options,
    })
}

/// Returns the machine's Debian sources, changed to fetch `release` (such as `trixie` or
/// `bookworm-backports`). Returns no sources if the machine has no Debian sources. Includes updates
/// and security fixes of the release if the machine's own sources include them; unstable and
/// backports have neither.
#[must_use]
pub fn for_release(sources: &[Source], release: &str) -> Vec<Source> {
    let alone = release.ends_with("-backports") || release == "sid";
    let turn = |suite: &String| {
        let (base, pocket) = suite.split_once(['-', '/']).unwrap_or((suite, ""));
        if !RELEASES.contains(&base) && !ALIASES.contains(&base) {
            return None;
        }
        match pocket {
            "" => Some(release.to_owned()),
            "updates" | "security" if !alone => Some(format!("{release}-{pocket}")),
            _ => None,
        }
    };
    let mut turned: Vec<Source> = Vec::new();
    for source in sources {
        let mut suites: Vec<String> = source.suites.iter().filter_map(turn).collect();
        suites.dedup();
        let source = Source {
            suites,
            ..source.clone()
        };
        if !source.suites.is_empty() && !turned.contains(&source) {
            turned.push(source);
        }
    }
    turned
}

/// Returns a source as a paragraph for a `.sources` file. The paragraph makes apt fetch only
/// package lists.
#[must_use]
pub fn paragraph(source: &Source) -> String {
    let mut text = format!(
        "Types: deb\nURIs: {}\nSuites: {}\nComponents: {}\nTargets: Packages\n",
        source.uris,
        source.suites.join(" "),
        source.components
    );
    for (name, value) in &source.options {
        text.push_str(&format!("{name}: {value}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE_LINE: &str = "# comment\ndeb-src http://example.org/debian bookworm main\n\
        deb [arch=amd64 signed-by=/k.gpg] http://example.org/debian bookworm main contrib # why\ndeb http://example.org/tool tool main\n";
    const DEB822: &str = "Types: deb\n# comment\nURIs: http://example.org/debian\nSuites: bookworm bookworm-updates\nComponents: main\nSigned-By:\n -----BEGIN\n .\n abc\n\n\
        Types: deb\nURIs: http://example.org/security\nSuites: bookworm-security\nComponents: main\n\n\
        Enabled: no\nTypes: deb\nURIs: http://example.org/off\nSuites: bookworm\n\nTypes: deb-src\nURIs: http://x\nSuites: bookworm\n";

    fn read_from(name: &str, text: &str) -> Vec<Source> {
        let folder = tempfile::tempdir().unwrap();
        let parts = folder.path().join("etc/apt/sources.list.d");
        std::fs::create_dir_all(&parts).unwrap();
        std::fs::write(parts.join(name), text).unwrap();
        read_all(folder.path())
    }

    #[test]
    fn one_line_entries_are_read_and_turned_to_another_release() {
        let sources = read_from("debian.list", ONE_LINE);
        assert_eq!(sources.len(), 2);
        let turned = for_release(&sources, "trixie");
        let options = vec![("Signed-By".to_owned(), "/k.gpg".to_owned())];
        let expected = Source {
            uris: "http://example.org/debian".into(),
            suites: vec!["trixie".into()],
            components: "main contrib".into(),
            options,
        };
        assert_eq!(turned, [expected]);
    }

    #[test]
    fn paragraphs_are_read_with_keys_in_place_and_without_what_is_switched_off() {
        let sources = read_from("debian.sources", DEB822);
        assert_eq!(sources.len(), 2);
        assert_eq!(
            sources[0].options,
            [("Signed-By".to_owned(), "\n -----BEGIN\n .\n abc".to_owned())]
        );
        let suites: Vec<_> = for_release(&sources, "bullseye")
            .into_iter()
            .map(|source| source.suites)
            .collect();
        assert_eq!(
            suites,
            [
                vec!["bullseye".to_owned(), "bullseye-updates".to_owned()],
                vec!["bullseye-security".to_owned()]
            ]
        );
        assert!(paragraph(&sources[0]).contains("Targets: Packages\nSigned-By: \n -----BEGIN\n"));
    }

    #[test]
    fn unstable_and_backports_come_alone() {
        let sources = read_from("debian.sources", DEB822);
        for release in ["sid", "bookworm-backports"] {
            let suites: Vec<_> = for_release(&sources, release)
                .into_iter()
                .flat_map(|source| source.suites)
                .collect();
            assert_eq!(suites, [release]);
        }
    }

    #[test]
    fn a_machine_of_another_distribution_has_no_debian_release() {
        assert!(
            for_release(
                &read_from("x.list", "deb http://example.org/ubuntu noble main\n"),
                "trixie"
            )
            .is_empty()
        );
    }
}
