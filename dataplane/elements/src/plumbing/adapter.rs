//! What every element's adapter has, written once.

/// The two casts every [`perhop_element::Element`] and [`perhop_element::Discipline`] carries.
macro_rules! as_any {
    () => {
        fn as_any_mut(&mut self) -> &mut dyn std::any::Any {
            self
        }
        fn as_any(&self) -> &dyn std::any::Any {
            self
        }
    };
}
pub(crate) use as_any;

/// State that moves to a successor: the named fields, taken over as they are.
macro_rules! keep {
    ($($field:ident: $type:ty),+) => {
        fn export_state(&mut self) -> Option<perhop_element::ElementState> {
            Some(Box::new(($(self.$field.clone(),)+)))
        }
        fn import_state(
            &mut self,
            state: perhop_element::ElementState,
        ) -> Result<(), perhop_element::ElementState> {
            let ($($field,)+) = *state.downcast::<($($type,)+)>()?;
            $(self.$field = $field;)+
            Ok(())
        }
    };
}
pub(crate) use keep;
