//! Buckets of flows: which worker has each, and how much comes for each.

use crate::table::FlowKey;
use foldhash::SharedSeed;
use perhop_wire::{Fragment, Layout};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Buckets that flows are spread over.
pub const BUCKETS: usize = 256;
/// Workers of one router at most.
pub const MAX_WORKERS: usize = 16;

/// Which worker has each bucket, and the key of the hash. Shared by the workers of one router.
#[derive(Debug)]
pub struct BucketMap {
    /// Written only while all workers stand still, whose meeting orders it with what they read.
    workers: [AtomicU8; BUCKETS],
    seed: u64,
    shared: SharedSeed,
}

impl BucketMap {
    /// All buckets in turn to `workers`, clamped to 1 … [`MAX_WORKERS`]. `seed` keys the hash: without it nobody can choose
    /// addresses so that all his flows meet in one worker.
    pub fn new(workers: usize, seed: u64) -> Self {
        let workers = workers.clamp(1, MAX_WORKERS);
        Self {
            workers: std::array::from_fn(|bucket| AtomicU8::new((bucket % workers) as u8)),
            seed,
            shared: SharedSeed::from_u64(seed),
        }
    }

    /// The worker that has a bucket; `bucket` modulo [`BUCKETS`].
    #[inline]
    pub fn worker(&self, bucket: usize) -> usize {
        usize::from(self.workers[bucket % BUCKETS].load(Ordering::Relaxed))
    }

    /// Gives a bucket to a worker below [`MAX_WORKERS`]. Only while no worker handles packets, and none of the bucket's is on
    /// its way between workers: else they overtake each other.
    pub fn give(&self, bucket: usize, worker: usize) {
        debug_assert!(worker < MAX_WORKERS);
        self.workers[bucket % BUCKETS].store(worker as u8, Ordering::Relaxed);
    }

    /// A key for what a worker keeps to itself.
    pub(crate) fn seed_of(&self, worker: usize) -> u64 {
        let mixed = (self.seed ^ (worker as u64 + 1) << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ mixed >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ mixed >> 27
    }

    /// The bucket of a dissected frame; `None` when it is not IP.
    #[inline(always)]
    pub fn bucket(&self, frame: &[u8], layout: &Layout) -> Option<usize> {
        let portless;
        let layout = match layout.fragment {
            Fragment::Whole => layout,
            _ => {
                portless = Layout { fragment: Fragment::Whole, src_port: 0, dst_port: 0, ..*layout };
                &portless
            }
        };
        let key = FlowKey::of(frame, layout, 0)?;
        Some(self.bucket_of(&key.key))
    }

    /// The bucket of the whole packets of a connection.
    #[inline]
    pub(crate) fn bucket_of(&self, key: &FlowKey) -> usize {
        // The table of connections takes its places from the low bits of a hash with another key.
        (key.without_domain().hash(self.seed, &self.shared) >> 56) as usize
    }
}

/// Packets of each bucket that came in at the ports of one worker; on lines that no other worker writes.
#[derive(Debug)]
#[repr(align(128))]
struct Line([AtomicU64; BUCKETS]);

/// Packets of each bucket, counted by every worker where they come in.
#[derive(Debug)]
pub struct BucketCounts {
    by_worker: Box<[Line]>,
}

impl BucketCounts {
    /// Zeros for `workers`, clamped to 1 … [`MAX_WORKERS`].
    pub fn new(workers: usize) -> Self {
        let line = |_| Line(std::array::from_fn(|_| AtomicU64::new(0)));
        Self { by_worker: (0..workers.clamp(1, MAX_WORKERS)).map(line).collect() }
    }

    /// One packet of `bucket` came in at a port of `worker`. Each worker counts for itself only.
    #[inline]
    pub fn count(&self, worker: usize, bucket: usize) {
        if let Some(Line(counts)) = self.by_worker.get(worker) {
            // It has one writer.
            let count = &counts[bucket % BUCKETS];
            count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
    }

    /// Packets of each bucket since the start, of all workers.
    pub fn totals(&self) -> [u64; BUCKETS] {
        let of =
            |bucket: usize| self.by_worker.iter().map(|line| line.0[bucket].load(Ordering::Relaxed)).sum();
        std::array::from_fn(of)
    }
}
