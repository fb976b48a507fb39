use ratatui::style::{Color, Modifier, Style};

/// Colours: the sixteen of the terminal's own palette, or none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Theme {
    is_colourful: bool,
}

impl Theme {
    /// With `NO_COLOR` set, only weight and reversal distinguish elements.
    pub(crate) fn from_environment() -> Self {
        Self { is_colourful: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) }
    }

    #[cfg(test)]
    pub(crate) fn plain() -> Self {
        Self { is_colourful: false }
    }

    fn colour(self, colour: Color) -> Style {
        if self.is_colourful { Style::new().fg(colour) } else { Style::new() }
    }

    pub(crate) fn dim(self) -> Style {
        self.colour(Color::DarkGray).add_modifier(if self.is_colourful { Modifier::empty() } else { Modifier::DIM })
    }

    pub(crate) fn mine(self) -> Style {
        self.colour(Color::Cyan).add_modifier(Modifier::BOLD)
    }

    pub(crate) fn theirs(self) -> Style {
        self.colour(Color::Green).add_modifier(Modifier::BOLD)
    }

    pub(crate) fn title(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub(crate) fn chosen(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    pub(crate) fn unread(self) -> Style {
        self.colour(Color::Yellow).add_modifier(Modifier::BOLD)
    }

    pub(crate) fn good(self) -> Style {
        self.colour(Color::Green)
    }

    pub(crate) fn warning(self) -> Style {
        self.colour(Color::Yellow)
    }

    pub(crate) fn bad(self) -> Style {
        self.colour(Color::Red).add_modifier(Modifier::BOLD)
    }
}
