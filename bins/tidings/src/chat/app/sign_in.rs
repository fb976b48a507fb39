use std::collections::VecDeque;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use domain::UserId;

use super::line::InputLine;

/// The sign-in dialog: a phone number, the code sent to it, and a display name for a new user. Does no I/O.
#[derive(Debug, Default)]
pub(crate) struct SignIn {
    pub(crate) step: SignInStep,
    pub(crate) line: InputLine,
    pub(crate) phone_number: String,
    /// A request is in flight.
    pub(crate) is_waiting: bool,
    /// Why the last input was refused.
    pub(crate) refusal: Option<String>,
    effects: VecDeque<SignInEffect>,
    outcome: Option<SignInOutcome>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum SignInStep {
    #[default]
    PhoneNumber,
    Code,
    /// A new user can choose a display name.
    Name {
        user_id: UserId,
        given: String,
    },
}

/// A request that the I/O layer performs for the dialog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SignInEffect {
    RequestCode { phone_number: String },
    Verify { phone_number: String, code: String },
    Rename { name: String },
}

/// The result of a [`SignInEffect`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SignInAnswer {
    CodeSent,
    Verified { user_id: UserId, name: String, is_new_user: bool },
    Renamed { name: String },
    Failed { why: String },
}

/// The result of the dialog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SignInOutcome {
    SignedIn { user_id: UserId, name: String },
    Quit,
}

impl SignIn {
    pub(crate) fn poll_effect(&mut self) -> Option<SignInEffect> {
        self.effects.pop_front()
    }

    pub(crate) fn outcome(&self) -> Option<&SignInOutcome> {
        self.outcome.as_ref()
    }

    pub(crate) fn handle_key(&mut self, key: KeyEvent) {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control => self.outcome = Some(SignInOutcome::Quit),
            _ if self.is_waiting => {}
            KeyCode::Esc if self.step == SignInStep::Code => *self = Self::default(),
            KeyCode::Enter => self.submit(),
            KeyCode::Up | KeyCode::Down => {}
            KeyCode::Char('j') if control => {}
            _ => {
                self.line.handle_key(key);
            }
        }
    }

    pub(crate) fn handle_paste(&mut self, text: &str) {
        if !self.is_waiting {
            self.line.insert(text.trim());
        }
    }

    fn submit(&mut self) {
        let written = self.line.text().trim().to_owned();
        let effect = match &self.step {
            SignInStep::Name { user_id, given } if written.is_empty() => {
                self.outcome = Some(SignInOutcome::SignedIn { user_id: *user_id, name: given.clone() });
                return;
            }
            _ if written.is_empty() => return,
            SignInStep::PhoneNumber => {
                self.phone_number.clone_from(&written);
                SignInEffect::RequestCode { phone_number: written }
            }
            SignInStep::Code => SignInEffect::Verify { phone_number: self.phone_number.clone(), code: written },
            SignInStep::Name { .. } => SignInEffect::Rename { name: written },
        };
        self.refusal = None;
        self.is_waiting = true;
        self.effects.push_back(effect);
    }

    pub(crate) fn handle_answer(&mut self, answer: SignInAnswer) {
        self.is_waiting = false;
        match (answer, &self.step) {
            (SignInAnswer::Failed { why }, _) => {
                self.refusal = Some(why);
                return;
            }
            (SignInAnswer::CodeSent, _) => self.step = SignInStep::Code,
            (SignInAnswer::Verified { user_id, name, is_new_user: true }, _) => {
                self.step = SignInStep::Name { user_id, given: name };
            }
            (SignInAnswer::Verified { user_id, name, is_new_user: false }, _) => {
                self.outcome = Some(SignInOutcome::SignedIn { user_id, name });
            }
            (SignInAnswer::Renamed { name }, SignInStep::Name { user_id, .. }) => {
                self.outcome = Some(SignInOutcome::SignedIn { user_id: *user_id, name });
            }
            // A name is only requested after the user is known.
            (SignInAnswer::Renamed { .. }, SignInStep::PhoneNumber | SignInStep::Code) => {}
        }
        // The line is replaced, so that a phone number or code does not stay in the next prompt or in the input
        // history.
        self.line = InputLine::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enter(sign_in: &mut SignIn, text: &str) -> Option<SignInEffect> {
        sign_in.handle_paste(text);
        sign_in.handle_key(KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE));
        sign_in.poll_effect()
    }

    fn user_id() -> UserId {
        UserId::from_bytes([1; 16])
    }

    fn verified(is_new_user: bool) -> SignInAnswer {
        SignInAnswer::Verified { user_id: user_id(), name: "User 1234".into(), is_new_user }
    }

    #[test]
    fn a_new_user_enters_number_code_and_name() {
        let mut sign_in = SignIn::default();
        assert_eq!(enter(&mut sign_in, ""), None);
        let asked = enter(&mut sign_in, "+14155550101");
        assert_eq!(asked, Some(SignInEffect::RequestCode { phone_number: "+14155550101".into() }));
        assert_eq!(enter(&mut sign_in, "impatient"), None, "an answer is awaited");
        sign_in.handle_answer(SignInAnswer::CodeSent);
        let verify = SignInEffect::Verify { phone_number: "+14155550101".into(), code: "123456".into() };
        assert_eq!(enter(&mut sign_in, "123456"), Some(verify));
        sign_in.handle_answer(verified(true));
        assert_eq!(enter(&mut sign_in, "Ada"), Some(SignInEffect::Rename { name: "Ada".into() }));
        sign_in.handle_answer(SignInAnswer::Renamed { name: "Ada".into() });
        assert_eq!(sign_in.outcome(), Some(&SignInOutcome::SignedIn { user_id: user_id(), name: "Ada".into() }));
    }

    #[test]
    fn a_known_user_is_not_asked_for_a_name_and_a_name_is_optional() {
        for (is_new_user, expected_step) in [(false, SignInStep::Code), (true, SignInStep::PhoneNumber)] {
            let mut sign_in = SignIn { step: expected_step, ..SignIn::default() };
            sign_in.handle_answer(verified(is_new_user));
            enter(&mut sign_in, "");
            let name = "User 1234".to_owned();
            assert_eq!(sign_in.outcome(), Some(&SignInOutcome::SignedIn { user_id: user_id(), name }));
        }
    }

    #[test]
    fn a_refusal_keeps_the_input_and_escape_starts_over() {
        let mut sign_in = SignIn::default();
        enter(&mut sign_in, "+1");
        sign_in.handle_answer(SignInAnswer::Failed { why: "no such number".into() });
        assert_eq!((sign_in.line.text(), sign_in.refusal.as_deref()), ("+1", Some("no such number")));
        enter(&mut sign_in, "4155550101");
        sign_in.handle_answer(SignInAnswer::CodeSent);
        assert_eq!((sign_in.step.clone(), sign_in.line.text()), (SignInStep::Code, ""));
        sign_in.handle_key(KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE));
        assert_eq!(sign_in.step, SignInStep::PhoneNumber);
        sign_in.handle_key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL));
        assert_eq!(sign_in.outcome(), Some(&SignInOutcome::Quit));
    }
}
