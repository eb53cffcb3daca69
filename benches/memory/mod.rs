//! What a scan of a pool needs in memory.

use std::process::Command;

/// Set for a child of the benchmark that does nothing but scan the pool of this name.
const POOL: &str = "RBD_BENCH_MEMORY_OF";

/// The pool to scan, in such a child.
pub fn pool_of_child() -> Option<String> {
    std::env::var(POOL).ok()
}

/// Has several processes scan the pool, each for the first time.
pub fn measure(pool: &str) {
    println!("\nresident memory: its growth over the first scan of a process, at the peak");
    for _ in 0..5 {
        let mut child = Command::new(std::env::current_exe().unwrap());
        assert!(child.env(POOL, pool).status().unwrap().success());
    }
}

/// In the child: goes through a scan, whose items it drops.
pub fn of_a_scan<T>(scan: impl Iterator<Item = T>) {
    let before = resident_kib();
    let (mut peak, mut images) = (before, 0);
    for item in scan {
        drop(item);
        images += 1;
        if images % 20 == 0 {
            peak = peak.max(resident_kib());
        }
    }
    let growth = peak.max(resident_kib()) - before;
    let bytes = growth * 1024 / images;
    println!("  {growth} KiB for {images} images: {bytes} bytes an image; wanted: less than 500");
    assert!(bytes < 500);
}

/// Exact, as `VmRSS` and `VmHWM` of `/proc/self/status` are not.
fn resident_kib() -> usize {
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap();
    let resident = rollup.lines().find_map(|line| line.strip_prefix("Rss:")).unwrap();
    resident.trim().trim_end_matches(" kB").parse().unwrap()
}
