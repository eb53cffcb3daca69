//! Peers measured in turns: each round asks every peer once, so that whatever else the machine does hits all of them
//! alike, and what counts is how they compare.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// One of those that are compared.
pub struct Peer<'a> {
    name: &'a str,
    /// One measured turn, in seconds a call.
    turn: Box<dyn FnMut() -> f64 + 'a>,
}

impl<'a> Peer<'a> {
    /// A turn is `batch` calls, more than one where a call is short beside the clock's own cost. What they return is
    /// dropped after the clock has stopped.
    pub fn new<T>(name: &'a str, batch: usize, mut call: impl FnMut() -> T + 'a) -> Self {
        let turn = move || {
            let mut results = Vec::with_capacity(batch);
            let started = Instant::now();
            for _ in 0..batch {
                results.push(black_box(call()));
            }
            started.elapsed().as_secs_f64() / batch as f64
        };
        Self { name, turn: Box::new(turn) }
    }

    /// A turn that measures itself, where something is between the parts that count.
    #[allow(dead_code)] // Not every benchmark has such a turn.
    pub fn timed(name: &'a str, mut turn: impl FnMut() -> Duration + 'a) -> Self {
        Self { name, turn: Box::new(move || turn().as_secs_f64()) }
    }
}

/// Measures all peers in turns and prints a line for each: the median of its calls and their quartiles, then how many
/// times as long the first peer takes, as the median over the rounds with the 95 % interval of that median.
///
/// Returns these ratios.
pub fn compare(subject: &str, rounds: usize, peers: &mut [Peer<'_>]) -> Vec<f64> {
    let count = peers.len();
    let mut samples = vec![Vec::with_capacity(rounds); count];
    // The first round warms up. Each begins with another peer, and every other one goes backwards, so that none has
    // always the same one before it.
    for round in 0..=rounds {
        for turn in 0..count {
            let turn = if round % 2 == 0 { turn } else { count - turn };
            let peer = (round + turn) % count;
            let seconds = (peers[peer].turn)();
            if round > 0 {
                samples[peer].push(seconds);
            }
        }
    }
    println!("\n{subject} ({rounds} rounds)");
    let ratios = peers.iter().zip(&samples).map(|(peer, own)| {
        let times = sorted(own.iter().copied());
        let ratios = sorted(samples[0].iter().zip(own).map(|(first, own)| first / own));
        let [quartile_1, median, quartile_3] = [0.25, 0.5, 0.75].map(|share| time(at(&times, share)));
        let (low, ratio, high) = median_with_interval(&ratios);
        println!(
            "  {:<42} {median:>9}  ({quartile_1} to {quartile_3})  {ratio:>8.2}x ({low:.2} to {high:.2})",
            peer.name
        );
        ratio
    });
    ratios.collect()
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

fn at(sorted: &[f64], share: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * share.clamp(0.0, 1.0)).round() as usize]
}

/// The median, between the order statistics that have the true one between them in 95 of 100 cases (binomial, by its
/// normal approximation).
fn median_with_interval(sorted: &[f64]) -> (f64, f64, f64) {
    let reach = 0.98 / (sorted.len() as f64).sqrt();
    (at(sorted, 0.5 - reach), at(sorted, 0.5), at(sorted, 0.5 + reach))
}

fn time(seconds: f64) -> String {
    match seconds {
        s if s < 1e-6 => format!("{:.0} ns", s * 1e9),
        s if s < 1e-3 => format!("{:.1} µs", s * 1e6),
        s if s < 1.0 => format!("{:.2} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}
