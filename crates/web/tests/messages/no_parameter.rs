use web::Service;

struct Cache;

fn lookup(_cache: Cache) -> &'static str {
    "found"
}

fn main() {
    let _ = Service::new().share(Cache).get("/", lookup);
}
