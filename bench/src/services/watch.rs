//! Waits until a socket can be read or written, or until a moment that may be less than a millisecond away.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::load::{Result, system};

/// What the timer is called among the sockets.
const TIMER: u64 = u64::MAX;
/// As many are looked after in one go.
const EVENTS: usize = 256;

/// A socket that can be read or written.
#[derive(Debug, Clone, Copy)]
pub struct Woken {
    /// Whose it is.
    pub slot: usize,
    /// Something can be read, if only the end.
    pub readable: bool,
    /// Something can be written.
    pub writable: bool,
}

/// The sockets of a run and a timer.
#[derive(Debug)]
pub struct Watch {
    epoll: OwnedFd,
    timer: OwnedFd,
}

impl Watch {
    /// One without sockets.
    pub fn new() -> Result<Self> {
        let refused = |error: rustix::io::Errno| system("watch sockets")(error.into());
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(refused)?;
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags).map_err(refused)?;
        // It tells once that time is over, so nobody needs to read it.
        let flags = EventFlags::IN | EventFlags::ET;
        epoll::add(&epoll, &timer, EventData::new_u64(TIMER), flags).map_err(refused)?;
        Ok(Self { epoll, timer })
    }

    /// Watches a socket until it is closed.
    pub fn add(&self, socket: impl AsFd, slot: usize) -> Result<()> {
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        epoll::add(&self.epoll, socket, EventData::new_u64(slot as u64), flags)
            .map_err(|error| system("watch a socket")(error.into()))
    }

    /// Waits for at most so long.
    pub fn wait(&self, most: Duration) -> Result<Vec<Woken>> {
        let refused = |error: rustix::io::Errno| system("wait for sockets")(error.into());
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // A timer of nothing would never end.
        let timeout = most.is_zero().then_some(&now);
        if timeout.is_none() {
            let value = Itimerspec {
                it_interval: now,
                it_value: Timespec {
                    tv_sec: most.as_secs() as i64,
                    tv_nsec: most.subsec_nanos().into(),
                },
            };
            timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &value).map_err(refused)?;
        }
        let mut events = Vec::<Event>::with_capacity(EVENTS);
        match epoll::wait(
            &self.epoll,
            rustix::buffer::spare_capacity(&mut events),
            timeout,
        ) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(refused(error)),
        }
        let sockets = events.iter().filter(|event| event.data.u64() != TIMER);
        let woken = sockets.map(|event| {
            let flags = event.flags;
            Woken {
                slot: event.data.u64() as usize,
                readable: flags.intersects(
                    EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR,
                ),
                writable: flags.contains(EventFlags::OUT),
            }
        });
        Ok(woken.collect())
    }
}
