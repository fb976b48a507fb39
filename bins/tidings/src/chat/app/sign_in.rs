use std::collections::VecDeque;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use domain::UserId;

use super::line::Line;

/// The way in: a phone number, the code that was sent to it, and a name for somebody new. Does no I/O.
#[derive(Debug, Default)]
pub(crate) struct SignIn {
    pub(crate) step: Step,
    pub(crate) line: Line,
    pub(crate) phone_number: String,
    /// A question is under way.
    pub(crate) is_waiting: bool,
    /// Why the last answer was no good.
    pub(crate) refusal: Option<String>,
    effects: VecDeque<SignInEffect>,
    outcome: Option<Outcome>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Step {
    #[default]
    PhoneNumber,
    Code,
    /// Somebody new may say what they are called.
    Name {
        user_id: UserId,
        given: String,
    },
}

/// What the edge is to ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SignInEffect {
    RequestCode { phone_number: String },
    Verify { phone_number: String, code: String },
    Rename { name: String },
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SignInAnswer {
    CodeSent,
    Verified { user_id: UserId, name: String, is_new_user: bool },
    Renamed { name: String },
    Failed { why: String },
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    SignedIn { user_id: UserId, name: String },
    Quit,
}

impl SignIn {
    pub(crate) fn poll_effect(&mut self) -> Option<SignInEffect> {
        self.effects.pop_front()
    }

    pub(crate) fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_ref()
    }

    pub(crate) fn handle_key(&mut self, key: KeyEvent) {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control => self.outcome = Some(Outcome::Quit),
            _ if self.is_waiting => {}
            KeyCode::Esc if self.step == Step::Code => *self = Self::default(),
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
            Step::Name { user_id, given } if written.is_empty() => {
                self.outcome = Some(Outcome::SignedIn { user_id: *user_id, name: given.clone() });
                return;
            }
            _ if written.is_empty() => return,
            Step::PhoneNumber => {
                self.phone_number.clone_from(&written);
                SignInEffect::RequestCode { phone_number: written }
            }
            Step::Code => SignInEffect::Verify { phone_number: self.phone_number.clone(), code: written },
            Step::Name { .. } => SignInEffect::Rename { name: written },
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
            (SignInAnswer::CodeSent, _) => self.step = Step::Code,
            (SignInAnswer::Verified { user_id, name, is_new_user: true }, _) => {
                self.step = Step::Name { user_id, given: name };
            }
            (SignInAnswer::Verified { user_id, name, is_new_user: false }, _) => {
                self.outcome = Some(Outcome::SignedIn { user_id, name });
            }
            (SignInAnswer::Renamed { name }, Step::Name { user_id, .. }) => {
                self.outcome = Some(Outcome::SignedIn { user_id: *user_id, name });
            }
            // Nobody is renamed before they are known.
            (SignInAnswer::Renamed { .. }, Step::PhoneNumber | Step::Code) => {}
        }
        // A code or a number is not for the next question, nor for whoever looks at what was written.
        self.line = Line::default();
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
    fn somebody_new_gives_number_code_and_name() {
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
        assert_eq!(sign_in.outcome(), Some(&Outcome::SignedIn { user_id: user_id(), name: "Ada".into() }));
    }

    #[test]
    fn somebody_known_is_not_asked_for_a_name_and_nobody_has_to_give_one() {
        for (is_new_user, expected_step) in [(false, Step::Code), (true, Step::PhoneNumber)] {
            let mut sign_in = SignIn { step: expected_step, ..SignIn::default() };
            sign_in.handle_answer(verified(is_new_user));
            enter(&mut sign_in, "");
            let name = "User 1234".to_owned();
            assert_eq!(sign_in.outcome(), Some(&Outcome::SignedIn { user_id: user_id(), name }));
        }
    }

    #[test]
    fn a_refusal_keeps_what_was_written_and_escape_begins_anew() {
        let mut sign_in = SignIn::default();
        enter(&mut sign_in, "+1");
        sign_in.handle_answer(SignInAnswer::Failed { why: "no such number".into() });
        assert_eq!((sign_in.line.text(), sign_in.refusal.as_deref()), ("+1", Some("no such number")));
        enter(&mut sign_in, "4155550101");
        sign_in.handle_answer(SignInAnswer::CodeSent);
        assert_eq!((sign_in.step.clone(), sign_in.line.text()), (Step::Code, ""));
        sign_in.handle_key(KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE));
        assert_eq!(sign_in.step, Step::PhoneNumber);
        sign_in.handle_key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL));
        assert_eq!(sign_in.outcome(), Some(&Outcome::Quit));
    }
}
