//! The password, the users and the certificate of a running gateway, which an operator may replace.
//!
//! New connections and new attempts to authenticate use the new secrets. An authenticated client stays authenticated,
//! and an encrypted connection keeps its keys, as in Redis.

use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;

use crate::acl::{Acl, User};
use crate::error::GatewayError;
use crate::options::{GatewayOptions, Password};
use crate::tls;

/// The secrets that are in force.
pub struct Secrets {
    /// The users of Redis clients.
    pub acl: Acl,
    in_force: RwLock<InForce>,
}

#[derive(Clone)]
struct InForce {
    password: Option<Arc<Password>>,
    tls: Option<Arc<ServerConfig>>,
}

impl Secrets {
    /// The password of `options`, and the content of its files.
    pub fn of(options: &GatewayOptions) -> Result<Self, GatewayError> {
        let in_force = InForce::of(options, options.password.clone())?;
        let file = options.acl_file.as_deref();
        Ok(Self {
            acl: Acl::of(file, options.password.as_ref(), options.guard())?,
            in_force: RwLock::new(in_force),
        })
    }

    /// The password that clients must send.
    pub fn password(&self) -> Option<Arc<Password>> {
        self.in_force().password
    }

    /// The configuration of new connections.
    pub fn tls(&self) -> Option<Arc<ServerConfig>> {
        self.in_force().tls
    }

    /// Puts `password` and the present content of the files of `options` in force, or nothing. Returns the users who
    /// are gone.
    pub fn replace(
        &self,
        options: &GatewayOptions,
        password: Option<Password>,
    ) -> Result<Vec<Arc<User>>, GatewayError> {
        // Places for newcomers and the protection of an address were decided when the gateway started.
        if password.is_some() != options.password.is_some() {
            return Err(GatewayError::Options(
                "a gateway that runs gets or loses no password: restart it".to_owned(),
            ));
        }
        let in_force = InForce::of(options, password.clone())?;
        let file = options.acl_file.as_deref();
        let gone = self.acl.replace(file, password.as_ref())?;
        *self
            .in_force
            .write()
            .unwrap_or_else(PoisonError::into_inner) = in_force;
        Ok(gone)
    }

    /// Puts the present content of the file of users of `options` in force, or nothing. Returns the users who are gone.
    pub fn replace_users(&self, options: &GatewayOptions) -> Result<Vec<Arc<User>>, GatewayError> {
        let file = options.acl_file.as_deref();
        self.acl.replace(file, self.password().as_deref())
    }

    fn in_force(&self) -> InForce {
        let secrets = self.in_force.read().unwrap_or_else(PoisonError::into_inner);
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
