//! Bodies of the REST API.
