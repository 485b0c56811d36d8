//! Names of types: each is a noun. A participle or a verb (`Taken`, `Found`, `Keep`) says what
//! happened, and not what the value is; two words are enough to say it (`ThreadSamples`,
//! `SearchResult`, `KeptSamples`).

#[cfg(test)]
mod tests {
    use std::path::Path;

    use xtask::workspace;

    /// Forms of verbs that do not end in `ed`, and verbs that are no nouns.
    const VERBS: &str = "Ask Become Been Begun Broken Brought Built Caught Chosen Come Done Drawn \
                         Driven Expiring Explain Explaining Fallen Felt Forgotten Forget Found \
                         Frozen Given Gone Grown Heard Held Hidden Keep Kept Known Laid Led Left \
                         Lent Let Lost Made Make Meant Met Paid Put Read Ridden Risen Running \
                         Said Seen Sent Shown Shut Slept Sought Spent Stood Stuck Sunk Swept Swum \
                         Taken Taught Tell Thrown Told Took Torn Undone Unwritten Waiting Waking \
                         Watching Woken Won Worn Write Written";
    /// Words that end in `ed` and are no participles, or are one that stands for an error:
    /// `Unsupported`, as in `std::io::ErrorKind`.
    const NOUNS: &[&str] = &[
        "Bed",
        "Breed",
        "Deed",
        "Embed",
        "Feed",
        "Need",
        "Seed",
        "Shed",
        "Speed",
        "Unsupported",
    ];

    /// The type that a line declares.
    fn declared(line: &str) -> Option<&str> {
        let line = line.trim_start();
        let behind = match line
            .strip_prefix("pub(")
            .and_then(|rest| rest.split_once(") "))
        {
            Some((_, rest)) => rest,
            None => line.strip_prefix("pub ").unwrap_or(line),
        };
        let name = ["struct ", "enum ", "trait ", "type ", "union "]
            .iter()
            .find_map(|word| behind.strip_prefix(word))?;
        let end = name
            .find(|letter: char| !letter.is_ascii_alphanumeric())
            .unwrap_or(name.len());
        Some(&name[..end])
    }

    fn is_verb(name: &str) -> bool {
        let is_one_word = name
            .chars()
            .skip(1)
            .all(|letter| letter.is_ascii_lowercase());
        is_one_word
            && (VERBS.split(' ').any(|verb| verb == name)
                || name.ends_with("ed") && !NOUNS.contains(&name))
    }

    #[test]
    fn every_type_is_named_by_a_noun() {
        let mut types = 0;
        let mut verbs = Vec::new();
        for place in ["crates", "xtask", "fuzz"] {
            each_source(&workspace::root().join(place), &mut |file, text| {
                for (index, name) in text
                    .lines()
                    .enumerate()
                    .filter_map(|(index, line)| Some((index, declared(line)?)))
                {
                    types += 1;
                    if is_verb(name) {
                        let file = file.strip_prefix(workspace::root()).unwrap_or(file);
                        verbs.push(format!("{}:{}: {name}", file.display(), index + 1));
                    }
                }
            });
        }
        assert!(types > 1_000, "{types} types: they are not found");
        assert!(
            verbs.is_empty(),
            "name each by a noun that describes it, or add a true noun to `NOUNS`:\n{}",
            verbs.join("\n")
        );
    }

    #[test]
    fn a_verb_is_found_in_every_declaration() {
        let lines = [
            "struct Taken {",
            "pub struct Judged(u8);",
            "    pub(super) enum Found {",
            "pub(in crate::probe) trait Keep {",
            "type Told<'a> = &'a str;",
        ];
        assert_eq!(
            lines.map(|line| declared(line).filter(|name| is_verb(name))),
            ["Taken", "Judged", "Found", "Keep", "Told"].map(Some)
        );
        let others = [
            "struct KeptPage {",
            "enum Feed {",
            "fn taken() {",
            "    Taken,",
            "/// struct Taken",
            "let held = Held;",
        ];
        assert_eq!(
            others.map(|line| declared(line).filter(|name| is_verb(name))),
            [None; 6]
        );
    }

    fn each_source(path: &Path, read: &mut dyn FnMut(&Path, &str)) {
        if let Ok(entries) = std::fs::read_dir(path) {
            let places = entries.map(|entry| entry.unwrap().path());
            places
                .filter(|place| !place.ends_with("target"))
                .for_each(|place| each_source(&place, read));
        } else if path.extension().is_some_and(|end| end == "rs") {
            read(path, &std::fs::read_to_string(path).unwrap());
        }
    }
}
