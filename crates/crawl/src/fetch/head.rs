//! The heads of requests. What is the same in all of them is prepared once.

use hyper::header::{
    ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, COOKIE, HOST, HeaderMap, HeaderName, HeaderValue,
    IF_MODIFIED_SINCE, IF_NONE_MATCH, PROXY_AUTHORIZATION, REFERER, USER_AGENT,
};
use hyper::{Request, Uri};
use url::{Position, Url};

use super::answer::FetchRequest;
use super::connection::NoBody;
use super::error::FetchError;
use super::settings::{FetchSettings, SettingsError, host_and_port};

/// Headers that a user cannot set: they belong to the connection.
const OURS: [HeaderName; 3] = [HOST, ACCEPT_ENCODING, COOKIE];

/// The headers that all requests have.
pub(super) struct Prepared {
    headers: HeaderMap,
}

/// How the target of a request is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Only the path: HTTP/1.1 to the server itself.
    Path,
    /// All of it: HTTP/1.1 to a proxy.
    Whole,
    /// All of it, and no `host`: HTTP/2.
    Two,
}

impl Prepared {
    /// The headers that these settings ask for.
    pub fn new(settings: &FetchSettings) -> Result<Self, SettingsError> {
        let mut headers = HeaderMap::new();
        let mut set = |field, name: HeaderName, text: &str| {
            let value = HeaderValue::from_str(text).map_err(|_| {
                SettingsError::new(field, "a header holds only visible characters, in one line")
            })?;
            headers.insert(name, value);
            Ok(())
        };
        set("user_agent", USER_AGENT, &settings.full_user_agent())?;
        set("accept", ACCEPT, &settings.accept)?;
        if let Some(languages) = &settings.accept_language {
            set("accept_language", ACCEPT_LANGUAGE, languages)?;
        }
        for (name, text) in &settings.headers {
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| {
                SettingsError::new("headers", format!("{name:?} is no name of a header"))
            })?;
            if OURS.contains(&name) {
                let reason = format!("{name} cannot be set: it is made for each request");
                return Err(SettingsError::new("headers", reason));
            }
            set("headers", name, text)?;
        }
        headers.insert(
            ACCEPT_ENCODING,
            HeaderValue::from_static("gzip, deflate, br, zstd"),
        );
        Ok(Self { headers })
    }

    /// A request for this URL, a step on the way of that request.
    pub fn request(
        &self,
        url: &Url,
        form: Form,
        asked: &FetchRequest,
        more: More<'_>,
    ) -> Result<Request<NoBody>, FetchError> {
        let wrong = |error: &dyn std::fmt::Display| FetchError::Address {
            url: url.to_string(),
            reason: error.to_string(),
        };
        let target = match form {
            Form::Path => &url[Position::BeforePath..Position::AfterQuery],
            Form::Whole | Form::Two => &url[..Position::AfterQuery],
        };
        let uri = Uri::try_from(target).map_err(|error| wrong(&error))?;
        let mut headers = self.headers.clone();
        let mut set = |name, text: &str| -> Result<(), FetchError> {
            let value = HeaderValue::from_str(text).map_err(|error| wrong(&error))?;
            headers.insert(name, value);
            Ok(())
        };
        if form != Form::Two {
            set(HOST, host_and_port(url))?;
        }
        if more.is_first {
            // What is known is a version of the first page, and of no other.
            if let Some(etag) = &asked.etag {
                set(IF_NONE_MATCH, etag)?;
            }
            if let Some(date) = &asked.last_modified {
                set(IF_MODIFIED_SINCE, date)?;
            }
        }
        if let Some(from) = &asked.referer {
            set(REFERER, referer(from, url))?;
        }
        if let Some(cookies) = more.cookies {
            set(COOKIE, cookies)?;
        }
        if let Some(authorization) = more.proxy_authorization {
            headers.insert(PROXY_AUTHORIZATION, authorization.clone());
        }
        let mut request = Request::new(NoBody::new());
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        if form == Form::Two {
            *request.version_mut() = hyper::Version::HTTP_2;
        }
        Ok(request)
    }
}

/// What a request has besides.
#[derive(Clone, Copy)]
pub(super) struct More<'a> {
    /// Whether no redirect was followed yet.
    pub is_first: bool,
    /// What the cookies are.
    pub cookies: Option<&'a str>,
    /// What lets it through the proxy.
    pub proxy_authorization: Option<&'a HeaderValue>,
}

/// What a server is told about the page that led there: within a site all of it, otherwise only which site it was.
fn referer<'a>(from: &'a Url, to: &Url) -> &'a str {
    match from[..Position::BeforePath] == to[..Position::BeforePath] {
        true => &from[..Position::AfterQuery],
        false => &from[..Position::BeforePath],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING_MORE: More<'_> = More {
        is_first: true,
        cookies: None,
        proxy_authorization: None,
    };

    #[test]
    fn targets_are_written_as_each_way_wants_them() {
        let prepared = Prepared::new(&FetchSettings::default()).unwrap();
        let url = Url::parse("https://example.com:8443/a b?q=ä|^`#part").unwrap();
        let asked = FetchRequest::new(url.clone());
        let of = |form| prepared.request(&url, form, &asked, NOTHING_MORE).unwrap();
        let path = of(Form::Path);
        assert_eq!(path.uri().to_string(), "/a%20b?q=%C3%A4|^`");
        assert_eq!(path.headers()[HOST], "example.com:8443");
        assert_eq!(path.headers()[USER_AGENT], "HivewireBot/0.1");
        let whole = of(Form::Whole);
        assert_eq!(whole.uri().host(), Some("example.com"));
        let two = of(Form::Two);
        assert!(!two.headers().contains_key(HOST));
        assert_eq!(two.uri().authority().unwrap().as_str(), "example.com:8443");
    }

    #[test]
    fn other_sites_hear_only_which_site_it_was() {
        let from = Url::parse("https://a.example/secret?x=1#part").unwrap();
        let same = Url::parse("https://a.example/b").unwrap();
        let other = Url::parse("https://b.example/b").unwrap();
        assert_eq!(referer(&from, &same), "https://a.example/secret?x=1");
        assert_eq!(referer(&from, &other), "https://a.example");
    }

    #[test]
    fn headers_that_belong_to_the_connection_cannot_be_set() {
        for name in ["Host", "cookie", "two words"] {
            let mut settings = FetchSettings::default();
            settings.headers.insert(name.to_owned(), "x".to_owned());
            let error = Prepared::new(&settings).err().unwrap();
            assert_eq!(error.field, "headers", "{name}");
        }
    }
}
