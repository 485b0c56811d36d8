//! Checks the links of the pages, and that the start page lists each page of docs/.

#[cfg(test)]
pub(crate) use tests::links;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
    use xtask::workspace;

    /// The links and pictures of a page, and the anchors of its headings.
    struct Page {
        links: Vec<String>,
        anchors: BTreeSet<String>,
    }

    impl Page {
        fn read(path: &Path) -> Self {
            let text = std::fs::read_to_string(path)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let (mut links, mut anchors, mut heading) =
                (Vec::new(), BTreeSet::new(), None::<String>);
            for event in Parser::new_ext(&text, Options::ENABLE_TABLES) {
                match event {
                    Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                        links.push(dest_url.into_string())
                    }
                    Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                    Event::End(TagEnd::Heading(_)) => {
                        anchors.extend(heading.take().map(|text| anchor(&text)));
                    }
                    Event::Text(text) | Event::Code(text) => {
                        if let Some(heading) = &mut heading {
                            heading.push_str(&text);
                        }
                    }
                    _ => {}
                }
            }
            Self { links, anchors }
        }
    }

    /// Returns the targets of a page's links.
    pub(crate) fn links(path: &Path) -> Vec<String> {
        Page::read(path).links
    }

    /// Returns the anchor that forges derive from a heading.
    fn anchor(heading: &str) -> String {
        let kept = heading
            .chars()
            .filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
        kept.map(|c| {
            if c == ' ' {
                '-'
            } else {
                c.to_ascii_lowercase()
            }
        })
        .collect()
    }

    fn files(folder: &Path) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        files.retain(|file| file.extension().is_some_and(|end| end == "md"));
        files.sort();
        files
    }

    #[test]
    fn every_link_of_the_documents_leads_somewhere() {
        let root = workspace::root();
        let docs = files(&root.join("docs"));
        let mut dead = Vec::new();
        let mut links = 0;
        for file in files(root).iter().chain(&docs) {
            for link in Page::read(file)
                .links
                .iter()
                .filter(|link| !link.contains("://"))
            {
                links += 1;
                let (path, wanted) = link
                    .split_once('#')
                    .map_or((link.as_str(), None), |(path, anchor)| (path, Some(anchor)));
                let target = if path.is_empty() {
                    file.clone()
                } else {
                    file.with_file_name(path)
                };
                let is_there = target.exists()
                    && wanted.is_none_or(|wanted| Page::read(&target).anchors.contains(wanted));
                // A link that leads out of docs/ would be dead in a copy of docs/ alone, so it
                // counts as dead here.
                let stays = !docs.contains(file) || !link.starts_with("..");
                if !is_there || !stays {
                    dead.push(format!(
                        "{}: {link}",
                        file.strip_prefix(root).unwrap_or(file).display()
                    ));
                }
            }
        }
        assert!(dead.is_empty(), "{}", dead.join("\n"));
        assert!(links > 50, "{links} links");
    }

    #[test]
    fn the_start_page_lists_every_page() {
        let docs = workspace::root().join("docs");
        let listed: BTreeSet<String> = Page::read(&docs.join("README.md"))
            .links
            .into_iter()
            .collect();
        let pages = files(&docs).into_iter().map(|file| {
            file.file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned()
        });
        assert_eq!(
            pages
                .filter(|page| page != "README.md")
                .collect::<BTreeSet<_>>(),
            listed
        );
    }

    #[test]
    fn anchors_are_those_of_forges() {
        assert_eq!(
            anchor("Is this number good? Is this `real time`?"),
            "is-this-number-good-is-this-real-time"
        );
    }
}
