//! The password and the certificate of a running gateway, which an operator may replace.
//!
//! New connections and new attempts to authenticate use the new secrets. A client that is authenticated stays so, and
//! a connection that is encrypted keeps its keys, as in Redis.

use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;

use crate::error::GatewayError;
use crate::options::{GatewayOptions, Password};
use crate::tls;

/// The secrets that are in force.
pub struct Secrets(RwLock<InForce>);

#[derive(Clone)]
struct InForce {
    password: Option<Arc<Password>>,
    tls: Option<Arc<ServerConfig>>,
}

impl Secrets {
    /// The password of `options`, and the content of its files.
    pub fn of(options: &GatewayOptions) -> Result<Self, GatewayError> {
        InForce::of(options, options.password.clone()).map(|secrets| Self(RwLock::new(secrets)))
    }

    /// The password that clients must send.
    pub fn password(&self) -> Option<Arc<Password>> {
        self.in_force().password
    }

    /// The configuration of new connections.
    pub fn tls(&self) -> Option<Arc<ServerConfig>> {
        self.in_force().tls
    }

    /// Puts `password` and the present content of the files of `options` in force, or nothing.
    pub fn replace(
        &self,
        options: &GatewayOptions,
        password: Option<Password>,
    ) -> Result<(), GatewayError> {
        // Places for newcomers and the protection of an address were decided when the gateway started.
        if password.is_some() != options.password.is_some() {
            return Err(GatewayError::Options(
                "a gateway that runs gets or loses no password: restart it".to_owned(),
            ));
        }
        let secrets = InForce::of(options, password)?;
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = secrets;
        Ok(())
    }

    fn in_force(&self) -> InForce {
        let secrets = self.0.read().unwrap_or_else(PoisonError::into_inner);
        secrets.clone()
    }
}

impl InForce {
    fn of(options: &GatewayOptions, password: Option<Password>) -> Result<Self, GatewayError> {
        if let Some(password) = &password {
            password.check()?;
        }
        Ok(Self {
            password: password.map(Arc::new),
            tls: options.tls.as_ref().map(tls::configuration).transpose()?,
        })
    }
}
