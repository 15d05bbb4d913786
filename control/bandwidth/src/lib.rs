//! What an agent does about bandwidth: the measured allocation of classes, and links divided between policies of the TCP
//! rate control.
#![forbid(unsafe_code)]
