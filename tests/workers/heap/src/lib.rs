//! Takes memory, grows it and gives it back, in an order that follows from the number in the body, and
//! looks each time whether it holds what was put there. Answers with the number of blocks it looked
//! at; anything wrong is a panic.

use hivewire_sdk::{Context, Message, Result, Worker};

const STEPS: u32 = 20_000;
/// More than the first region of the heap, so that it has to grow.
const BYTES_MAX: usize = 512 << 10;

#[derive(Default)]
struct Heap;

/// A block, and the byte that it is full of.
struct Block(Vec<u8>, u8);

impl Block {
    fn check(&self) {
        assert!(self.0.iter().all(|byte| *byte == self.1), "a block changed");
    }
}

#[repr(align(256))]
struct Aligned([u8; 300]);

impl Worker for Heap {
    fn receive(&mut self, message: &Message, context: &mut Context) -> Result {
        let mut random = std::str::from_utf8(&message.body)?.parse::<u64>()? | 1;
        let mut next = move || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random as usize
        };
        let mut blocks: Vec<Block> = Vec::new();
        let mut looked_at = 0;
        for _ in 0..STEPS {
            // Mostly small, seldom larger than a page of WebAssembly.
            let bytes = next() % (1 << (next() % 18));
            let byte = next() as u8;
            match next() % 5 {
                0 | 1 => blocks.push(Block(vec![byte; bytes], byte)),
                2 => {
                    let zeros = Block(vec![0; bytes], 0);
                    zeros.check();
                    let aligned = Box::new(Aligned([byte; 300]));
                    let address = (&raw const *aligned).addr();
                    assert_eq!(address % 256, 0, "a block is not aligned");
                    assert!(aligned.0.iter().all(|b| *b == byte));
                }
                3 if !blocks.is_empty() => {
                    let index = next() % blocks.len();
                    let block = &mut blocks[index];
                    let longer = block.0.len() + bytes / 2;
                    block.0.resize(longer, block.1);
                    block.check();
                }
                _ if !blocks.is_empty() => blocks.swap_remove(next() % blocks.len()).check(),
                _ => {}
            }
            looked_at += 1;
            while blocks.iter().map(|block| block.0.len()).sum::<usize>() > BYTES_MAX {
                blocks.swap_remove(next() % blocks.len()).check();
            }
        }
        blocks.iter().for_each(Block::check);
        context.reply(message, looked_at.to_string())
    }
}

hivewire_sdk::worker!(Heap);
