//! Numbers with names that others may add to: what is not known keeps its number.

/// A newtype of `u16` with the values that the RFC names.
macro_rules! numbers {
    ($(#[$doc:meta])* $type:ident { $($(#[$item:meta])* $name:ident = $number:literal, $text:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type(pub u16);

        impl $type {
            $($(#[$item])* pub const $name: Self = Self($number);)*

            /// The RFC's words for it; none = it has none.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 { $($number => Some($text),)* _ => None }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self.name() {
                    Some(name) => f.write_str(name),
                    None => write!(f, "{}", self.0),
                }
            }
        }
    };
}
pub(crate) use numbers;
