use web::{Write, Service};

struct Cache;

async fn lookup(_cache: Write<'_, Cache>) -> &'static str {
    "found"
}

fn main() {
    let _ = Service::new().share(Cache).get("/", lookup);
}
