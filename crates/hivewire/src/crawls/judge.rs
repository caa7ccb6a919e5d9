//! What a crawl would do with a URL that it does not know.

use crawl::address::Normaliser;
use crawl::domain::{DomainRules, Verdict};
use schemars::JsonSchema;
use serde::Serialize;

use super::Crawl;

/// What would become of a URL.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Forecast {
    /// The stage that would refuse it; null if none would that can be asked without fetching anything.
    pub stage: Option<String>,
    /// The rule that would stop it.
    pub rule: Option<String>,
    /// Why.
    pub reason: String,
}

/// How the crawl writes a URL, or why it would refuse it.
pub(crate) fn forecast(crawl: &Crawl, url: &str) -> (Option<String>, Forecast) {
    let (normalised, refused) = normalised(crawl, url);
    if let Some(refused) = refused {
        return (None, refused);
    }
    let judged = crawl.domain_filters().find_map(|(stage, parameters)| {
        let rules = DomainRules::new(&parameters).ok()?;
        match rules.decide(&normalised, 0) {
            Verdict::Passes => None,
            Verdict::Refused(refusal) => Some(refused_by(stage, refusal.rule, refusal.reason)),
        }
    });
    let passes = || {
        Forecast {
        stage: None,
        rule: None,
        reason: "its address passes: once a page links to it, it is fetched if robots.txt allows it, no budget is used up and it is not too deep"
            .to_owned(),
    }
    };
    (Some(normalised), judged.unwrap_or_else(passes))
}

fn normalised(crawl: &Crawl, url: &str) -> (String, Option<Forecast>) {
    let as_it_is = || (url.to_owned(), None);
    let Some((stage, rules)) = crawl.normaliser() else {
        return as_it_is();
    };
    let Ok(normaliser) = Normaliser::new(rules) else {
        return as_it_is();
    };
    match normaliser.normalise(None, url) {
        Ok(address) => (address.into_string(), None),
        Err(error) => (
            url.to_owned(),
            Some(refused_by(stage, error.rule(), error.to_string())),
        ),
    }
}

fn refused_by(stage: &str, rule: &str, reason: String) -> Forecast {
    Forecast {
        stage: Some(stage.to_owned()),
        rule: Some(rule.to_owned()),
        reason,
    }
}

#[cfg(test)]
mod tests {
    use flows::document::Document;

    use super::*;

    fn crawl() -> Crawl {
        let text = "flow = 'c'\n[stages.f]\nplugin = 'frontier'\n[stages.n]\nplugin = 'url-normaliser'\n\
            [stages.d]\nplugin = 'domain-filter'\nparameters = { domains = ['example.com'] }";
        Crawl::of(Document::parse(text).unwrap().document).unwrap()
    }

    #[test]
    fn the_rule_that_would_refuse_is_named() {
        let (url, judged) = forecast(&crawl(), "https://other.org/a#b");
        assert_eq!(url.as_deref(), Some("https://other.org/a"));
        assert_eq!(
            (judged.stage.as_deref(), judged.rule.as_deref()),
            (Some("d"), Some("domain"))
        );
        let (_, judged) = forecast(&crawl(), "https://www.example.com/a");
        assert_eq!(judged.stage, None);
        let (url, judged) = forecast(&crawl(), "no url");
        assert_eq!((url, judged.stage.as_deref()), (None, Some("n")));
    }
}
