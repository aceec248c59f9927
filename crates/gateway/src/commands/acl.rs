//! `ACL`: users and their rights.

use std::path::PathBuf;
use std::sync::Arc;

use super::batch::Run;
use super::error::CommandError;
use super::operation::Arguments;
use super::options::{integer, is};
use super::permission;
use super::table::find;
use crate::acl::{CATEGORIES, Category, Unit, User, hex, units_of};

/// Bits of a password that `GENPASS` makes, and the most.
const PASSWORD_BITS: i64 = 256;
const PASSWORD_BITS_MAX: i64 = 4096;

/// `ACL` with a subcommand.
#[derive(Clone, Copy, Debug)]
pub enum AclCommand<'a> {
    /// `CAT`: the categories.
    Categories,
    /// `CAT category`: the commands of a category.
    Category(Category),
    /// `DELUSER name...`.
    Delete(Arguments<'a>),
    /// `DRYRUN name command...`: whether the user may run the command.
    DryRun(Arguments<'a>),
    /// `GENPASS [bits]`, with the number of hexadecimal digits.
    Password(usize),
    /// `GETUSER name`.
    Show(&'a [u8]),
    /// `LIST`: the users with their rules.
    List,
    /// `LOAD`: the users of the file count again.
    Load,
    /// `SAVE`: the file gets the users.
    Save,
    /// `SETUSER name rule...`.
    Set(Arguments<'a>),
    /// `USERS`: the names of the users.
    Names,
    /// `WHOAMI`.
    Own,
}

impl<'a> AclCommand<'a> {
    /// Reads the arguments after `ACL`.
    pub fn read(arguments: Arguments<'a>) -> Result<Self, CommandError> {
        let (subcommand, rest) = (arguments.at(0), arguments.from(1));
        let names = [
            ("CAT", 0, 1),
            ("DELUSER", 1, usize::MAX),
            ("DRYRUN", 2, usize::MAX),
            ("GENPASS", 0, 1),
            ("GETUSER", 1, 1),
            ("LIST", 0, 0),
            ("LOAD", 0, 0),
            ("SAVE", 0, 0),
            ("SETUSER", 1, usize::MAX),
            ("USERS", 0, 0),
            ("WHOAMI", 0, 0),
        ];
        let known = names.iter().find(|(name, ..)| is(subcommand, name));
        let Some(&(name, least, most)) = known else {
            return Err(CommandError::Subcommand {
                command: "ACL",
                subcommand: subcommand.to_vec(),
            });
        };
        if !(least..=most).contains(&rest.len()) {
            let name = format!("acl|{}", name.to_lowercase());
            return Err(CommandError::ArgumentCount(name));
        }
        Ok(match name {
            "CAT" => match rest.get(0) {
                None => Self::Categories,
                Some(name) => Self::Category(Category::of(name).ok_or_else(|| {
                    CommandError::NoSuchCategory(name.escape_ascii().to_string())
                })?),
            },
            "DELUSER" => Self::Delete(rest),
            "DRYRUN" => Self::DryRun(rest),
            "GENPASS" => Self::Password(digits(rest.get(0))?),
            "GETUSER" => Self::Show(rest.at(0)),
            "LIST" => Self::List,
            "LOAD" => Self::Load,
            "SAVE" => Self::Save,
            "SETUSER" => Self::Set(rest),
            "USERS" => Self::Names,
            _ => Self::Own,
        })
    }

    /// Whether the arguments have passwords, which no log may show.
    pub fn is_secret(&self) -> bool {
        matches!(self, Self::Set(_))
    }
}

/// The hexadecimal digits of a password of so many bits.
fn digits(bits: Option<&[u8]>) -> Result<usize, CommandError> {
    let bits = bits.map_or(Ok(PASSWORD_BITS), integer)?;
    if !(1..=PASSWORD_BITS_MAX).contains(&bits) {
        return Err(CommandError::Refused(
            "ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096",
        ));
    }
    Ok((bits as usize).div_ceil(4))
}

/// Answers `ACL`. The replies are as long as the rules, which an administrator has sent, and are small.
pub fn answer(run: &mut Run<'_, '_>, command: AclCommand<'_>) -> Result<(), CommandError> {
    let shared = run.context.thread.shared.clone();
    let acl = &shared.secrets.acl;
    match command {
        AclCommand::Categories => {
            list(run, CATEGORIES.iter());
        }
        AclCommand::Category(category) => {
            let names: Vec<String> = units_of(category).map(Unit::name).collect();
            list(run, names.iter());
        }
        AclCommand::Delete(names) => {
            let gone = acl.remove(names.iter())?;
            run.writer().integer(gone.len() as i64);
            end_connections(run, gone);
        }
        AclCommand::DryRun(arguments) => dry_run(run, arguments)?,
        AclCommand::Password(digits) => {
            let password = password(digits)?;
            run.writer().bulk(password.as_bytes());
        }
        AclCommand::Show(name) => show(run, name),
        AclCommand::List => list(run, acl.all().iter().map(|user| user.line())),
        AclCommand::Load => {
            file_of_users(run)?;
            let gone = shared.secrets.replace_users(&shared.options);
            let gone = gone.map_err(|error| CommandError::UsersFile(error.to_string()))?;
            run.writer().ok();
            end_connections(run, gone);
        }
        AclCommand::Save => {
            let path = file_of_users(run)?;
            let saved = acl.save(&path, shared.secrets.password().is_some());
            saved.map_err(|error| {
                CommandError::UsersFile(format!("writing {}: {error}", path.display()))
            })?;
            run.writer().ok();
        }
        AclCommand::Set(arguments) => {
            acl.set(arguments.at(0), arguments.from(1).iter())?;
            run.writer().ok();
        }
        AclCommand::Names => list(run, acl.all().iter().map(|user| user.name())),
        AclCommand::Own => {
            let user = run.session.user().clone();
            run.writer().bulk(user.name());
        }
    }
    Ok(())
}

/// Ends the connections of users who are gone.
fn end_connections(run: &mut Run<'_, '_>, gone: Vec<Arc<User>>) {
    for user in gone {
        let clients = &run.context.thread.shared.clients;
        clients.end_of_user(user.name(), run.session.card.id);
        run.session.has_quit |= run.session.user().is_same(&user);
    }
}

fn file_of_users(run: &Run<'_, '_>) -> Result<PathBuf, CommandError> {
    let file = run.context.thread.shared.options.acl_file.clone();
    file.ok_or(CommandError::Refused(
        "this gateway has no file of users: start it with --resp-acl-file",
    ))
}

fn list(run: &mut Run<'_, '_>, texts: impl ExactSizeIterator<Item = impl AsRef<[u8]>>) {
    run.writer().array(texts.len());
    for text in texts {
        run.writer().bulk(text.as_ref());
    }
}

fn show(run: &mut Run<'_, '_>, name: &[u8]) {
    let Some(user) = run.context.thread.shared.secrets.acl.user(name) else {
        return run.writer().optional(None);
    };
    let mut writer = run.writer();
    writer.map(6);
    for (field, words) in [
        (
            "flags",
            user.flags().iter().map(|it| (*it).to_owned()).collect(),
        ),
        ("passwords", user.digests()),
    ] {
        writer.bulk(field.as_bytes());
        writer.array(words.len());
        words.iter().for_each(|word| writer.bulk(word.as_bytes()));
    }
    writer.bulk(b"commands");
    writer.bulk(user.commands().as_bytes());
    writer.bulk(b"keys");
    writer.bulk(&user.key_patterns());
    writer.bulk(b"channels");
    writer.bulk(&user.channel_patterns());
    writer.bulk(b"selectors");
    writer.array(0);
}

fn dry_run(run: &mut Run<'_, '_>, arguments: Arguments<'_>) -> Result<(), CommandError> {
    let (name, command) = (arguments.at(0), arguments.from(1));
    let user = run.context.thread.shared.secrets.acl.user(name);
    let user = user.ok_or_else(|| CommandError::UserNotFound(name.escape_ascii().to_string()))?;
    let spec = find(command.at(0));
    let spec = spec
        .ok_or_else(|| CommandError::CommandNotFound(command.at(0).escape_ascii().to_string()))?;
    if !spec.accepts(command.len()) {
        return Err(CommandError::ArgumentCount(spec.name.to_owned()));
    }
    match permission::denial(&user, spec, command) {
        None => run.writer().ok(),
        Some(denial) => run.writer().bulk(denial.in_words(&user).as_bytes()),
    }
    Ok(())
}

/// An unpredictable password.
fn password(digits: usize) -> Result<String, CommandError> {
    let mut bytes = vec![0; digits.div_ceil(2)];
    getrandom::fill(&mut bytes)
        .map_err(|_| CommandError::Refused("the system has no random numbers"))?;
    let mut text = hex(&bytes);
    text.truncate(digits);
    Ok(text)
}
