//! Who may do what: every route and every frame, tried by everybody from nobody to the owner of a chat, and the tricks
//! by which strangers try to be somebody else.

mod admin;
mod foreign;
mod frames;
mod routes;
mod secrets;
mod stage;
mod tricks;
