//! Documents of every sort: read, written, mutated; and plans that lead from one to another.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::documents;
use flows::document::{Aspect, Document, HttpRoute, Plan, Stage, Step, difference, plan};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_is_exported_is_read_as_the_same(document in documents()) {
        let text = document.to_toml();
        let read = Document::parse(&text).map(|parsed| parsed.document);
        prop_assert_eq!(read.as_ref(), Ok(&document), "{}", text);
        let json = serde_json::to_vec(&document).unwrap();
        let read = Document::parse_json(&json).map(|parsed| parsed.document);
        prop_assert_eq!(read.as_ref(), Ok(&document));
    }

    #[test]
    fn whatever_happens_to_a_text_it_is_read_or_refused(
        document in documents(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), "[\\[\\]{}=\"'\n.,#a-z0-9 -]{0,4}"), 1..6),
    ) {
        let mut text = document.to_toml();
        for (begin, end, by) in changes {
            let places: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
            let (begin, end) = (*begin.get(&places), *end.get(&places));
            let end = end.clamp(begin, (begin + 12).max(begin).min(text.len()));
            let end = places.iter().copied().find(|place| *place >= end).unwrap_or(begin);
            text.replace_range(begin..end, &by);
        }
        match Document::parse(&text) {
            Ok(parsed) => {
                let again = Document::parse(&parsed.document.to_toml()).map(|parsed| parsed.document);
                prop_assert_eq!(again.as_ref(), Ok(&parsed.document));
            }
            Err(problems) => {
                prop_assert!(problems.has_errors());
                let lines = text.split('\n').count();
                for problem in &problems {
                    prop_assert!(problem.line.is_none_or(|line| (1..=lines).contains(&line)), "{}", problem);
                }
            }
        }
    }

    #[test]
    fn a_plan_leads_from_one_document_to_the_other(old in documents(), new in documents()) {
        let steps = plan(Some(&old), &new);
        prop_assert_eq!(applied(&old, &steps, &new), whole(&new));
        prop_assert!(plan(Some(&new), &new).is_empty());
        prop_assert!(difference(Some(&new), &new).is_empty());
        let from_nothing = plan(None, &new);
        prop_assert_eq!(applied(&Document::new("flow"), &from_nothing, &new), whole(&new));
        prop_assert_eq!(from_nothing.steps.len(), new.stages.len() + usize::from(!new.http.is_empty()));
    }

    /// The oracle above can tell: a plan without one of its steps leads elsewhere.
    #[test]
    fn a_plan_that_lacks_a_step_does_not(old in documents(), new in documents(), lacking in any::<prop::sample::Index>()) {
        let mut steps = plan(Some(&old), &new);
        prop_assume!(!steps.is_empty());
        let lacking = lacking.index(steps.steps.len());
        steps.steps.remove(lacking);
        prop_assert_ne!(applied(&old, &steps, &new), whole(&new));
    }

    #[test]
    fn nobody_leads_to_a_stage_that_was_removed(old in documents(), new in documents()) {
        let steps = plan(Some(&old), &new);
        let mut stages = essence(&old);
        for step in &steps.steps {
            apply(&mut stages, step, &new);
            let Step::Remove { stages: removed } = step else {
                continue;
            };
            for stage in stages.values() {
                let mut places = stage.outputs.values().flat_map(|places| &places.0);
                let leads_there = |place: &flows::document::Place| {
                    place.stage_of("flow").is_some_and(|to| removed.iter().any(|gone| gone == to))
                };
                prop_assert!(!places.any(leads_there) || leads_to_missing(&new, removed), "{}", step);
            }
        }
    }

    /// Without cycles, whoever is added or changed comes after all that it leads to.
    #[test]
    fn receivers_come_before_senders(old in documents(), new in documents()) {
        let in_cycle: Vec<String> = new.cycles().into_iter().flat_map(|cycle| cycle.stages).collect();
        let steps = plan(Some(&old), &new);
        let at = |name: &str| steps.steps.iter().position(|step| stage_of(step) == Some(name));
        for edge in new.edges() {
            if in_cycle.contains(&edge.from) && in_cycle.contains(&edge.to) {
                continue;
            }
            if let (Some(from), Some(to)) = (at(&edge.from), at(&edge.to)) {
                prop_assert!(to < from, "{:?}", edge);
            }
        }
    }
}

fn stage_of(step: &Step) -> Option<&str> {
    match step {
        Step::Add { stage, .. } | Step::Change { stage, .. } | Step::Rebuild { stage, .. } => {
            Some(stage)
        }
        Step::Remove { .. } | Step::Serve { .. } => None,
    }
}

/// A document may lead to a stage that it does not have: then it does not pass the check.
fn leads_to_missing(document: &Document, missing: &[String]) -> bool {
    let places = document
        .stages
        .values()
        .flat_map(|stage| stage.outputs.values())
        .flat_map(|places| &places.0);
    places
        .filter_map(|place| place.stage_of("flow"))
        .any(|to| missing.iter().any(|gone| gone == to))
}

