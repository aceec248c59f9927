//! Commands that stand alone: about the connection, the server, or all keys.

use super::acl;
use super::batch::Run;
use super::clients::Chosen;
use super::describe;
use super::error::CommandError;
use super::exec;
use super::info;
use super::keyspace::{self, ListedKeys};
use super::operation::{ClientReport, Control};
use super::transaction::Transaction;
use super::wait;
use crate::outlet::End;
use crate::resp::Protocol;
use crate::sizes::{KEY_WORK, SMALL_REPLIES};

/// Runs a command that stands alone. The inner error is the reply to the client.
pub async fn run(
    run: &mut Run<'_, '_>,
    control: &Control<'_>,
) -> Result<Result<(), CommandError>, End> {
    let outcome = match control {
        Control::Auth(_) => guess(run, control).await?,
        Control::Hello(hello) if hello.credentials.is_some() => guess(run, control).await?,
        Control::Keys { pattern } => {
            match keyspace::keys(run.context, run.session.user(), pattern).await {
                Ok(keys) => return list(run, keys, None).await,
                Err(error) => Err(error),
            }
        }
        Control::Scan(scan) => match keyspace::scan(run.context, run.session.user(), scan).await {
            Ok((next, keys)) => return list(run, keys, Some(next)).await,
            Err(error) => Err(error),
        },
        Control::Exec => return exec::exec(run).await,
        Control::Wait(wanted) => return wait::wait(run, *wanted).await,
        Control::SlowGet(count) => return slow_commands(run, *count).await,
        Control::ClientList(chosen) => {
            let lines = lines_of(run, chosen);
            if !run.outlet.room(lines.len()).await? {
                return Ok(Err(CommandError::NoRoomForReplies));
            }
            run.writer().text(&lines);
            Ok(())
        }
        Control::Describe(what) => {
            if !run.outlet.room(describe::size_max(what)).await? {
                return Ok(Err(CommandError::NoRoomForReplies));
            }
            describe::write(*what, &mut run.writer());
            Ok(())
        }
        other => answer(run, other).await,
    };
    Ok(outcome)
}

/// Runs a command that carries a password once its turn has come.
async fn guess(
    run: &mut Run<'_, '_>,
    control: &Control<'_>,
) -> Result<Result<(), CommandError>, End> {
    let context = run.context;
    if !context.thread.shared.secrets.acl.has_passwords() {
        return Ok(answer(run, control).await);
    }
    // Earlier replies must not wait for this reply.
    run.outlet.send()?;
    let own = run.session.guesses.clone();
    let turn = context.guesses.turn(&own, &context.thread.runtime);
    let turn = run.outlet.unless_cut(turn).await?;
    let counters = &context.thread.counters;
    counters.passwords_delayed.add(turn.was_late.into());
    let outcome = answer(run, control).await;
    if matches!(outcome, Err(CommandError::PasswordWrong)) {
        counters.wrong_passwords.add(1);
        turn.was_wrong();
    }
    Ok(outcome)
}

async fn answer(run: &mut Run<'_, '_>, control: &Control<'_>) -> Result<(), CommandError> {
    let context = run.context;
    let users = &context.thread.shared.secrets.acl;
    match *control {
        Control::Acl(command) => return acl::answer(run, command),
        Control::Auth(credentials) => {
            run.session.authenticate(credentials, users)?;
            run.writer().ok();
        }
        Control::Hello(hello) => {
            run.session.greet(hello, users)?;
            write_greeting(run);
        }
        Control::Reset => {
            run.session.reset(context.thread.runtime.now(), users);
            run.writer().simple("RESET");
        }
        Control::Quit => {
            run.session.has_quit = true;
            run.writer().ok();
        }
        Control::Multi => {
            run.session.transaction.begin(&context.queued);
            run.writer().ok();
        }
        Control::MalformedExec => {
            run.session.transaction = Transaction::default();
            return Err(CommandError::ArgumentCount("exec".to_owned()).aborts_transaction());
        }
        Control::Discard => match run.session.transaction.end() {
            Some(_) => run.writer().ok(),
            None => return Err(CommandError::Refused("DISCARD without MULTI")),
        },
        Control::Watch(keys) => return exec::watch(run, keys).await,
        Control::Unwatch => {
            run.session.transaction.watched.clear();
            run.writer().ok();
        }
        Control::ClientReport(ClientReport::Id) => {
            let id = run.session.card.id as i64;
            run.writer().integer(id);
        }
        Control::ClientReport(ClientReport::Name) => {
            let name = run.session.name.clone();
            run.writer()
                .optional(Some(name.as_slice()).filter(|name| !name.is_empty()));
        }
        Control::ClientReport(ClientReport::Info) => {
            let line = run.session.card.line(context.thread.shared.uptime());
            run.writer().text(&line);
        }
        Control::ClientSetName(name) => {
            run.session.rename(name);
            run.writer().ok();
        }
        Control::ClientSetLibrary { is_name, value } => {
            run.session.library[usize::from(!is_name)] = value.to_vec();
            run.session.show();
            run.writer().ok();
        }
        Control::ClientsEnd(ref chosen) => {
            if let Some(user) = chosen
                .user
                .as_ref()
                .filter(|name| users.user(name).is_none())
            {
                return Err(CommandError::NoSuchUser(user.escape_ascii().to_string()));
            }
            let count = end_connections(run, chosen);
            run.writer().integer(count);
        }
        Control::ClientEnd(ref chosen) => match end_connections(run, chosen) {
            0 => return Err(CommandError::Refused("No such client")),
            _ => run.writer().ok(),
        },
        Control::ConfigSet(bounds) => {
            context.thread.shared.slow_log.set(bounds);
            run.writer().ok();
        }
        Control::SlowCount => {
            let count = context.thread.shared.slow_log.len();
            run.writer().integer(count as i64);
        }
        Control::SlowReset => {
            context.thread.shared.slow_log.reset();
            run.writer().ok();
        }
        Control::Keys { .. }
        | Control::Scan(_)
        | Control::SlowGet(_)
        | Control::ClientList(_)
        | Control::Describe(_)
        | Control::Wait(_)
        | Control::Exec => {
            unreachable!("done by `run`")
        }
        ref about_store => return answer_about_store(run, about_store).await,
    }
    Ok(())
}

