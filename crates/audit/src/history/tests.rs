mod random;
mod rules;
mod script;
