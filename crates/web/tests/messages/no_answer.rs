use web::{Read, Service, Then};

struct Cache;
struct Found;

fn lookup(cache: Read<Cache>) -> Then<Found> {
    cache.compute(1, || Found).commit(|_: &mut Cache, _| ())
}

fn main() {
    let _ = Service::new().share(Cache).get("/", lookup);
}
