use web::{Read, Service};

struct Cache;

async fn lookup(_cache: Read<'_, Cache>) -> &'static str {
    "found"
}

fn main() {
    let _ = Service::new().share(Cache).get("/", lookup);
}
