//! Checks on machines that a folder describes.
