//! Dealing items out to owners, so that everybody who computes it gets the same.

/// Deals items out to owners, best scores first. Shares differ by one item at most.
pub struct Deal {
    owners: Vec<Option<u32>>,
    owned: Vec<u32>,
    /// What every owner may have.
    share: u32,
    /// How many owners may have one more.
    extras: u32,
}

impl Deal {
    /// Nothing is dealt yet. Owners beyond the number of items get none; there is at least one.
    pub fn new(items: u32, owners: u32) -> Self {
        let owners = owners.clamp(1, items.max(1));
        Self {
            owners: vec![None; items as usize],
            owned: vec![0; owners as usize],
            share: items / owners,
            extras: items % owners,
        }
    }

    /// Lets items stay with the owners they have, as far as the shares allow.
    pub fn keep(&mut self, owners: &[u32], score: impl Fn(u32, u32) -> u64) {
        let count = self.owned.len();
        let kept = (0..).zip(owners.iter().copied());
        let kept = kept.filter(|(_, owner)| (*owner as usize) < count);
        self.give_in_order(kept.collect(), score);
    }

    /// Gives all other items away and tells the owner of each. Whoever has room takes any item, and
    /// there is room for all.
    pub fn finish(mut self, score: impl Fn(u32, u32) -> u64) -> Vec<u32> {
        let owners = self.owned.len() as u32;
        let items = 0..self.owners.len() as u32;
        let free = items.filter(|item| self.owners[*item as usize].is_none());
        let pairs = free.flat_map(|item| (0..owners).map(move |owner| (item, owner)));
        self.give_in_order(pairs.collect(), score);
        let owners = self.owners.into_iter();
        let owner = |owner: Option<u32>| owner.expect("the shares together are all items");
        owners.map(owner).collect()
    }

    fn give_in_order(&mut self, mut pairs: Vec<(u32, u32)>, score: impl Fn(u32, u32) -> u64) {
        pairs.sort_by_cached_key(|(item, owner)| std::cmp::Reverse(score(*item, *owner)));
        for (item, owner) in pairs {
            if self.owners[item as usize].is_none() && self.takes(owner) {
                self.owners[item as usize] = Some(owner);
            }
        }
    }

    /// Counts one more item for this owner, if it may have it.
    fn takes(&mut self, owner: u32) -> bool {
        let owned = &mut self.owned[owner as usize];
        if *owned == self.share && self.extras > 0 {
            self.extras -= 1;
        } else if *owned >= self.share {
            return false;
        }
        *owned += 1;
        true
    }
}
