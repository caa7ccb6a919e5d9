//! Which stage gets which requests: the routes of all flows.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderName;
use flows::document::{Document, HttpPattern, HttpRoute, HttpTable, OpenParts};
use kernel::{Address, StageAddress};

use super::numbers::Numbers;

/// A route of a flow.
pub(super) struct FlowRoute {
    pub method: String,
    pub path: String,
    pub stage: StageAddress,
    pub address: Address,
    pub reply: bool,
    pub timeout: Duration,
    /// Headers of requests that the stage gets.
    pub headers: Vec<HeaderName>,
    pub numbers: Arc<Numbers>,
}

/// The routes of all flows.
#[derive(Default)]
pub(super) struct Table {
    find: HttpTable<Arc<FlowRoute>>,
    /// In the order of flows and, in each, of the document.
    pub routes: Vec<Listed>,
}

/// A route as it is listed.
pub(super) struct Listed {
    pub route: Arc<FlowRoute>,
    /// Why no request comes there, if that is so.
    pub problem: Option<String>,
}

/// What makes a route the same as before.
type Key = (String, String, StageAddress);

impl FlowRoute {
    fn new(flow: &str, route: &HttpRoute, pattern: &HttpPattern) -> Option<Self> {
        let stage = StageAddress::new(flow, &route.stage).ok()?;
        let headers = route.headers.iter();
        Some(Self {
            method: pattern.method.clone(),
            path: pattern.path.clone(),
            address: stage.clone().into(),
            stage,
            reply: route.reply,
            timeout: Duration::from_millis(route.timeout_ms()),
            headers: headers.filter_map(|name| name.parse().ok()).collect(),
            numbers: Arc::default(),
        })
    }

    fn key(&self) -> Key {
        (self.method.clone(), self.path.clone(), self.stage.clone())
    }
}

impl Table {
    /// The routes of these flows. What was counted before goes on.
    pub fn of<'d>(documents: impl Iterator<Item = &'d Document>, before: &Self) -> Self {
        let known = before.routes.iter();
        let known: HashMap<Key, Arc<Numbers>> = known
            .map(|Listed { route, .. }| (route.key(), route.numbers.clone()))
            .collect();
        let mut table = Self::default();
        for document in documents {
            for route in &document.http {
                // Documents were checked when they were applied.
                let Ok(pattern) = route.pattern() else {
                    continue;
                };
                if let Some(mut route) = FlowRoute::new(&document.flow, route, &pattern) {
                    if let Some(numbers) = known.get(&route.key()) {
                        route.numbers = numbers.clone();
                    }
                    table.add(route, &pattern);
                }
            }
        }
        table
    }

    fn add(&mut self, route: FlowRoute, pattern: &HttpPattern) {
        let route = Arc::new(route);
        let problem = match self.find.insert(pattern, route.clone()) {
            Ok(()) => None,
            Err(path) => {
                let is_it = |Listed {
                                 route: other,
                                 problem,
                             }: &&Listed| {
                    problem.is_none() && other.method == route.method && other.path == path
                };
                let first = self.routes.iter().find(is_it);
                let first = first.map_or(path.clone(), |first| first.route.stage.to_string());
                Some(format!(
                    "{first} gets the same requests: take the route out of one of them"
                ))
            }
        };
        self.routes.push(Listed { route, problem });
    }

    /// The route of a request, with the parts of its path that have names.
    pub fn find<'t>(
        &'t self,
        method: &str,
        path: &'t str,
    ) -> Option<(&'t Arc<FlowRoute>, OpenParts<'t>)> {
        self.find.find(method, path)
    }

    /// The methods that there are at this path.
    pub fn methods_at(&self, path: &str) -> Vec<&str> {
        self.find.methods_at(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(flow: &str, routes: &[(&str, &str)]) -> Document {
        let mut text =
            format!("flow = {flow:?}\n[stages.a]\nplugin = 'p'\n[stages.b]\nplugin = 'p'\n");
        for (route, stage) in routes {
            text += &format!("[[http]]\nroute = {route:?}\nstage = {stage:?}\n");
        }
        Document::parse(&text).unwrap().document
    }

    fn table(documents: &[Document], before: &Table) -> Table {
        Table::of(documents.iter(), before)
    }

    #[test]
    fn of_two_flows_with_one_route_the_first_has_it() {
        let documents = [
            document("x", &[("POST /orders", "a"), ("GET /orders/{id}", "b")]),
            document("y", &[("GET /orders/{other}", "a"), ("GET /new", "b")]),
        ];
        let table = table(&documents, &Table::default());
        let problems: Vec<Option<&str>> = table
            .routes
            .iter()
            .map(|one| one.problem.as_deref())
            .collect();
        let told = "x/b gets the same requests: take the route out of one of them";
        assert_eq!(problems, [None, None, Some(told), None]);
        let found = table.find("GET", "/orders/7").unwrap();
        assert_eq!(
            (found.0.stage.to_string(), found.1),
            ("x/b".to_owned(), vec![("id", "7")])
        );
        assert_eq!(table.methods_at("/orders"), ["POST"]);
    }

    #[test]
    fn what_was_counted_goes_on_while_a_route_stays() {
        let one = table(
            &[document("x", &[("POST /a", "a"), ("POST /b", "b")])],
            &Table::default(),
        );
        for Listed { route, .. } in &one.routes {
            route.numbers.begin().answered(false);
        }
        let two = table(
            &[document("x", &[("POST /b", "b"), ("POST /a", "b")])],
            &one,
        );
        let counted: Vec<u64> = two
            .routes
            .iter()
            .map(|one| one.route.numbers.requests())
            .collect();
        assert_eq!(
            counted,
            [1, 0],
            "the second leads to another stage than before"
        );
    }
}
