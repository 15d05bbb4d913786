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

/// What a discipline around one `queue: FifoQueue` says of it: nothing in it waits for a time.
macro_rules! held_in_queue {
    () => {
        fn next_wakeup(&self) -> Option<perhop_units::Instant> {
            None
        }
        fn held(&self) -> u64 {
            self.queue.len() as u64
        }
        fn held_bytes(&self) -> u64 {
            self.queue.frame_bytes()
        }
    };
}
pub(crate) use held_in_queue;

/// What a discipline around `bands: Bands` says of them, and how it gives them to a successor.
macro_rules! held_in_bands {
    () => {
        fn next_wakeup(&self) -> Option<perhop_units::Instant> {
            self.bands.next_wakeup()
        }
        fn held(&self) -> u64 {
            self.bands.held()
        }
        fn held_bytes(&self) -> u64 {
            self.bands.held_bytes()
        }
        fn counters(&self, sink: &mut dyn perhop_element::CounterSink) {
            self.bands.counters(sink);
        }
        fn drain(&mut self, out: &mut perhop_packet::Batch) {
            self.bands.drain(out);
        }
        fn export_state(&mut self) -> Option<perhop_element::ElementState> {
            Some(Box::new(self.bands.export()))
        }
    };
}
pub(crate) use held_in_bands;
