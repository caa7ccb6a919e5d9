//! Notices by e-mail, over SMTP.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use lettre::message::Mailbox;
use lettre::message::header::ContentType;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, CertificateStore, Tls, TlsParameters};
use lettre::{Message, SmtpTransport, Transport};

use super::delivery::{Carrier, CarryError};
use super::error::AlertError;
use super::letter::Letter;
use super::settings::{EmailSettings, MailTls};
use super::webhook::TIMEOUT_SECONDS_MAX;

const RECIPIENTS_MAX: usize = 50;

/// Mails over one server.
pub(super) struct Email {
    transport: SmtpTransport,
    host: String,
    from: Mailbox,
    to: Vec<Mailbox>,
}

impl Email {
    /// Mail as it was set.
    pub fn new(settings: &EmailSettings) -> Result<Self, AlertError> {
        let wrong = |problem: String| AlertError::Email {
            host: settings.host.clone(),
            problem,
        };
        check(settings).map_err(wrong)?;
        let to: Result<Vec<Mailbox>, String> =
            settings.to.iter().map(|address| mailbox(address)).collect();
        let tls = tls(settings).map_err(wrong)?;
        let port = settings.port.unwrap_or(settings.tls.port());
        let mut transport = SmtpTransport::builder_dangerous(&settings.host)
            .port(port)
            .tls(tls)
            .timeout(Some(Duration::from_secs(settings.timeout_seconds)));
        if let (Some(user), Some(password)) = (&settings.user, &settings.password) {
            let credentials = Credentials::new(user.clone(), password.reveal().to_owned());
            transport = transport.credentials(credentials);
        }
        Ok(Self {
            transport: transport.build(),
            host: format!("{}:{port}", settings.host),
            from: mailbox(&settings.from).map_err(wrong)?,
            to: to.map_err(wrong)?,
        })
    }

    /// Where it leads.
    pub fn shown(&self) -> String {
        let to: Vec<String> = self.to.iter().map(|to| to.email.to_string()).collect();
        format!("mail to {} over {}", to.join(", "), self.host)
    }

    fn message(&self, letter: &Letter) -> Result<Message, String> {
        let domain = self.from.email.domain();
        let mut builder = Message::builder()
            .from(self.from.clone())
            .subject(&letter.subject)
            // The same for every try, so that a mail that came twice can be told from two.
            .message_id(Some(format!("<{}@{domain}>", letter.key)))
            .header(ContentType::TEXT_PLAIN);
        for to in &self.to {
            builder = builder.to(to.clone());
        }
        let message = builder.body(letter.text.clone());
        message.map_err(|error| error.to_string())
    }
}

fn check(settings: &EmailSettings) -> Result<(), String> {
    if settings.host.is_empty() {
        return Err("needs a `host`".to_owned());
    }
    if settings.to.is_empty() || settings.to.len() > RECIPIENTS_MAX {
        return Err(format!("needs 1 to {RECIPIENTS_MAX} addresses in `to`"));
    }
    if !(1..=TIMEOUT_SECONDS_MAX).contains(&settings.timeout_seconds) {
        return Err(format!(
            "needs `timeout_seconds` between 1 and {TIMEOUT_SECONDS_MAX}"
        ));
    }
    if settings.user.is_some() != settings.password.is_some() {
        return Err("needs `user` and `password`, or neither".to_owned());
    }
    if settings.tls == MailTls::None && !settings.allow_plain && !is_this_machine(&settings.host) {
        return Err(
            "is on another machine, so `tls` must be `starttls` or `tls`, unless `allow_plain` is set"
                .to_owned(),
        );
    }
    if settings.tls == MailTls::None && settings.authority.is_some() {
        return Err("has an `authority`, but `tls` is `none`".to_owned());
    }
    Ok(())
}

