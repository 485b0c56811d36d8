//! An interactive screen: what it shows, and what keys do. This module does not depend on the
//! terminal.

use crate::content::Content;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    Letter(char),
    Next,
    Previous,
    Escape,
}

impl Key {
    /// Parses the keys in bytes that the terminal has sent.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Vec<Self> {
        let mut keys = Vec::new();
        let mut rest = bytes;
        while let Some((&first, after)) = rest.split_first() {
            rest = after;
            match (first, after) {
                // Arrow keys send ESC [ A to D, or ESC O A to D.
                (0x1b, [b'[' | b'O', last, ..]) => {
                    rest = &after[2..];
                    match last {
                        b'A' | b'D' | b'Z' => keys.push(Self::Previous),
                        b'B' | b'C' => keys.push(Self::Next),
                        // The rest of a longer sequence is dropped, so that its last letter is not
                        // taken for a key.
                        _ => rest = &[],
                    }
                }
                (0x1b, _) => keys.push(Self::Escape),
                (b'\t', _) => keys.push(Self::Next),
                (b' '..=b'~', _) => keys.push(Self::Letter(first.to_ascii_lowercase().into())),
                _ => {}
            }
        }
        keys
    }
}

/// What a key does to the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Mark this moment.
    Mark,
    /// Stop this process's run, or stop watching another process's run.
    End,
}

/// The process that owns the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// This process; the keys can mark and stop the run.
    Own,
    /// Another process; the screen can only show its run.
    Other,
}

#[derive(Debug)]
pub(crate) struct Screen {
    pub(crate) owner: Owner,
    pub(crate) content: Content,
    /// What the screen showed when the user paused it.
    paused: Option<Box<Content>>,
    /// Index of the series whose charts are shown; absent if the charts show all series together.
    pub(crate) selected: Option<usize>,
    /// Whether the screen has asked the user if the run should stop, and waits for the answer.
    pub(crate) is_asking: bool,
    /// Whether the user has stopped the run.
    pub(crate) is_ending: bool,
    /// Whether the terminal sends keys.
    pub(crate) has_keys: bool,
}

impl Screen {
    pub(crate) fn new(owner: Owner, has_keys: bool) -> Self {
        Self {
            owner,
            content: Content::default(),
            paused: None,
            selected: None,
            is_asking: false,
            is_ending: false,
            has_keys,
        }
    }

    /// Returns the content to draw; while the view is paused, this is always the same.
    pub(crate) fn shown(&self) -> &Content {
        self.paused.as_deref().unwrap_or(&self.content)
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    pub(crate) fn press(&mut self, key: Key) -> Option<Action> {
        if std::mem::take(&mut self.is_asking) {
            self.is_ending = key == Key::Letter('y');
            return self.is_ending.then_some(Action::End);
        }
        match key {
            Key::Letter(' ') => {
                self.paused = if self.is_paused() {
                    None
                } else {
                    Some(Box::new(self.content.clone()))
                }
            }
            Key::Next | Key::Letter('n') => self.select(1),
            Key::Previous | Key::Letter('p') => self.select(-1),
            Key::Escape | Key::Letter('a') => self.selected = None,
            Key::Letter('m') if self.owner == Owner::Own => return Some(Action::Mark),
            Key::Letter('q') if self.owner == Owner::Other => return Some(Action::End),
            Key::Letter('q') => self.is_asking = !self.is_ending,
            Key::Letter(_) => {}
        }
        None
    }

    /// Selects the next or previous series. All series together come before the first series and
    /// after the last one.
    fn select(&mut self, step: isize) {
        let places = self.shown().series.len() as isize + 1;
        let place = self.selected.map_or(0, |place| place as isize + 1);
        self.selected = ((place + step).rem_euclid(places) as usize).checked_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tardy_core::accounting::Counts;
    use tardy_core::figures::{Figures, Peaks};

    fn screen(series: usize) -> Screen {
        let mut screen = Screen::new(Owner::Own, true);
        let figures = |_| Figures {
            probe: "cyclic".into(),
            cpu: None,
            counts: Counts::default(),
            misses: None,
            latest: None,
            recent: Peaks::default(),
            numbers: None,
        };
        screen.content.series = (0..series).map(figures).collect();
        screen
    }

    #[test]
    fn keys_are_found_in_what_terminals_send() {
        assert_eq!(
            Key::of_bytes(b"Q\x1b[C\x1bOA\t"),
            [Key::Letter('q'), Key::Next, Key::Previous, Key::Next]
        );
        assert_eq!(Key::of_bytes(b"\x1b"), [Key::Escape]);
        assert_eq!(
            Key::of_bytes(b"\x1b[3~"),
            [],
            "an unused key, and not a letter"
        );
        assert_eq!(Key::of_bytes("ü\x01".as_bytes()), []);
    }

    #[test]
    fn a_run_is_ended_only_after_a_yes() {
        let mut screen = screen(1);
        assert_eq!(
            (screen.press(Key::Letter('q')), screen.is_asking),
            (None, true)
        );
        assert_eq!(
            (screen.press(Key::Letter('m')), screen.is_asking),
            (None, false),
            "any other key means no"
        );
        screen.press(Key::Letter('q'));
        assert_eq!(screen.press(Key::Letter('y')), Some(Action::End));
        assert_eq!(
            (screen.press(Key::Letter('q')), screen.is_asking),
            (None, false),
            "it ends already"
        );
    }

    #[test]
    fn next_goes_through_all_series_and_back_to_all_together() {
        let mut screen = screen(2);
        let mut seen = Vec::new();
        for key in [Key::Next, Key::Next, Key::Next, Key::Previous] {
            screen.press(key);
            seen.push(screen.selected);
        }
        assert_eq!(seen, [Some(0), Some(1), None, Some(1)]);
    }

    #[test]
    fn a_paused_view_stays_as_it_is_while_the_run_goes_on() {
        let mut screen = screen(2);
        screen.press(Key::Letter(' '));
        screen.content.series.clear();
        assert_eq!(screen.shown().series.len(), 2);
        screen.press(Key::Letter(' '));
        assert_eq!(screen.shown().series.len(), 0);
    }

    #[test]
    fn a_run_of_another_process_is_left_alone() {
        let mut screen = Screen::new(Owner::Other, true);
        assert_eq!(screen.press(Key::Letter('m')), None);
        assert_eq!(screen.press(Key::Letter('q')), Some(Action::End));
    }
}
