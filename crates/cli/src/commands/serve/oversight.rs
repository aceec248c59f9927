//! The requests of an operator to a server that runs, and the server's reports about itself.

use stonecast::Server;
use stonecast_gateway::GatewayHandle;
use stonecast_media::MediaError;
use tracing::{error, info, warn};

use super::gateway::GatewayFlags;
use super::structures::Beside;
use super::supervisor::Supervisor;
use crate::failure::Failure;
use crate::signals::{self, Reload, Stop};

/// The requests that come by signals, and the service manager.
pub struct Requests<'a> {
    stop: Stop,
    reload: Reload,
    supervisor: Supervisor,
    /// The files of the password and the certificate.
    secrets: &'a GatewayFlags,
}

impl<'a> Requests<'a> {
    /// Listens to signals from now on.
    pub fn listen(secrets: &'a GatewayFlags) -> Result<Self, Failure> {
        let (stop, reload) = signals::of_a_server()?;
        Ok(Self {
            stop,
            reload,
            supervisor: Supervisor::of_this_process(),
            secrets,
        })
    }

    /// Reports that clients are served, with a line about the server.
    pub fn ready(&self, status: &str) {
        self.supervisor.ready(status);
    }

    /// Does what is asked for, and returns whether the server is to end; it is also to end if `has_lost` says that a
    /// part of it has ended. A gateway is asked to end first, and is served to its end: the commands that its clients
    /// have sent are done and answered.
    pub fn attend(&self, has_lost: bool, gateway: Option<&GatewayHandle>) -> bool {
        self.supervisor.alive();
        if self.reload.take() {
            self.replace_secrets(gateway);
        }
        self.stop.news().iter().for_each(|news| info!("{news}"));
        let is_asked = has_lost || self.stop.asked();
        if is_asked {
            self.supervisor.stopping();
        }
        let Some(gateway) = gateway else {
            return is_asked;
        };
        if is_asked {
            gateway.ask_to_stop();
        }
        gateway.has_ended()
    }

    /// Puts the present content of the secret files in force, and tells the outcome.
    fn replace_secrets(&self, gateway: Option<&GatewayHandle>) {
        let Some(gateway) = gateway else {
            warn!("SIGHUP: without --resp or --admin there are no secrets to read again");
            return;
        };
        let replaced = self.secrets.password().and_then(|password| {
            let replaced = gateway.replace_secrets(password);
            replaced.map_err(|error| Failure::usage(error.to_string()))
        });
        match replaced {
            Ok(()) => info!("SIGHUP: password, users and certificate were read again"),
            Err(failure) => {
                error!(
                    "SIGHUP: the password, users and certificate before stay in force: {failure}"
                );
            }
        }
    }
}

/// Everything that is looked at between two batches of a server of keys and values.
pub struct Oversight<'a> {
    pub requests: Requests<'a>,
    /// The back-end of data structures, whose end ends the server.
    pub beside: Option<Beside>,
}

impl Oversight<'_> {
    /// Does what is asked for, reports what has happened, and returns whether the server has nothing left to do.
    pub fn look(&self, server: &Server, gateway: Option<&GatewayHandle>) -> bool {
        server.take_trouble().iter().for_each(tell_trouble);
        if let Some(error) = server.take_refusal() {
            warn!("a client was not accepted: {error}");
        }
        let has_lost = self.beside.as_ref().is_some_and(Beside::has_ended);
        self.requests.attend(has_lost, gateway)
    }
}

/// Tells why there is no room for writes.
fn tell_trouble(error: &MediaError) {
    let remedy = match error {
        MediaError::NoSpace { .. } => {
            "free space on that file system, or move the pool to a larger one"
        }
        _ => "check that disk for errors",
    };
    error!("writes are refused: {error}; {remedy}");
}