/// Writes the latest commands that took long.
async fn slow_commands(
    run: &mut Run<'_, '_>,
    count: usize,
) -> Result<Result<(), CommandError>, End> {
    let latest = run.context.thread.shared.slow_log.latest(count);
    let arguments = latest.iter().flat_map(|(_, slow)| &slow.arguments);
    let size = arguments.map(Vec::len).sum();
    if !run.outlet.room(size).await? {
        return Ok(Err(CommandError::NoRoomForReplies));
    }
    let mut writer = run.writer();
    writer.array(latest.len());
    for (number, slow) in &latest {
        writer.array(6);
        writer.integer(*number as i64);
        writer.integer(slow.at_s as i64);
        writer.integer(slow.took_us as i64);
        writer.array(slow.arguments.len());
        slow.arguments.iter().for_each(|bytes| writer.bulk(bytes));
        writer.bulk(slow.peer.to_string().as_bytes());
        writer.bulk(&slow.name);
    }
    Ok(Ok(()))
}

/// The lines of the connections that are meant.
fn lines_of(run: &Run<'_, '_>, chosen: &Chosen) -> String {
    let shared = &run.context.thread.shared;
    let (own, now) = (run.session.card.id, shared.uptime());
    let cards = shared.clients.cards();
    let meant = cards.iter().filter(|card| chosen.fits(card, own, now));
    meant.map(|card| card.line(now)).collect()
}

/// Ends the connections that are meant, and returns their number. The connection of the command ends after its reply.
fn end_connections(run: &mut Run<'_, '_>, chosen: &Chosen) -> i64 {
    let shared = &run.context.thread.shared;
    let (own, now) = (run.session.card.id, shared.uptime());
    let mut count = 0;
    for card in shared.clients.cards() {
        if !chosen.fits(&card, own, now) {
            continue;
        }
        if card.id == own {
            run.session.has_quit = true;
            count += 1;
        } else {
            count += i64::from(shared.clients.end(card.id));
        }
    }
    count
}

/// Answers a command about the server or all keys.
async fn answer_about_store(
    run: &mut Run<'_, '_>,
    control: &Control<'_>,
) -> Result<(), CommandError> {
    let context = run.context;
    match *control {
        Control::ConfigGet(patterns) => {
            let settings =
                info::settings(&context.thread.shared, context.store.stat().await?.power);
            let wanted = info::matching(&settings, patterns);
            let mut writer = run.writer();
            writer.map(wanted.len());
            for (name, value) in wanted {
                writer.bulk(name.as_bytes());
                writer.bulk(value.as_bytes());
            }
        }
        Control::Info(sections) => {
            let stat = context.store.stat().await?;
            run.writer()
                .text(&info::text(&context.thread.shared, &stat, sections));
        }
        Control::Count => {
            let keys = context.store.keys().await?;
            run.writer().integer(keys as i64);
        }
        Control::Time => {
            // Any key will do: the times of the shards of a cluster differ by little.
            let now_us = context.store.time_ms(b"time").await? * 1000;
            let mut writer = run.writer();
            writer.array(2);
            writer.bulk((now_us / 1_000_000).to_string().as_bytes());
            writer.bulk((now_us % 1_000_000).to_string().as_bytes());
        }
        Control::RandomKey => {
            let key = keyspace::random_key(context).await?;
            run.writer().optional(key.as_deref());
        }
        Control::Flush => {
            keyspace::flush(context).await?;
            run.writer().ok();
        }
        ref other => unreachable!("{other:?} does not concern the store"),
    }
    Ok(())
}

/// Writes a list that may be long. The list stays in memory until the output has room for all of it, so a client that
/// takes the list slowly holds only counted memory. The reply to `SCAN` has the next cursor before the list.
async fn list(
    run: &mut Run<'_, '_>,
    keys: ListedKeys,
    cursor: Option<u64>,
) -> Result<Result<(), CommandError>, End> {
    if keys.size > SMALL_REPLIES && !run.outlet.room(keys.size).await? {
        return Ok(Err(CommandError::NoRoomForReplies));
    }
    if let Some(cursor) = cursor {
        run.writer().array(2);
        run.writer().bulk(cursor.to_string().as_bytes());
    }
    run.writer().array(keys.names.len());
    for piece in keys.names.chunks(1024) {
        piece.iter().for_each(|key| run.writer().bulk(key));
        run.outlet.note_work(piece.len() * KEY_WORK);
        run.outlet.take_turn().await;
    }
    Ok(Ok(()))
}

fn write_greeting(run: &mut Run<'_, '_>) {
    let (id, protocol) = (run.session.card.id as i64, run.session.protocol);
    let mut writer = run.writer();
    writer.map(7);
    let mut text = |name: &str, value: &str| {
        writer.bulk(name.as_bytes());
        writer.bulk(value.as_bytes());
    };
    text("server", "stonecast");
    text("version", info::REDIS_VERSION);
    text("mode", "standalone");
    text("role", "master");
    let mut number = |name: &str, value: i64| {
        writer.bulk(name.as_bytes());
        writer.integer(value);
    };
    number("proto", if protocol == Protocol::Resp3 { 3 } else { 2 });
    number("id", id);
    writer.bulk(b"modules");
    writer.array(0);
}
