//! What the driver is told to be, and account of what it has given out.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

pub const INVALID_VALUE: u32 = 1;
pub const OUT_OF_MEMORY: u32 = 2;
pub const INVALID_CONTEXT: u32 = 201;
pub const INVALID_HANDLE: u32 = 400;

/// The context's handle. There is one context, as all devices are alike.
pub const CONTEXT: usize = 0xc0;

/// Codes of which cuda.h says that "the process must be terminated and relaunched".
const STICKY: [u32; 4] = [700, 716, 718, 719];

thread_local! {
    /// Whether the context is current on this thread.
    pub static CURRENT: Cell<bool> = const { Cell::new(false) };
}

/// What is made and destroyed, beside memory and the context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Stream,
    Event,
    Module,
}

pub struct State {
    pub version: i32,
    pub capability: i32,
    pub devices: i32,
    memory: usize,
    /// Functions that always fail, or `all`, with their codes.
    failing: BTreeMap<String, u32>,
    /// Calls before the one that fails, and its code.
    pub fault: Option<(u64, u32)>,
    /// The function that the fault came to.
    pub failed: Option<&'static str>,
    /// The sticky code that every call returns from now on.
    lost: Option<u32>,
    pub misuse: Vec<String>,
    /// How often the context is retained.
    pub retained: usize,
    handles: BTreeSet<(Kind, usize)>,
    made: usize,
    /// By address; elements of 16 bytes, since kernels' memory is aligned to that at least.
    allocations: BTreeMap<u64, Vec<u128>>,
}

static STATE: LazyLock<Mutex<State>> = LazyLock::new(|| Mutex::new(State::from_environment()));

pub fn lock() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    /// A driver as `FAKE_CUDA` describes it. Panics, and so aborts, where that makes no sense.
    pub fn from_environment() -> State {
        let mut state = State {
            version: 13000,
            capability: 90,
            devices: 1,
            memory: 1 << 30,
            failing: BTreeMap::new(),
            fault: None,
            failed: None,
            lost: None,
            misuse: Vec::new(),
            retained: 0,
            handles: BTreeSet::new(),
            made: 0,
            allocations: BTreeMap::new(),
        };
        let text = env::var("FAKE_CUDA").unwrap_or_default();
        for item in text.split(',').filter(|item| !item.is_empty()) {
            let number = item.split_once('=').and_then(|(key, n)| Some((key, n.parse().ok()?)));
            let (key, number): (_, u32) =
                number.unwrap_or_else(|| panic!("FAKE_CUDA: {item:?}, where key=number is wanted"));
            match key {
                "version" => state.version = number as i32,
                "capability" => state.capability = number as i32,
                "devices" => state.devices = number as i32,
                "memory" => state.memory = number as usize,
                function => _ = state.failing.insert(function.to_owned(), number),
            }
        }
        state
    }

    /// What a function of this name is to return instead of doing its work.
    pub fn failure(&mut self, function: &'static str) -> Result<(), u32> {
        if let Some(code) = self.lost {
            return Err(code);
        }
        let mut code = self.failing.get(function).copied().or(self.stub());
        match &mut self.fault {
            Some((0, fault)) => {
                code = Some(*fault);
                self.failed = Some(function);
                self.fault = None;
            }
            Some((calls, _)) => *calls -= 1,
            None => {}
        }
        self.lost = code.filter(|code| STICKY.contains(code));
        code.map_or(Ok(()), Err)
    }

    /// The code that every function returns, if there is one.
    pub fn stub(&self) -> Option<u32> {
        self.failing.get("all").copied()
    }

    /// Notes a misuse, for which there is a code.
    pub fn misused<T>(&mut self, sentence: String, code: u32) -> Result<T, u32> {
        self.misuse.push(sentence);
        Err(code)
    }

    pub fn make(&mut self, kind: Kind) -> usize {
        // Never one that was used before, so that a destroyed one is known as such.
        self.made += 1;
        self.handles.insert((kind, self.made));
        self.made
    }

    pub fn check(&mut self, kind: Kind, handle: usize) -> Result<(), u32> {
        if self.handles.contains(&(kind, handle)) {
            return Ok(());
        }
        self.misused(format!("{kind:?} {handle}, which there is not"), INVALID_HANDLE)
    }

    pub fn destroy(&mut self, kind: Kind, handle: usize) -> Result<(), u32> {
        self.check(kind, handle)?;
        self.handles.remove(&(kind, handle));
        Ok(())
    }

    pub fn allocate(&mut self, bytes: usize) -> Result<u64, u32> {
        let used: usize = self.allocations.values().map(|memory| size_of_val(&memory[..])).sum();
        if bytes > self.memory.saturating_sub(used) {
            return Err(OUT_OF_MEMORY);
        }
        let memory = vec![u128::MAX; bytes.div_ceil(16)];
        let address = memory.as_ptr() as u64;
        self.allocations.insert(address, memory);
        Ok(address)
    }

    pub fn free(&mut self, address: u64) -> Result<(), u32> {
        match self.allocations.remove(&address) {
            Some(_) => Ok(()),
            None => self.misused(format!("{address:#x} freed, which is no memory"), INVALID_VALUE),
        }
    }

    /// That these bytes are of one allocation.
    pub fn within(&mut self, address: u64, bytes: usize) -> Result<(), u32> {
        let before = self.allocations.range(..=address).next_back();
        let room = before.map_or(0, |(start, memory)| {
            size_of_val(&memory[..]).saturating_sub((address - start) as usize)
        });
        if bytes <= room {
            return Ok(());
        }
        self.misused(format!("{bytes} bytes at {address:#x}, of {room}"), INVALID_VALUE)
    }

    /// What has been made and not been destroyed; empty if there is nothing.
    pub fn left(&self) -> String {
        let kinds = self.handles.iter().map(|(kind, _)| format!("{kind:?}"));
        let memory = self.allocations.values().map(|m| format!("{} bytes", size_of_val(&m[..])));
        let context = (0..self.retained).map(|_| "Context".to_owned());
        kinds.chain(memory).chain(context).collect::<Vec<_>>().join(", ")
    }
}
