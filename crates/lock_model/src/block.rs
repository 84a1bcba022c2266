//! A block's threads, each a thread of loom that runs the whole body, as on a GPU.

use std::marker::PhantomData;

use loom::sync::mpsc::{Receiver, Sender, channel};

use crate::lock::Gate;
use crate::variant::Variant;
use crate::word::Word;

/// One thread of a block.
///
/// loom has no barrier. This one is made of messages: a thread sends one to each of the others and
/// waits for one from each. So all have come before one leaves, and what a thread does before it
/// happens before what the others do after it. That is what `bar.sync` gives, and no more: nothing
/// is ordered between blocks, nor with a thread that has not yet come.
pub struct Thread<V> {
    index: usize,
    others: Vec<(Sender<()>, Receiver<()>)>,
    barriers: usize,
    variant: PhantomData<V>,
}

impl<V> Thread<V> {
    /// The threads of one block.
    pub fn block(threads: usize) -> Vec<Self> {
        let mut block: Vec<Self> = (0..threads)
            .map(|index| Thread { index, others: Vec::new(), barriers: 0, variant: PhantomData })
            .collect();
        for high in 1..threads {
            for low in 0..high {
                let (to_high, from_low) = channel();
                let (to_low, from_high) = channel();
                block[low].others.push((to_high, from_high));
                block[high].others.push((to_low, from_low));
            }
        }
        block
    }

    /// Its number in the block.
    pub fn index(&self) -> usize {
        self.index
    }
}

impl<V: Variant> Gate for Thread<V> {
    type Word = Word<V>;

    fn leader(&mut self, work: impl FnOnce()) {
        if self.index == 0 {
            work();
        }
    }

    fn barrier(&mut self) {
        let is_there = V::BARRIERS[self.barriers];
        self.barriers += 1;
        if !is_there {
            return;
        }
        for (to, _) in &self.others {
            to.send(()).expect("the other thread's end lives as long as its thread");
        }
        for (_, from) in &self.others {
            from.recv().expect("the other thread's end lives as long as its thread");
        }
    }
}
