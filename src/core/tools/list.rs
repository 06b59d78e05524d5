//! Generates the enums `Tool` and `Call`, with their methods, from one list of all tools and
//! commands.

use serde_json::Value;

use super::{Access, Call, Tool};
use crate::error::{Code, Error, Result};
use crate::policy::{Ctx, Step, Stop};
use crate::text::nearest;

/// Generates `Tool` and `Call` from one list. Models may call the `tools`, which are listed in the
/// order of display. The `commands` are called by the HTTP API, by the server itself, and by the
/// tools of other dialects (such as MemGPT's).
macro_rules! list {
    (
        tools { $($tool_file:ident::$tool:ident,)* }
        commands { $($command_file:ident::$command:ident,)* }
    ) => {
        /// The tools, in the order of display.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "one variant for each tool")]
        pub enum Tool { $($tool,)* }

        impl Tool {
            /// All tools, in the order of display.
            pub const ALL: &'static [Self] = &[$(Self::$tool,)*];

            /// Returns the properties that all calls to the tool share.
            pub fn spec(self) -> &'static Spec {
                match self { $(Self::$tool => &<$tool_file::$tool as Command>::SPEC,)* }
            }

            /// Returns the tool's description for models.
            pub fn card(self) -> &'static Card {
                match self { $(Self::$tool => &<$tool_file::$tool as Arguments>::CARD,)* }
            }

            /// Returns the JSON Schema (2020-12) of the tool's arguments: a closed object with
            /// inlined sub-schemas.
            pub fn schema(self) -> Value {
                match self { $(Self::$tool => schema_of::<$tool_file::$tool>(),)* }
            }

            /// Returns the schema of the tool's arguments that a model is offered.
            pub fn compact_schema(self) -> Value {
                match self { $(Self::$tool => compact_schema_of::<$tool_file::$tool>(),)* }
            }

            /// Decodes the tool's arguments; an error names the argument and the expected form.
            pub fn decode(self, arguments: Map<String, Value>) -> Result<Call> {
                let arguments = without_nulls(arguments, || self.schema());
                match self {
                    $(Self::$tool => {
                        Ok(decode_as::<$tool_file::$tool>(arguments)?.checked()?.into())
                    })*
                }
            }
        }

        list!(@calls $($tool_file::$tool,)* $($command_file::$command,)*);
    };
    (@calls $($file:ident::$name:ident,)*) => {
        /// A decoded call to a tool or command.
        #[derive(Clone, Debug)]
        #[allow(missing_docs, reason = "one variant for each tool and command")]
        pub enum Call { $($name(Box<$file::$name>),)* }

        $(impl From<$file::$name> for Call {
            fn from(call: $file::$name) -> Self {
                Self::$name(Box::new(call))
            }
        })*

        impl Call {
            /// Returns the properties that all calls to this tool or command share.
            pub fn spec(&self) -> &'static Spec {
                match self { $(Self::$name(_) => &<$file::$name as Command>::SPEC,)* }
            }

            /// Whether the call is expected to write and therefore uses the socket for writes. A
            /// search that is expected only to read may still have to store its result list.
            pub fn writes(&self) -> bool {
                match self { $(Self::$name(call) => call.writes(),)* }
            }

            /// Returns the parts of the core that must not have changed since the caller's
            /// revision.
            pub fn depends(&self) -> Depends {
                match self { $(Self::$name(call) => call.depends(),)* }
            }

            /// Returns the digest of the document that the call stores, if it stores one.
            pub fn document_digest(&self) -> Option<String> {
                match self { $(Self::$name(call) => call.document_digest(),)* }
            }

            /// Whether the call requests the model's next inference (a heartbeat).
            pub fn beats(&self) -> bool {
                match self { $(Self::$name(call) => call.beats(),)* }
            }

            /// Returns the text of this call that the user sees; `None` for a call that concerns
            /// only the memory.
            pub fn user_text(&self) -> Option<&str> {
                match self { $(Self::$name(call) => call.user_text(),)* }
            }

            fn decide(&self, ctx: &Ctx<'_>) -> Result<Step, Stop> {
                match self { $(Self::$name(call) => call.step(ctx),)* }
            }
        }
    };
}

impl Tool {
    /// Returns the tool with this name; an unknown name gives an error that lists all tools.
    pub fn by_name(name: &str) -> Result<Self> {
        Self::ALL.iter().copied().find(|t| t.spec().name == name).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|t| t.spec().name).collect();
            let meant = nearest(name, names.iter().copied());
            let meant = meant.map(|name| format!("did you mean {name}? ")).unwrap_or_default();
            Error::new(
                Code::ToolNotFound,
                format!("no tool of that name: {meant}use one of {}", names.join(", ")),
            )
            .with("tools", names)
        })
    }
}

impl Call {
    /// Returns the name of the called tool or command, as used in logs, metrics and audit rows.
    pub fn name(&self) -> &'static str {
        self.spec().name
    }

    /// Whether a call may omit the revision and is then valid at any revision, because the call
    /// cannot overwrite a text that the caller has not seen.
    pub fn any_revision(&self) -> bool {
        match self.spec().access {
            Access::Read | Access::Write => false,
            Access::Search | Access::Post | Access::Signal => true,
        }
    }

    /// Whether the server generates an idempotency key for a call without one, and returns the key
    /// with the answer.
    pub fn mints_key(&self) -> bool {
        match self.spec().access {
            Access::Read | Access::Write | Access::Post => false,
            Access::Search | Access::Signal => true,
        }
    }

    /// Decides what the call does to this core. If the call needs more data, it stops with a
    /// `Question`, and runs again with the answer. If a call that only reads is captured (its
    /// result is appended to the queue), the call becomes a write of its result.
    pub fn step(&self, ctx: &Ctx<'_>) -> Result<Step, Stop> {
        match self.decide(ctx)? {
            Step::Read(mut result) if ctx.around.capture.is_some() => {
                if let Some(rev) = result.get_mut("_rev") {
                    // The result gets the revision that this write creates, because the captured
                    // text belongs to this revision.
                    *rev = Value::Null;
                }
                ctx.finish(ctx.draft(), result)
            }
            other => Ok(other),
        }
    }
}
