#!/usr/bin/env bash
# nexmark 0.2.0 (crates.io), RisingWave's generator of NEXMark's persons, auctions and bids, with its defaults. A guess: as in an auction
# house, each bid is for an auction that came before and that is still open, by a person who came before, and is at least the initial bid.
#
# Seen: of the 46,000 bids among 50,000 events about 2,100 come before their auction, and 860 before their bidder; 9,400 come at its end
# or after it (auctions are open for 1 to 334 ms), and half are below the initial bid. 50,000 events have 5,001 times, so no order by time
# is whole. An inner join "while the auction is open" finds four of five bids, and one that keeps no bids loses those that come first.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
mkdir src
cat > Cargo.toml <<'TOML'
[package]
name = "findings"
version = "0.1.0"
edition = "2021"

[dependencies]
nexmark = "=0.2.0"
TOML
cat > src/main.rs <<'RUST'
use nexmark::config::NexmarkConfig;
use nexmark::event::Event;
use nexmark::EventGenerator;
use std::collections::{HashMap, HashSet};

fn main() {
    let config = NexmarkConfig { base_time: 1_700_000_000_000, ..NexmarkConfig::default() };
    let events: Vec<Event> = EventGenerator::new(config).take(50_000).collect();
    let mut auctions = HashMap::new();
    for event in &events {
        if let Event::Auction(auction) = event {
            auctions.insert(auction.id, (auction.date_time, auction.expires, auction.initial_bid));
        }
    }
    let (mut known, mut persons, mut times) = (HashSet::new(), HashSet::new(), HashSet::new());
    let (mut bids, mut no_auction, mut no_person, mut after_end, mut too_low) = (0, 0, 0, 0, 0);
    for event in &events {
        match event {
            Event::Person(person) => {
                persons.insert(person.id);
                times.insert(person.date_time);
            }
            Event::Auction(auction) => {
                known.insert(auction.id);
                times.insert(auction.date_time);
            }
            Event::Bid(bid) => {
                bids += 1;
                times.insert(bid.date_time);
                no_auction += usize::from(!known.contains(&bid.auction));
                no_person += usize::from(!persons.contains(&bid.bidder));
                if let Some((_, expires, least)) = auctions.get(&bid.auction) {
                    after_end += usize::from(bid.date_time >= *expires);
                    too_low += usize::from((bid.price as u64) < (*least as u64));
                }
            }
        }
    }
    let open: Vec<u64> = auctions.values().map(|(start, end, _)| end - start).collect();
    println!("{} {:?} {:?}", auctions.len(), open.iter().min(), open.iter().max());
    println!("{bids} {no_auction} {no_person} {after_end} {too_low} {}", times.len());
    assert!(bids == 46_000 && auctions.len() == 3_000 && times.len() == 5_001);
    assert!((1_500..3_000).contains(&no_auction) && (500..1_500).contains(&no_person));
    assert!((8_000..11_000).contains(&after_end) && (20_000..25_000).contains(&too_low));
}
RUST
CARGO_HOME="$folder/cargo" CARGO_TARGET_DIR="$folder/target" cargo run --quiet --jobs 2
