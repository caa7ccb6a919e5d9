//! The bodies of a node's frames, byte by byte and for whatever they hold.

use proptest::collection::vec;
use proptest::prelude::*;
use wire::stomp::state::{
    BadBody, Document, Write, decode_documents, decode_pairs, decode_writes, encode_document,
    encode_pair, encode_write,
};

#[test]
fn writes_are_laid_out_as_told() {
    let mut body = Vec::new();
    let set = Write::Set {
        key: b"key",
        value: b"vw",
    };
    encode_write(&mut body, set);
    encode_write(&mut body, Write::Remove { key: b"" });
    assert_eq!(body, b"\x01\0\0\0\x03key\0\0\0\x02vw\0\0\0\0\0");
    let read: Result<Vec<_>, _> = decode_writes(&body).collect();
    assert_eq!(read, Ok(vec![set, Write::Remove { key: b"" }]));
    assert_eq!(decode_writes(b"").count(), 0);
}

#[test]
fn pairs_and_documents_are_laid_out_as_told() {
    let mut body = Vec::new();
    encode_pair(&mut body, b"k", b"");
    assert_eq!(body, b"\0\0\0\x01k\0\0\0\0");
    assert_eq!(decode_pairs(&body).next(), Some(Ok((&b"k"[..], &b""[..]))));

    let mut body = Vec::new();
    let there = Document {
        name: "a",
        revision: 258,
        content: Some(b"{}"),
    };
    let removed = Document {
        name: "b",
        revision: 3,
        content: None,
    };
    encode_document(&mut body, there);
    encode_document(&mut body, removed);
    let expected: &[u8] =
        b"\x01\0\0\0\x01a\0\0\0\0\0\0\x01\x02\0\0\0\x02{}\0\0\0\0\x01b\0\0\0\0\0\0\0\x03";
    assert_eq!(body, expected);
    let read: Result<Vec<_>, _> = decode_documents(&body).collect();
    assert_eq!(read, Ok(vec![there, removed]));
}

#[test]
fn what_cannot_be_read_says_where_and_why() {
    for (body, error) in [
        (
            &b"\x02\0\0\0\0"[..],
            BadBody::UnknownKind {
                offset: 0,
                found: 2,
            },
        ),
        (
            b"\0\0\0",
            BadBody::Cut {
                offset: 1,
                wanted: 4,
                left: 2,
            },
        ),
        (
            b"\x01\0\0\0\x01k\xff\xff\xff\xffvalue",
            BadBody::Cut {
                offset: 10,
                wanted: u32::MAX as usize,
                left: 5,
            },
        ),
        (
            b"\0\0\0\0\0\x07",
            BadBody::UnknownKind {
                offset: 5,
                found: 7,
            },
        ),
    ] {
        let mut writes = decode_writes(body);
        let last = writes.by_ref().last();
        assert_eq!(last, Some(Err(error)), "{body:?}");
        assert_eq!(writes.next(), None, "it ends there");
    }
    let not_text = decode_documents(b"\0\0\0\0\x01\xff\0\0\0\0\0\0\0\x01").next();
    assert_eq!(not_text, Some(Err(BadBody::NotUtf8 { offset: 1 })));
}

#[derive(Clone, Debug)]
struct OwnedWrite {
    key: Vec<u8>,
    value: Option<Vec<u8>>,
}

impl OwnedWrite {
    fn borrow(&self) -> Write<'_> {
        let key = &self.key;
        match &self.value {
            Some(value) => Write::Set { key, value },
            None => Write::Remove { key },
        }
    }
}

prop_compose! {
    fn writes()(
        key in vec(any::<u8>(), 0..20),
        value in proptest::option::of(vec(any::<u8>(), 0..40)),
    ) -> OwnedWrite {
        OwnedWrite { key, value }
    }
}

/// Small numbers are what lengths are made of.
fn garbage() -> impl Strategy<Value = Vec<u8>> {
    vec(prop_oneof![4 => 0_u8..3, 1 => any::<u8>()], 0..60)
}

proptest! {
    #[test]
    fn writes_come_back(writes in vec(writes(), 0..12)) {
        let mut body = Vec::new();
        for write in &writes {
            encode_write(&mut body, write.borrow());
        }
        let read: Vec<_> = decode_writes(&body).map(Result::unwrap).collect();
        let expected: Vec<_> = writes.iter().map(OwnedWrite::borrow).collect();
        prop_assert_eq!(read, expected);
    }

    #[test]
    fn pairs_come_back(pairs in vec((vec(any::<u8>(), 0..20), vec(any::<u8>(), 0..40)), 0..12)) {
        let mut body = Vec::new();
        for (key, value) in &pairs {
            encode_pair(&mut body, key, value);
        }
        let read: Vec<_> = decode_pairs(&body)
            .map(|pair| pair.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap())
            .collect();
        prop_assert_eq!(read, pairs);
    }

    #[test]
    fn documents_come_back(
        name in ".{0,20}",
        revision in any::<u64>(),
        content in proptest::option::of(vec(any::<u8>(), 0..40)),
    ) {
        let document = Document { name: &name, revision, content: content.as_deref() };
        let mut body = Vec::new();
        encode_document(&mut body, document);
        encode_document(&mut body, document);
        let read: Vec<_> = decode_documents(&body).map(Result::unwrap).collect();
        prop_assert_eq!(read, vec![document; 2]);
    }

    /// A list that is cut is never read as whole, except between two entries.
    #[test]
    fn a_cut_list_is_noticed(writes in vec(writes(), 1..6), cut in any::<prop::sample::Index>()) {
        let mut body = Vec::new();
        let mut ends = vec![0];
        for write in &writes {
            encode_write(&mut body, write.borrow());
            ends.push(body.len());
        }
        let cut = cut.index(body.len());
        let is_whole = decode_writes(&body[..cut]).all(|write| write.is_ok());
        prop_assert_eq!(is_whole, ends.contains(&cut));
    }

    #[test]
    fn garbage_is_refused_or_written_again_as_it_was(body in garbage()) {
        let writes: Result<Vec<_>, _> = decode_writes(&body).collect();
        if let Ok(writes) = writes {
            let mut again = Vec::new();
            writes.into_iter().for_each(|write| encode_write(&mut again, write));
            prop_assert_eq!(&again, &body);
        }
        let pairs: Result<Vec<_>, _> = decode_pairs(&body).collect();
        if let Ok(pairs) = pairs {
            let mut again = Vec::new();
            pairs.into_iter().for_each(|(key, value)| encode_pair(&mut again, key, value));
            prop_assert_eq!(&again, &body);
        }
        let documents: Result<Vec<_>, _> = decode_documents(&body).collect();
        if let Ok(documents) = documents {
            let mut again = Vec::new();
            documents.into_iter().for_each(|document| encode_document(&mut again, document));
            prop_assert_eq!(&again, &body);
        }
    }
}
