//! Traffic control.
