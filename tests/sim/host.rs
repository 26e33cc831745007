//! The simulated host: one step at a time, so that a crash of anybody can fall between any two. Its order is that of
//! design section 3.3: lock, record, gate, exec, exit record, lock.

use super::computer::{Computer, Host, Quality, Record, Report, Run, Sign, Stage};
use super::letters;
use super::random::Random;
use super::trace::Checked;
use super::turns;
use ostler::host::wire::{Endpoint, Exit, ExitRecord, HostRecord, StartFailure, StartPhase, version};
use ostler::machine::Digest;

/// How the world treats hosts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weather {
    /// Nothing fails and nobody leaves by himself any more.
    pub(super) calm: bool,
}

/// Lets one host do its next step; tells what it did.
pub(super) fn step(computer: &mut Computer, pid: u32, random: &mut Random, weather: Weather) -> Checked<&'static str> {
    let host = computer.hosts.get(&pid).expect("the caller picked a living host").clone();
    if host.stage == Stage::Ended {
        computer.host_gone(pid);
        return Ok("lets go of its lock");
    }
    let Some(spec) = computer.folders.get(&host.run.0).map(|folder| folder.spec) else {
        // Its folder was removed under it; that it lives at all is for the oracle to judge.
        return Ok("has no folder");
    };
    match host.stage {
        Stage::Forked if spec.quality == Quality::NoFolder => {
            Ok(give_up(computer, pid, StartPhase::Cwd, "its folder is not there"))
        }
        Stage::Forked if !weather.calm && random.chance(30) => {
            Ok(give_up(computer, pid, StartPhase::Limit, "a limit was reached"))
        }
        Stage::Forked => Ok(write_record(computer, pid, &host)),
        Stage::Recorded => Ok(advance(computer, pid, Stage::Opened, "opens the gate")),
        Stage::Opened if spec.quality == Quality::NotFound => Ok(fail_exec(computer, pid, &host)),
        Stage::Opened => {
            computer.execute(&host.run, host.command)?;
            // It tells what it did, whatever somebody made of its file meanwhile.
            if let Some(record) = host.record {
                computer.reports.insert(pid, Report::Started(record));
            }
            if let Some(host) = computer.hosts.get_mut(&pid) {
                host.sign = spec.sign;
            }
            turns::start(computer, pid, random);
            Ok(advance(computer, pid, Stage::Running, "executes its command"))
        }
        Stage::Running => Ok(run_on(computer, pid, &host, random, weather)),
        Stage::Ended => Ok("has ended"),
    }
}

/// Kills a host. Its command dies with it, though not always in the same instant.
pub(super) fn kill(computer: &mut Computer, pid: u32, random: &mut Random) {
    let Some(host) = computer.hosts.get(&pid) else { return };
    let run = host.run.clone();
    computer.host_gone(pid);
    if !random.chance(200) {
        computer.end_commands(&run);
    }
}

fn advance(computer: &mut Computer, pid: u32, stage: Stage, what: &'static str) -> &'static str {
    if let Some(host) = computer.hosts.get_mut(&pid) {
        host.stage = stage;
    }
    what
}

/// Before the record: nothing is on disk, so nothing happened.
fn give_up(computer: &mut Computer, pid: u32, phase: StartPhase, reason: &str) -> &'static str {
    let failure = StartFailure { phase, reason: reason.to_owned(), errno: None, cause: None };
    computer.reports.insert(pid, Report::Failed(failure));
    computer.host_gone(pid);
    "gives up before its record"
}

fn write_record(computer: &mut Computer, pid: u32, host: &Host) -> &'static str {
    let command = computer.process();
    let started_us = computer.now().wall_us;
    let (session, number) = host.run.clone();
    let Some(episode) = computer.episode_mut(&host.run) else { return "has no folder" };
    let incarnation = incarnation(pid, command.pid);
    let record = HostRecord {
        version: version(),
        product: "0.1.0".to_owned(),
        session: session.to_string(),
        episode: number,
        host: host.identity.clone(),
        command: command.clone(),
        endpoint: Endpoint {
            address: format!("unix:/run/h{pid}"),
            generation: u64::from(number),
            incarnation: incarnation.to_string(),
        },
        nonce: format!("{pid}"),
        secret: "secret".to_owned(),
        // A lock that was removed meanwhile is known by its descriptor; any other identity would do.
        lock: episode.lock.unwrap_or(episode.folder),
        folder: episode.folder,
        marker: format!("{session}/{number}"),
        started_us,
    };
    episode.record = Record::Present(Box::new(record.clone()));
    episode.exit = None;
    if let Some(host) = computer.hosts.get_mut(&pid) {
        host.record = Some(Box::new(record));
        host.command = command.pid;
        host.stage = Stage::Recorded;
    }
    "writes its record"
}

/// The endpoint incarnation: another for every host.
fn incarnation(host: u32, command: u32) -> Digest {
    let mut bytes = [0xe5; 32];
    bytes[..4].copy_from_slice(&host.to_le_bytes());
    bytes[4..8].copy_from_slice(&command.to_le_bytes());
    Digest(bytes)
}

fn fail_exec(computer: &mut Computer, pid: u32, host: &Host) -> &'static str {
    let failure = StartFailure { phase: StartPhase::Exec, reason: "not found".to_owned(), errno: Some(2), cause: None };
    complete(computer, &host.run, Exit::Error(failure.clone()));
    computer.reports.insert(pid, Report::Failed(failure));
    advance(computer, pid, Stage::Ended, "cannot execute its command")
}

fn run_on(computer: &mut Computer, pid: u32, host: &Host, random: &mut Random, weather: Weather) -> &'static str {
    if random.chance(400)
        && let Some(told) = letters::step(computer, pid, random)
    {
        return told;
    }
    if let Some(told) = turns::step(computer, pid, random) {
        return told;
    }
    if host.sign == Sign::Given && !host.is_ready && random.chance(300) {
        if let Some(host) = computer.hosts.get_mut(&pid) {
            host.is_ready = true;
        }
        computer.ready.insert(host.run.clone());
        return "sees that its command is ready";
    }
    let spec = computer.folders.get(&host.run.0).map(|folder| folder.spec);
    let (stubborn, brief) = spec.map_or((false, false), |spec| (spec.stubborn, spec.brief));
    let killed = host.stop.is_some_and(|deadline_us| computer.now().boot_us >= deadline_us);
    let exit = match host.stop {
        Some(_) if killed => Exit::Signal("SIGKILL".to_owned()),
        Some(_) if !stubborn => Exit::Signal("SIGTERM".to_owned()),
        Some(_) | None if brief && !weather.calm && random.chance(300) => {
            Exit::Code(random.pick(&[0, 0, 3]).unwrap_or(0))
        }
        Some(_) | None => return "runs on",
    };
    computer.end_commands(&host.run);
    letters::close(computer, pid);
    computer.ends.insert(host.run.clone(), exit.clone());
    complete(computer, &host.run, exit);
    advance(computer, pid, Stage::Ended, "sees its command end")
}

/// Completes `exit.json`, durably.
fn complete(computer: &mut Computer, run: &Run, exit: Exit) {
    let ended_us = computer.now().wall_us;
    let was_ready = computer.ready.contains(run);
    if let Some(episode) = computer.episode_mut(run) {
        episode.exit = Some(ExitRecord { version: version(), exit, ended_us, was_ready });
    }
}
