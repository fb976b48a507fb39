//! The promises of the ports as tests, run by every adapter on its real engine.
