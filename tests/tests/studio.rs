//! The studio in a real browser, with a real node behind it. What people do there stands in `studio/e2e`; here is what that
//! needs: a node that can be killed, another one that joins it, a site to crawl, and the proof of what the site saw.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use hivewire_tests::hive::Hive;
use hivewire_tests::http;
use hivewire_tests::nodes::node;
use hivewire_tests::site::{Site, Visit};
use hivewire_tests::workers::component;

const NODE: &str = "queen";
const OTHER: &str = "drone";
/// How long a filter that became tighter may be without effect.
const EFFECT_WITHIN: Duration = Duration::from_secs(1);
/// Far more than all of it takes.
const OVER_WITHIN: Duration = Duration::from_secs(900);
/// How often wishes are looked for.
const PAUSE: Duration = Duration::from_millis(10);
/// What the pictures of the guide may weigh.
const PICTURE_BYTES_MAX: u64 = 150 * 1024;
/// With this variable, the pictures of the guide are made anew.
const WRITE_VARIABLE: &str = "HIVEWIRE_PICTURES_WRITE";

#[test]
fn what_people_do_in_the_studio_works_in_a_browser() -> Result<()> {
    let playwright = repository().join("studio/node_modules/.bin/playwright");
    ensure!(
        playwright.exists(),
        "{} is missing: run `make build`, which installs what the studio needs",
        playwright.display()
    );
    let mut rig = Rig::start()?;
    let mut browser = Browser::start(&playwright, &rig)?;
    let began = Instant::now();
    let status = loop {
        if let Some(status) = browser.child.try_wait()? {
            break status;
        }
        rig.grant_wishes()?;
        ensure!(
            began.elapsed() < OVER_WITHIN,
            "the browser is not done after {OVER_WITHIN:?}: {}",
            browser.said()
        );
        std::thread::sleep(PAUSE);
    };
    print!("{}", browser.said());
    judge(status, &rig)?;
    rig.site_saw_the_change()?;
    if std::env::var_os(WRITE_VARIABLE).is_some() {
        write_pictures(&rig.folder)?;
    }
    Ok(())
}

fn judge(status: ExitStatus, rig: &Rig) -> Result<()> {
    let folder = rig.folder.display();
    ensure!(
        status.success(),
        "the tests in the browser ended with {status}; pictures of what failed are in {folder}"
    );
    Ok(())
}

fn repository() -> &'static Path {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().unwrap_or(tests)
}

/// All that the browser needs.
struct Rig {
    hive: Hive,
    other: Hive,
    other_has_joined: bool,
    site: Site,
    /// Wishes of the browser come here, and pictures.
    folder: PathBuf,
    /// When the browser had made the filter of its crawl tighter, by the clock of the site.
    applied: Option<Duration>,
}

impl Rig {
    fn start() -> Result<Self> {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("studio");
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        let site = Site::options()
            .pages(400)
            .hosts(3)
            .answer_delay(Duration::from_millis(20))
            .start()?;
        let hive = Hive::options().argument("--name").argument(NODE).start()?;
        let page = http::request(hive.http_address(), "GET", "/", &[], b"")?;
        ensure!(
            page.status == 200 && page.text().contains("/assets/"),
            "this binary was built without the studio: build it with `make build`"
        );
        let bus = format!("stomp://{}", hive.stomp_address());
        let other = node(OTHER, &bus).prepare()?;
        Ok(Self {
            hive,
            other,
            other_has_joined: false,
            site,
            folder,
            applied: None,
        })
    }

    /// The browser asks for something with a file `wish-…`, and waits for the file `done-…`.
    fn grant_wishes(&mut self) -> Result<()> {
        for entry in fs::read_dir(&self.folder)? {
            let name = entry?.file_name();
            let Some(wish) = name.to_str().and_then(|name| name.strip_prefix("wish-")) else {
                continue;
            };
            fs::remove_file(self.folder.join(&name))?;
            self.grant(wish)?;
            fs::write(self.folder.join(format!("done-{wish}")), b"")?;
        }
        Ok(())
    }

    fn grant(&mut self, wish: &str) -> Result<()> {
        match wish {
            "applied" => self.applied = Some(self.site.log().now()),
            "down" => self.hive.kill9(),
            "up" if !self.hive.is_healthy() => drop(self.hive.start_again()?),
            "join" if !self.other_has_joined => {
                self.other.start_again()?;
                self.other_has_joined = true;
            }
            "up" | "join" => {}
            _ => bail!("nobody knows what {wish} means"),
        }
        Ok(())
    }

    /// What waited outside of the tighter filter was not asked for any more, and the rest was.
    fn site_saw_the_change(&self) -> Result<()> {
        let applied = self.applied.context("the filter was never changed")?;
        let kept = &self.site.hosts()[0];
        let is_outside = |visit: &&Visit| visit.host != *kept;
        let visits = self.site.log().visits();
        let late = visits
            .iter()
            .filter(is_outside)
            .filter(|visit| visit.started > applied + EFFECT_WITHIN);
        let late: Vec<&Visit> = late.collect();
        ensure!(late.is_empty(), "asked for outside of the filter: {late:?}");
        // The control: there was more to ask for, and it was being asked for.
        let missing = self.site.missing();
        let is_kept = |page: &&String| page.starts_with(kept.as_str());
        ensure!(missing.iter().any(|page| !is_kept(&page)), "too late");
        ensure!(visits.iter().filter(is_outside).count() > 20, "too early");
        // The rest went on.
        let left: Vec<&String> = missing.iter().filter(is_kept).collect();
        ensure!(left.is_empty(), "never asked for: {left:?}");
        let after = visits.iter().filter(|visit| visit.started > applied);
        ensure!(after.count() > 20, "nothing was left");
        Ok(())
    }
}

/// The tests in the browser, as a process; it ends with this.
struct Browser {
    child: Child,
    output: PathBuf,
}

impl Browser {
    fn start(playwright: &Path, rig: &Rig) -> Result<Self> {
        let output = rig.folder.join("output");
        let file = File::create(&output)?;
        let child = Command::new(playwright)
            .arg("test")
            .current_dir(repository().join("studio"))
            .env("STUDIO_URL", format!("http://{}", rig.hive.http_address()))
            .env("STUDIO_TOKEN", rig.hive.token()?)
            .env("STUDIO_SITE", rig.site.hosts().join(","))
            .env("STUDIO_NODE", NODE)
            .env("STUDIO_OTHER", OTHER)
            .env("STUDIO_COMPONENT", component("echo"))
            .env("STUDIO_FOLDER", &rig.folder)
            .env("CI", "1")
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .context("cannot start Playwright")?;
        Ok(Self { child, output })
    }

    fn said(&self) -> String {
        let bytes = fs::read(&self.output).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It may have ended already, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Puts the pictures that the guide has in place of the older ones.
fn write_pictures(folder: &Path) -> Result<()> {
    let guide = repository().join("docs/guide/pictures");
    fs::create_dir_all(&guide)?;
    for entry in fs::read_dir(folder.join("pictures"))? {
        let entry = entry?;
        let is_light = entry
            .file_name()
            .to_str()
            .is_some_and(|name| !name.contains("-dark"));
        if is_light && entry.metadata()?.len() <= PICTURE_BYTES_MAX {
            fs::copy(entry.path(), guide.join(entry.file_name()))?;
        }
    }
    Ok(())
}
