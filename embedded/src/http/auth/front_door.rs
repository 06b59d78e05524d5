//! Identifies the caller of a request by its `Authorization` header. Verified credentials are
//! cached under a keyed digest.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::alphabet::STANDARD as ALPHABET;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use crate::Engine;
use crate::error::{Code, Error, Result};

use super::super::limits::CREDENTIALS_KEPT;
use super::access;
use super::digest::{hmac, random};
use super::grants::Level;
use super::token::{self, Bearer};
use super::users::{User, Users};

/// Decodes Basic credentials with or without padding, because the driver arangors sends them
/// unpadded.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &ALPHABET,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Settings of authentication.
#[derive(Clone, Default)]
pub struct AuthSettings {
    /// Password of `root`, used only when the data directory has no users yet.
    pub root_password: String,
    /// Secret of server tokens (`--jwt-secret-file`). Without a secret there are no server tokens,
    /// and users' tokens are valid until the process ends.
    pub jwt_secret: Option<Vec<u8>>,
}

/// Users, tokens and cached credentials, shared by all clones.
#[derive(Clone)]
pub struct Auth {
    inner: Arc<Inner>,
}

impl std::fmt::Debug for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Auth").finish_non_exhaustive()
    }
}

struct Inner {
    users: Users,
    secret: Vec<u8>,
    server_tokens: bool,
    cache_key: [u8; 32],
    /// The cache of verified credentials: keyed digest of name and password → the user as stored at
    /// the time of the check.
    verified: Mutex<HashMap<[u8; 32], Arc<User>>>,
}

/// The caller of a request.
#[derive(Clone)]
pub(in super::super) enum Caller {
    /// A user, with the name and the current grants.
    User(String, Arc<User>),
    /// A client with a server token, which has all permissions.
    Server,
}

impl Caller {
    /// The name under which the caller owns cursors and transactions.
    pub(in super::super) fn name(&self) -> &str {
        match self {
            Self::User(name, _) => name,
            Self::Server => "",
        }
    }

    /// The caller's access level on a database.
    pub(in super::super) fn database(&self, name: &str) -> Level {
        match self {
            Self::User(_, user) => user.grants.database(name),
            Self::Server => Level::Write,
        }
    }

    /// Whether the grants allow reading all collections except `_users`, so that single collections
    /// need no check.
    pub(in super::super) fn reads_everything(&self, database: &str) -> bool {
        match self {
            Self::User(_, user) => user.grants.read_everything(database),
            Self::Server => true,
        }
    }

    /// The caller's access level on a collection.
    pub(in super::super) fn collection(&self, database: &str, name: &str) -> Level {
        match self {
            Self::User(_, user) => user.grants.collection(database, name),
            Self::Server => Level::Write,
        }
    }
}

impl Auth {
    /// Loads the users of the engine's data directory, or creates `root`.
    pub fn open(engine: &Arc<Engine>, settings: AuthSettings) -> Result<Self> {
        let server_tokens = settings.jwt_secret.is_some();
        let secret = match settings.jwt_secret {
            Some(secret) if secret.is_empty() => {
                return Err(Error::new(Code::BadParameter, "the JWT secret is empty"));
            }
            Some(secret) => secret,
            None => random::<32>()?.to_vec(),
        };
        let inner = Inner {
            users: Users::open(Arc::clone(engine), &settings.root_password)?,
            secret,
            server_tokens,
            cache_key: random()?,
            verified: Mutex::new(HashMap::new()),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Whether the data directory has users; otherwise [`Auth::open`] creates `root`.
    pub fn has_users(engine: &Engine) -> Result<bool> {
        Users::are_in(engine)
    }

    /// Whether `root` has an empty password, so that every process with access to the socket can
    /// log in as `root`.
    pub fn root_is_open(&self) -> bool {
        self.inner.users.get("root").is_some_and(|root| root.active && root.password.is(""))
    }

    /// The table of all users.
    pub(in super::super) fn users(&self) -> &Users {
        &self.inner.users
    }

    /// Returns the caller that an `Authorization` header identifies, or error 401/11.
    pub(in super::super) fn identify(&self, header: Option<&str>) -> Result<Caller> {
        let unauthorized = || {
            Error::new(Code::Forbidden, "not authorized to execute this request").with_status(401)
        };
        let (scheme, rest) =
            header.and_then(|h| h.trim().split_once(' ')).ok_or_else(unauthorized)?;
        let rest = rest.trim();
        let caller = if scheme.eq_ignore_ascii_case("basic") {
            let decoded = BASE64.decode(rest).ok().and_then(|bytes| String::from_utf8(bytes).ok());
            decoded
                .as_deref()
                .and_then(|pair| pair.split_once(':'))
                .and_then(|(n, p)| self.login(n, p))
        } else if scheme.eq_ignore_ascii_case("bearer") {
            self.bearer(rest)
        } else {
            None
        };
        caller.ok_or_else(unauthorized)
    }

    /// Returns a token for a user with the right password, or error 401/401.
    pub(in super::super) fn token(&self, name: &str, password: &str) -> Result<String> {
        match self.login(name, password) {
            Some(caller) => Ok(token::issue(&self.inner.secret, caller.name())),
            None => Err(Error::new(Code::HttpUnauthorized, "Wrong credentials")),
        }
    }

    fn bearer(&self, text: &str) -> Option<Caller> {
        match token::verify(&self.inner.secret, text)? {
            Bearer::Server => self.inner.server_tokens.then_some(Caller::Server),
            Bearer::User(name) => {
                let user = self.inner.users.get(&name).filter(|user| user.active)?;
                Some(Caller::User(name, user))
            }
        }
    }

    /// Checks a user's password, or an access token in its place (the name may then be empty). A
    /// correct password is cached until the user is changed.
    fn login(&self, name: &str, password: &str) -> Option<Caller> {
        if let Some(owner) = access::owner(password) {
            let user = self.inner.users.get(&owner).filter(|user| user.active)?;
            let is_good = user.tokens.iter().any(|token| token.is(password));
            let may = is_good && (name.is_empty() || *name == owner);
            return may.then_some(Caller::User(owner, user));
        }
        let user = self.inner.users.get(name).filter(|user| user.active)?;
        let mut message = Vec::with_capacity(name.len() + password.len() + 1);
        message.extend_from_slice(name.as_bytes());
        message.push(0);
        message.extend_from_slice(password.as_bytes());
        let digest = hmac(&self.inner.cache_key, &message);
        let known = self.verified().get(&digest).is_some_and(|then| Arc::ptr_eq(then, &user));
        if !known {
            if !user.password.is(password) {
                return None;
            }
            let mut verified = self.verified();
            if verified.len() >= CREDENTIALS_KEPT {
                verified.clear();
            }
            verified.insert(digest, Arc::clone(&user));
        }
        Some(Caller::User(name.to_owned(), user))
    }

    fn verified(&self) -> std::sync::MutexGuard<'_, HashMap<[u8; 32], Arc<User>>> {
        self.inner.verified.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
