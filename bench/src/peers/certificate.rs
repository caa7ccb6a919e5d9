//! What servers need to encrypt.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};

use super::{PeerError, Result, write_file};

/// Files with the authority that vouches for a server, its certificate and its key.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// Whom clients trust.
    pub authority: PathBuf,
    /// What the server shows.
    pub certificate: PathBuf,
    /// What proves that it is the server's.
    pub key: PathBuf,
}

impl Certificate {
    /// Makes one for 127.0.0.1, by an authority that nobody else knows, with its files in this folder.
    pub fn issue(folder: &Path) -> Result<Self> {
        let files = Self {
            authority: folder.join("authority.pem"),
            certificate: folder.join("certificate.pem"),
            key: folder.join("key.pem"),
        };
        let texts = Texts::make().map_err(|error| PeerError::UnexpectedAnswer {
            peer: "rcgen".to_owned(),
            answer: error.to_string(),
        })?;
        write_file(&files.authority, &texts.authority)?;
        write_file(&files.certificate, &texts.certificate)?;
        write_file(&files.key, &texts.key)?;
        Ok(files)
    }
}

struct Texts {
    authority: String,
    certificate: String,
    key: String,
}

impl Texts {
    fn make() -> std::result::Result<Self, rcgen::Error> {
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        // With the same name as the server's it would be taken for that.
        let name = &mut authority.distinguished_name;
        name.push(DnType::CommonName, "authority of a test");
        let authority_key = KeyPair::generate()?;
        let of_authority = authority.self_signed(&authority_key)?.pem();
        let key = KeyPair::generate()?;
        let of_server = CertificateParams::new(["127.0.0.1".to_owned()])?
            .signed_by(&key, &Issuer::new(authority, authority_key))?;
        Ok(Self {
            authority: of_authority,
            certificate: of_server.pem(),
            key: key.serialize_pem(),
        })
    }
}
