//! Draws frames with those escape sequences of ECMA-48 that all terminals and the Linux console
//! understand (console_codes(4)).

use std::io::{self, Write};

use ratatui::backend::{Backend, ClearType, WindowSize};
use ratatui::buffer::Cell;
use ratatui::layout::{Position, Rect, Size};
use ratatui::style::{Color, Modifier};
use tardy_sys::printable::printable;

/// Switches to the alternate screen, which has no scrollback, and hides the cursor.
pub(crate) const ENTER: &str = "\x1b[?1049h\x1b[?25l";
/// Shows the shell's screen and the cursor again.
pub(crate) const LEAVE: &str = "\x1b[?1049l\x1b[?25h";

/// Text attributes that the view uses, with their SGR numbers.
const ATTRIBUTES: [(Modifier, u8); 2] = [(Modifier::BOLD, 1), (Modifier::REVERSED, 7)];

/// A terminal of a known size.
pub(crate) struct Ansi<W> {
    pub(crate) out: W,
    pub(crate) size: Rect,
}

impl<W: Write> Backend for Ansi<W> {
    type Error = io::Error;

    fn draw<'a, I>(&mut self, content: I) -> io::Result<()>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        let (mut next, mut style) = (None, None);
        for (x, y, cell) in content {
            if next != Some((x, y)) {
                self.set_cursor_position((x, y))?;
            }
            next = Some((x + 1, y));
            if style != Some(cell.style()) {
                write!(self.out, "\x1b[0")?;
                for (modifier, number) in ATTRIBUTES {
                    if cell.modifier.contains(modifier) {
                        write!(self.out, ";{number}")?;
                    }
                }
                let (text, ground) = (color(cell.fg), color(cell.bg));
                write!(self.out, ";3{text};4{ground}m")?;
                style = Some(cell.style());
            }
            write!(self.out, "{}", printable(cell.symbol()))?;
        }
        write!(self.out, "\x1b[0m")
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        write!(self.out, "\x1b[?25l")
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        write!(self.out, "\x1b[?25h")
    }

    fn get_cursor_position(&mut self) -> io::Result<Position> {
        // The position is arbitrary, because the view shows no cursor.
        Ok(Position::ORIGIN)
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        let Position { x, y } = position.into();
        write!(self.out, "\x1b[{};{}H", y + 1, x + 1)
    }

    fn clear(&mut self) -> io::Result<()> {
        self.clear_region(ClearType::All)
    }

    fn clear_region(&mut self, region: ClearType) -> io::Result<()> {
        let sequence = match region {
            ClearType::All => "\x1b[2J",
            ClearType::AfterCursor => "\x1b[J",
            ClearType::BeforeCursor => "\x1b[1J",
            ClearType::CurrentLine => "\x1b[2K",
            ClearType::UntilNewLine => "\x1b[K",
        };
        write!(self.out, "{sequence}")
    }

    fn size(&self) -> io::Result<Size> {
        Ok(self.size.as_size())
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        Ok(WindowSize {
            columns_rows: self.size.as_size(),
            pixels: Size::ZERO,
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Returns the last digit of the SGR number of a colour that the view uses, or of the terminal's
/// default colour.
fn color(color: Color) -> u8 {
    match color {
        Color::Red => 1,
        Color::Green => 2,
        Color::Yellow => 3,
        Color::Blue => 4,
        Color::Magenta => 5,
        Color::Cyan => 6,
        _ => 9,
    }
}

#[cfg(test)]
mod tests {
    use ratatui::style::Style;

    use super::*;

    #[test]
    fn a_terminal_shows_the_cells_where_they_belong() {
        let mut plain = Cell::new("a");
        plain.set_style(Style::new());
        let mut late = Cell::new("b");
        late.set_style(
            Style::new()
                .fg(Color::Red)
                .add_modifier(Modifier::BOLD | Modifier::REVERSED),
        );
        let mut ansi = Ansi {
            out: Vec::new(),
            size: Rect::new(0, 0, 10, 4),
        };
        let cells = [(3, 1, &plain), (4, 1, &late), (0, 2, &late)];
        ansi.draw(cells.into_iter()).unwrap();
        let mut parser = vt100::Parser::new(4.try_into().unwrap(), 10.try_into().unwrap(), 0);
        parser.process(&ansi.out);
        let cell = |row, column| parser.screen().cell(row, column).unwrap().clone();
        assert_eq!(cell(1, 3).contents(), "a");
        assert!(!cell(1, 3).bold() && cell(1, 3).fgcolor() == vt100::Color::Default);
        for late in [cell(1, 4), cell(2, 0)] {
            assert_eq!(late.contents(), "b");
            assert!(late.bold() && late.inverse() && late.fgcolor() == vt100::Color::Idx(1));
        }
        ansi.clear().unwrap();
        parser.process(&ansi.out);
        assert_eq!(parser.screen().contents(), "");
    }
}
