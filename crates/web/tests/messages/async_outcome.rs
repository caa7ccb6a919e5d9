use web::Service;

struct Found;

async fn lookup() -> Found {
    Found
}

fn main() {
    let _ = Service::new().get("/", lookup);
}
