//! The client's half of a connection.
