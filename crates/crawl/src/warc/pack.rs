//! gzip, one member a record.

use flate2::{Compress, Compression, Crc, FlushCompress, Status};

/// Packs records, one after another, with the same memory.
pub(super) struct Packer(Compress);

/// No name, no time, whatever system.
const HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];

impl Packer {
    pub fn new() -> Self {
        Self(Compress::new(Compression::fast(), false))
    }

    /// Appends the record as a member.
    pub fn pack(&mut self, record: &[u8], to: &mut Vec<u8>) -> std::io::Result<()> {
        self.0.reset();
        to.extend_from_slice(&HEAD);
        let mut consumed = 0;
        loop {
            to.reserve(record.len() / 3 + 4_096);
            let before = self.0.total_in();
            let status = self
                .0
                .compress_vec(&record[consumed..], to, FlushCompress::Finish)?;
            consumed += (self.0.total_in() - before) as usize;
            if status == Status::StreamEnd {
                break;
            }
        }
        let mut crc = Crc::new();
        crc.update(record);
        to.extend_from_slice(&crc.sum().to_le_bytes());
        to.extend_from_slice(&crc.amount().to_le_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn members_come_back_one_after_another() {
        let noise: Vec<u8> = (0..300_000).map(|_| fastrand::u8(..)).collect();
        let records: [&[u8]; 4] = [b"hello", b"", &noise, &[7; 100_000]];
        let (mut packer, mut packed) = (Packer::new(), Vec::new());
        for record in records {
            packer.pack(record, &mut packed).unwrap();
        }
        let mut rest = &packed[..];
        for record in records {
            let mut member = flate2::bufread::GzDecoder::new(rest);
            let mut whole = Vec::new();
            member.read_to_end(&mut whole).unwrap();
            assert_eq!(whole, record);
            rest = member.into_inner();
        }
        assert!(rest.is_empty());
    }
}
