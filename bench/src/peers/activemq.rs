//! ActiveMQ 5 ("Classic") with its STOMP connector, from Debian's `activemq`.
//!
//! The packaged service runs as a user of its own on the machine's own data; here the same jar is
//! started directly, as the present user, with a configuration, data and a port of its own, so that
//! many can run beside each other and beside a packaged one.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use super::Result;
use super::process::Process;

const READY_TIMEOUT: Duration = Duration::from_secs(60);
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
const INSTALLATION: &str = "/usr/share/activemq";

/// An ActiveMQ broker of its own. Dropping it ends the process and removes its data.
///
/// It takes any user and password.
#[derive(Debug)]
pub struct ActiveMq {
    // Declared before the directory: fields drop in order, and the process must end first.
    process: Option<Process>,
    directory: TempDir,
    stomp: SocketAddr,
}

impl ActiveMq {
    /// Starts a broker on a free port and waits until it accepts STOMP clients.
    pub fn start() -> Result<Self> {
        super::with_attempts(Self::start_once)
    }

    fn start_once() -> Result<Self> {
        let [stomp] = super::free_addresses()?;
        let directory = super::data_directory("activemq")?;
        super::write_file(
            &directory.path().join("activemq.xml"),
            &configuration(stomp),
        )?;
        let mut activemq = Self {
            process: None,
            directory,
            stomp,
        };
        activemq.restart()?;
        Ok(activemq)
    }

    /// Where STOMP clients connect.
    pub fn stomp_address(&self) -> SocketAddr {
        self.stomp
    }

    /// The directory that holds the broker's data and settings.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The broker's process id, or nothing while it is stopped.
    pub fn process_id(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    /// Ends the broker at once (SIGKILL), as a crash would, and keeps its data.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Ends the broker in good order and keeps its data.
    pub fn stop(&mut self) -> Result<()> {
        match self.process.take() {
            Some(process) => process.terminate(STOP_TIMEOUT),
            None => Ok(()),
        }
    }

    /// Starts the broker on the same data and port, ending it first if it still runs, and waits
    /// until it accepts clients.
    pub fn restart(&mut self) -> Result<()> {
        self.stop()?;
        let mut process = start_process(self.directory.path())?;
        super::wait_until_ready(&mut process, READY_TIMEOUT, || {
            super::accepts_stomp(self.stomp)
        })?;
        self.process = Some(process);
        Ok(())
    }
}

fn start_process(directory: &Path) -> Result<Process> {
    let jar = Path::new(INSTALLATION).join("bin/activemq.jar");
    if !jar.is_file() {
        return Err(super::not_installed("activemq"));
    }
    let property = |name: &str, path: &Path| format!("-Dactivemq.{name}={}", path.display());
    let mut command = Command::new(super::find_program("java")?);
    command
        .args(["-Xms64m", "-Xmx512m", "-XX:TieredStopAtLevel=1"])
        .arg(property("home", Path::new(INSTALLATION)))
        .arg(property("base", directory))
        .arg(property("conf", directory))
        .arg(property("data", &directory.join("data")))
        .arg("-jar")
        .arg(jar)
        .arg("start")
        .arg(format!("xbean:file:{}/activemq.xml", directory.display()))
        .current_dir(directory);
    let output = directory.join("output");
    Process::spawn("activemq", command, &output, Some(directory))
}

/// The packaged configuration with a STOMP connector instead of the one for Java clients. How it
/// stores messages, and when it syncs them, is left as it is.
fn configuration(stomp: SocketAddr) -> String {
    format!(
        r#"<beans xmlns="http://www.springframework.org/schema/beans"
       xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
       xsi:schemaLocation="http://www.springframework.org/schema/beans http://www.springframework.org/schema/beans/spring-beans-2.0.xsd
       http://activemq.apache.org/schema/core http://activemq.apache.org/schema/core/activemq-core.xsd">
  <bean class="org.springframework.beans.factory.config.PropertyPlaceholderConfigurer"/>
  <broker xmlns="http://activemq.apache.org/schema/core" useJmx="false" brokerName="localhost"
          dataDirectory="${{activemq.base}}/data">
    <persistenceAdapter>
      <kahaDB directory="${{activemq.base}}/data/kahadb"/>
    </persistenceAdapter>
    <transportConnectors>
      <transportConnector name="stomp" uri="stomp://{stomp}"/>
    </transportConnectors>
  </broker>
</beans>
"#
    )
}
