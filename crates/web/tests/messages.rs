//! What the compiler says to those who write handlers that cannot be.

#[test]
fn wrong_handlers_are_explained() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/messages/fine.rs");
    cases.compile_fail("tests/messages/async_*.rs");
    cases.compile_fail("tests/messages/no_*.rs");
}
