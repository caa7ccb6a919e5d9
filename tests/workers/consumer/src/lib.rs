//! Takes numbered messages and remembers which ones came. A question is answered with how many came
//! again and one bit for each number, the lowest first; then the count begins anew.

use hivewire_sdk::{Context, Message, Result, Worker};

#[derive(Default)]
struct Consumer {
    doubled: u32,
    came: Vec<u8>,
}

impl Worker for Consumer {
    fn receive(&mut self, message: &Message, context: &mut Context) -> Result {
        if message.expects_reply {
            let seen = std::mem::take(self);
            let mut answer = seen.doubled.to_le_bytes().to_vec();
            answer.extend(seen.came);
            return context.reply(message, answer);
        }
        let number = message.body.first_chunk().ok_or("there is no number")?;
        self.take(u32::from_le_bytes(*number) as usize);
        Ok(())
    }
}

impl Consumer {
    fn take(&mut self, number: usize) {
        let (place, bit) = (number / 8, 1 << (number % 8));
        if place >= self.came.len() {
            self.came.resize(place + 1, 0);
        }
        self.doubled += u32::from(self.came[place] & bit != 0);
        self.came[place] |= bit;
    }
}

hivewire_sdk::worker!(Consumer);
