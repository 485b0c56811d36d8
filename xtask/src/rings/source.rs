//! What a source file says of modules: which it declares, what it imports under which name, and the
//! paths that it names. No compiler; the project's own style, as `cargo fmt` leaves it, is all that
//! it has to read.

use std::collections::{BTreeMap, BTreeSet};

/// One file.
pub(super) struct Source {
    /// `mod NAME;`
    pub(super) modules: Vec<String>,
    /// Imports by the name that they have here.
    pub(super) imports: BTreeMap<String, Vec<String>>,
    /// `use PATH::*;`
    pub(super) globs: Vec<Vec<String>>,
    /// Every path of more than one word that stands in the file, imports among them.
    pub(super) paths: BTreeSet<Vec<String>>,
    defined: BTreeSet<String>,
}

impl Source {
    pub(super) fn parse(text: &str) -> Self {
        let words = without_tests(words(text));
        let mut source = Self {
            modules: Vec::new(),
            imports: BTreeMap::new(),
            globs: Vec::new(),
            paths: BTreeSet::new(),
            defined: BTreeSet::new(),
        };
        let mut at = 0;
        while at < words.len() {
            let next = |offset: usize| words.get(at + offset).map_or("", String::as_str);
            match words[at].as_str() {
                "use" => {
                    let end = at
                        + words[at..]
                            .iter()
                            .position(|word| word == ";")
                            .unwrap_or(words.len() - at);
                    source.import(&[], &words[at + 1..end]);
                    at = end;
                }
                "mod" if next(2) == ";" => source.modules.push(next(1).to_owned()),
                "fn" | "struct" | "enum" | "trait" | "type" | "const" | "static" | "union"
                | "macro_rules" | "!" => {
                    let name = if next(1) == "fn" { next(2) } else { next(1) };
                    source.defined.insert(name.to_owned());
                }
                word if is_name(word) && next(1) == "::" && (at == 0 || words[at - 1] != "::") => {
                    let mut path = vec![word.to_owned()];
                    while words.get(at + 1).is_some_and(|word| word == "::")
                        && words.get(at + 2).is_some_and(|word| is_name(word))
                    {
                        path.push(words[at + 2].clone());
                        at += 2;
                    }
                    source.paths.insert(path);
                }
                _ => {}
            }
            at += 1;
        }
        source
    }

    /// Whether something of this name is defined here.
    pub(super) fn defines(&self, name: &str) -> bool {
        self.defined.contains(name)
    }

    /// Reads a tree of imports: `a::{b as c, d::*}`.
    fn import(&mut self, before: &[String], tree: &[String]) {
        let mut path = before.to_vec();
        let mut at = 0;
        while at < tree.len() {
            match tree[at].as_str() {
                "{" => {
                    let inside = &tree[at + 1..tree.len() - 1];
                    for branch in branches(inside) {
                        self.import(&path, branch);
                    }
                    return;
                }
                "*" => {
                    self.globs.push(path);
                    return;
                }
                "as" => {
                    let name = tree.get(at + 1).cloned().unwrap_or_default();
                    self.paths.insert(path.clone());
                    self.imports.insert(name, path);
                    return;
                }
                "::" => {}
                name => path.push(name.to_owned()),
            }
            at += 1;
        }
        // `use a::{self}` imports `a` under its own name.
        let path: Vec<String> = if path.len() > 1 && path.last().is_some_and(|last| last == "self")
        {
            path[..path.len() - 1].to_vec()
        } else {
            path
        };
        if let Some(name) = path.last().cloned() {
            self.paths.insert(path.clone());
            self.imports.insert(name, path);
        }
    }
}

/// The branches of a tree of imports, parted at the commas outside of braces.
fn branches(words: &[String]) -> Vec<&[String]> {
    let (mut depth, mut begin, mut branches) = (0, 0, Vec::new());
    for (index, word) in words.iter().enumerate() {
        match word.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            "," if depth == 0 => {
                branches.push(&words[begin..index]);
                begin = index + 1;
            }
            _ => {}
        }
    }
    branches.push(&words[begin..]);
    branches.retain(|branch| !branch.is_empty());
    branches
}

fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Names, `::`, and every other sign by itself; without comments, strings and characters.
fn words(text: &str) -> Vec<String> {
    let signs: Vec<char> = text.chars().collect();
    let (mut words, mut at) = (Vec::new(), 0);
    let sign = |at: usize| signs.get(at).copied().unwrap_or('\0');
    while at < signs.len() {
        match signs[at] {
            '/' if sign(at + 1) == '/' => at = end_of(&signs, at, |at| sign(at) == '\n'),
            '/' if sign(at + 1) == '*' => {
                at = end_of(&signs, at, |at| sign(at) == '*' && sign(at + 1) == '/') + 2
            }
            'r' if sign(at + 1) == '"' => at = end_of(&signs, at + 2, |at| sign(at) == '"') + 1,
            'r' if sign(at + 1) == '#' && sign(at + 2) == '"' => {
                at = end_of(&signs, at + 3, |at| sign(at) == '"' && sign(at + 1) == '#') + 2
            }
            '"' => {
                at += 1;
                while at < signs.len() && signs[at] != '"' {
                    at += if signs[at] == '\\' { 2 } else { 1 };
                }
                at += 1;
            }
            // A character, and no lifetime.
            '\'' if sign(at + 1) == '\\' => at = end_of(&signs, at + 3, |at| sign(at) == '\'') + 1,
            '\'' if sign(at + 2) == '\'' => at += 3,
            c if c.is_alphanumeric() || c == '_' => {
                let end = end_of(&signs, at, |at| {
                    !(sign(at).is_alphanumeric() || sign(at) == '_')
                });
                words.push(signs[at..end].iter().collect());
                at = end;
            }
            ':' if sign(at + 1) == ':' => {
                words.push("::".to_owned());
                at += 2;
            }
            c => {
                if !c.is_whitespace() {
                    words.push(c.to_string());
                }
                at += 1;
            }
        }
    }
    words
}

/// The first place from `at` on where `is_end`.
fn end_of(signs: &[char], at: usize, is_end: impl Fn(usize) -> bool) -> usize {
    (at..signs.len())
        .find(|&at| is_end(at))
        .unwrap_or(signs.len())
}

/// Without what stands behind `#[cfg(test)]`: to the end of its braces, or to its semicolon.
fn without_tests(words: Vec<String>) -> Vec<String> {
    const MARK: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let (mut kept, mut at) = (Vec::new(), 0);
    while at < words.len() {
        if !words[at..].iter().take(MARK.len()).eq(MARK.iter()) {
            kept.push(words[at].clone());
            at += 1;
            continue;
        }
        let mut depth = 0;
        at += MARK.len();
        while let Some(word) = words.get(at) {
            at += 1;
            match word.as_str() {
                "{" => depth += 1,
                "}" if depth == 1 => break,
                "}" => depth -= 1,
                ";" if depth == 0 => break,
                _ => {}
            }
        }
    }
    kept
}
