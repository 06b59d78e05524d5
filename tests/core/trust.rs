//! Tests of the rules about trust: agent names, trace ids, and text that reads like an instruction.

mod admit;
mod taint;
mod trace;