/// The stages of a document, without what is only for people, and with all promises said.
fn essence(document: &Document) -> BTreeMap<String, Stage> {
    let essence = |stage: &Stage| Stage {
        delivery: Some(document.promise(stage)),
        description: String::new(),
        position: None,
        supervision: Some(stage.supervision.clone().unwrap_or_default()),
        workers: stage.scale.is_none().then(|| stage.first_workers()),
        scale: stage.scale.as_ref().map(said),
        router: match &stage.key {
            Some(_) => None,
            None => Some(
                stage
                    .router
                    .clone()
                    .unwrap_or("round-robin".to_owned().try_into().unwrap()),
            ),
        },
        ..stage.clone()
    };
    document
        .stages
        .iter()
        .map(|(name, stage)| (name.clone(), essence(stage)))
        .collect()
}

/// A rule with everything said.
fn said(scale: &flows::document::Scale) -> flows::document::Scale {
    use flows::document::Period;
    let rule = scale.rule();
    flows::document::Scale {
        min: Some(rule.min),
        max: Some(rule.max),
        by: Some(rule.by),
        latency: Some(Period::from_millis(rule.latency_ms_max)),
        probe_period: Some(Period::from_millis(rule.probe_period_ms)),
        overload_reaction_time: Some(rule.overload_periods),
        overload_reaction_factor: Some(rule.overload_share),
        low_watermark: Some(rule.low_watermark),
        underload_reaction_time: Some(rule.underload_periods),
        underload_reaction_factor: Some(rule.underload_share),
        queue_length: Some(rule.queue_messages_max),
    }
}

/// The stages of a document and its routes.
type Whole = (BTreeMap<String, Stage>, BTreeSet<String>);

fn whole(document: &Document) -> Whole {
    let named = |route: &HttpRoute| format!("{} by {}", route.route, route.stage);
    let routes = document.http.iter().map(named).collect();
    (essence(document), routes)
}

fn applied(old: &Document, steps: &Plan, new: &Document) -> Whole {
    let (mut stages, mut routes) = whole(old);
    for step in &steps.steps {
        apply(&mut stages, step, new);
        if let Step::Serve { added, removed } = step {
            routes.retain(|route| !removed.contains(route));
            routes.extend(added.iter().cloned());
        }
    }
    (stages, routes)
}

/// Does one step to a model of what runs, and nothing that the step does not say.
fn apply(stages: &mut BTreeMap<String, Stage>, step: &Step, new: &Document) {
    let wanted = essence(new);
    match step {
        Step::Add { stage, .. } => {
            let before = stages.insert(stage.clone(), wanted[stage].clone());
            assert_eq!(before, None, "{stage} was there");
        }
        Step::Rebuild { stage, .. } => {
            let before = stages.insert(stage.clone(), wanted[stage].clone());
            assert!(before.is_some(), "{stage} was not there");
        }
        Step::Remove { stages: gone } => {
            for stage in gone {
                assert!(stages.remove(stage).is_some(), "{stage} was not there");
            }
        }
        // Routes are no part of any stage.
        Step::Serve { .. } => {}
        Step::Change { stage, aspects } => {
            let (is, wanted) = (stages.get_mut(stage).expect("it runs"), &wanted[stage]);
            for aspect in aspects {
                change(is, aspect, wanted);
            }
        }
    }
}

fn change(is: &mut Stage, aspect: &Aspect, wanted: &Stage) {
    match aspect {
        Aspect::Code { .. } => is.plugin = wanted.plugin.clone(),
        Aspect::Parameters => is.parameters = wanted.parameters.clone(),
        Aspect::Edges { .. } => is.outputs = wanted.outputs.clone(),
        Aspect::Size { .. } => {
            is.workers = wanted.workers;
            is.scale = wanted.scale.clone();
        }
        Aspect::Limits => is.limits = wanted.limits.clone(),
        Aspect::Supervision => is.supervision = wanted.supervision.clone(),
        Aspect::HandOver => is.hand_over = wanted.hand_over.clone(),
        Aspect::Grants => is.grants = wanted.grants.clone(),
        Aspect::Nodes => is.on = wanted.on.clone(),
        Aspect::Promise { .. } => is.delivery = wanted.delivery,
    }
}

#[test]
fn steps_are_told_in_sentences() {
    let document = |text: &str| Document::parse(text).unwrap().document;
    let old = document(
        "flow = 'f'\n[stages.a]\nplugin = 'lines'\nto = 'b'\n[stages.b]\nplugin = 'map'\nto = 'c'\n[stages.c]\nplugin = 'sink'\n[stages.x]\nplugin = 'sink'\n[[http]]\nroute = 'POST /a'\nstage = 'b'\n[[http]]\nroute = 'GET /b'\nstage = 'b'\n",
    );
    let new = document(
        "flow = 'f'\n[stages.a]\nplugin = 'lines'\nto = 'b'\n[stages.b]\nplugin = 'filter'\nto = 'd'\nworkers = 2\n[stages.d]\nplugin = 'map'\nto = 'c'\n[stages.c]\nplugin = 'sink'\nkey = 'body'\n[[http]]\nroute = 'POST /a'\nstage = 'b'\n[[http]]\nroute = 'GET /c'\nstage = 'd'\n",
    );
    let sentences: Vec<String> = plan(Some(&old), &new)
        .steps
        .iter()
        .map(Step::to_string)
        .collect();
    let expected = [
        "stop c and begin it anew, because it is a pool with the router round-robin and becomes keyed by body; its events wait meanwhile",
        "add d, which runs map",
        "change b: it runs filter instead of map; new edge out -> d, no edge out -> c; 2 workers instead of 1 worker",
        "remove x once nothing waits there",
        "over HTTP: answer GET /c by d, no longer GET /b by b",
    ];
    assert_eq!(sentences, expected);
}
