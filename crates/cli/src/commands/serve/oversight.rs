//! The requests of an operator to a server that runs, and the server's reports about itself.

use stonecast::Server;
use stonecast_gateway::GatewayHandle;
use stonecast_media::MediaError;
use tracing::{error, info, warn};

use super::gateway::GatewayFlags;
use super::structures::Beside;
use super::supervisor::Supervisor;
use crate::failure::Failure;
use crate::signals::{Reload, Stop};

/// Everything that is looked at between two batches of the server.
pub struct Oversight<'a> {
    pub stop: Stop,
    pub reload: Reload,
    pub supervisor: Supervisor,
    /// The files of the password and the certificate.
    pub secrets: &'a GatewayFlags,
    /// The back-end of data structures, whose end ends the server.
    pub beside: Option<Beside>,
}

impl Oversight<'_> {
    /// Does what is asked for, reports what has happened, and returns whether the server has nothing left to do.
    pub fn look(&self, server: &Server, gateway: Option<&GatewayHandle>) -> bool {
        self.supervisor.alive();
        server.take_trouble().iter().for_each(tell_trouble);
        if let Some(error) = server.take_refusal() {
            warn!("a client was not accepted: {error}");
        }
        if self.reload.take() {
            self.replace_secrets(gateway);
        }
        self.stop.news().iter().for_each(|news| info!("{news}"));
        self.is_to_end(gateway)
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
            Ok(()) => info!("SIGHUP: password and certificate were read again"),
            Err(failure) => {
                error!("SIGHUP: the password and certificate before stay in force: {failure}");
            }
        }
    }

    /// Returns whether the server is to end. A gateway is asked to end first, and is served to its end: the commands that its
    /// clients have sent are done and answered.
    fn is_to_end(&self, gateway: Option<&GatewayHandle>) -> bool {
        let is_asked = self.stop.asked() || self.beside.as_ref().is_some_and(Beside::has_ended);
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