fn is_this_machine(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn mailbox(address: &str) -> Result<Mailbox, String> {
    address
        .parse()
        .map_err(|error| format!("cannot mail with the address {address:?}: {error}"))
}

fn tls(settings: &EmailSettings) -> Result<Tls, String> {
    if settings.tls == MailTls::None {
        return Ok(Tls::None);
    }
    let mut parameters = TlsParameters::builder(settings.host.clone());
    if let Some(path) = &settings.authority {
        parameters = parameters
            .certificate_store(CertificateStore::None)
            .add_root_certificate(authority(path)?);
    }
    let parameters = parameters
        .build()
        .map_err(|error| format!("cannot be spoken to: {error}"))?;
    Ok(match settings.tls {
        MailTls::Tls => Tls::Wrapper(parameters),
        MailTls::Starttls | MailTls::None => Tls::Required(parameters),
    })
}

fn authority(path: &Path) -> Result<Certificate, String> {
    let pem = std::fs::read(path)
        .map_err(|error| format!("has an `authority` that cannot be read: {error}"))?;
    Certificate::from_pem(&pem)
        .map_err(|error| format!("has an `authority` that is no certificate: {error}"))
}

impl Carrier for Email {
    fn carry(&self, letter: &Letter) -> Result<(), CarryError> {
        let message = self.message(letter).map_err(|reason| CarryError {
            reason,
            is_final: true,
        })?;
        let sent = self.transport.send(&message);
        sent.map(|_| ()).map_err(|error| CarryError {
            is_final: error.is_permanent(),
            reason: error.to_string(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::Secret;

    fn settings(host: &str, tls: MailTls) -> EmailSettings {
        EmailSettings {
            tls,
            from: "Hivewire <hive@example.org>".to_owned(),
            to: vec!["a@example.org".to_owned(), "b@example.org".to_owned()],
            ..EmailSettings::over(host)
        }
    }

    fn problem(settings: &EmailSettings) -> String {
        let made = Email::new(settings);
        made.err()
            .map_or_else(String::new, |error| error.to_string())
    }

    #[test]
    fn only_this_machine_is_mailed_unencrypted() {
        for host in ["localhost", "127.0.0.1", "::1"] {
            assert_eq!(problem(&settings(host, MailTls::None)), "");
        }
        let mut remote = settings("mail.example.org", MailTls::None);
        assert!(problem(&remote).contains("`allow_plain`"));
        remote.allow_plain = true;
        assert_eq!(problem(&remote), "");
        for tls in [MailTls::Starttls, MailTls::Tls] {
            assert_eq!(problem(&settings("mail.example.org", tls)), "");
        }
    }

    #[test]
    fn what_is_missing_is_told_and_no_password() {
        let good = settings("localhost", MailTls::None);
        let mut wrong = good.clone();
        wrong.to.clear();
        assert!(problem(&wrong).contains("addresses in `to`"));
        wrong.to = vec!["nobody".to_owned()];
        assert!(problem(&wrong).contains("nobody"));
        let mut wrong = good.clone();
        wrong.password = Some(Secret::new("hush"));
        let told = problem(&wrong);
        assert!(told.contains("`user` and `password`") && !told.contains("hush"));
        assert!(!format!("{wrong:?}").contains("hush"));
        let mut wrong = good;
        wrong.timeout_seconds = 0;
        assert!(problem(&wrong).contains("timeout_seconds"));
    }

    #[test]
    fn a_letter_becomes_a_mail_to_all_with_a_fixed_id() {
        let email = Email::new(&settings("localhost", MailTls::None)).unwrap();
        let letter = Letter::test("bée", "k-1".to_owned(), 0);
        let text = String::from_utf8(email.message(&letter).unwrap().formatted()).unwrap();
        assert!(text.contains("<k-1@example.org>"), "{text}");
        assert!(text.contains("a@example.org, b@example.org"), "{text}");
        assert!(
            text.contains("Content-Type: text/plain; charset=utf-8"),
            "{text}"
        );
        assert_eq!(
            email.shown(),
            "mail to a@example.org, b@example.org over localhost:25"
        );
    }
}
