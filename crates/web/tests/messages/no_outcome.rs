use web::Service;

struct Found;

fn lookup() -> Found {
    Found
}

fn main() {
    let _ = Service::new().get("/", lookup);
}
