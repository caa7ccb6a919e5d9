//! The plug-ins in the examples that people start from.

use std::path::Path;

use flows::plugins::find;

#[test]
fn parameters_in_examples_are_accepted() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/flows");
    let mut stages = 0;
    for example in std::fs::read_dir(folder).unwrap() {
        let file = example.unwrap().path().join("flow.toml");
        let text = std::fs::read_to_string(&file).unwrap();
        let document: toml::Table = text.parse().unwrap();
        for (name, stage) in document["stages"].as_table().unwrap() {
            let built_in = find(stage["plugin"].as_str().unwrap()).unwrap();
            let parameters = serde_json::to_vec(&stage["parameters"]).unwrap();
            let checked = built_in.check(&parameters);
            assert!(
                checked.is_ok(),
                "{}: {name}: {}",
                file.display(),
                checked.unwrap_err()
            );
            stages += 1;
        }
    }
    assert!(stages > 10);
}
