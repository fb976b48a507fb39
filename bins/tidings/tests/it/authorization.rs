//! Authorization of every route and every frame, for all callers from an anonymous one to the owner of a chat, and
//! attempts at impersonation.

mod admin;
mod foreign;
mod frames;
mod routes;
mod secrets;
mod stage;
mod tricks;
