//! Rust closures called by C: a panic never crosses C, and what ends inside a callback is closed outside it.

use std::any::Any;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::mem::ManuallyDrop;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::thread::without_signals;

thread_local! {
    static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is one of the C libraries that is just calling us back. A call into them from here may wait for
/// this very thread.
pub(crate) fn is_inside() -> bool {
    IN_CALLBACK.get()
}

/// Runs `close`, which may block and call into the C libraries: here, or on a thread of its own if this thread is one
/// of theirs that is just calling us back. Closing there would wait for the very thread that is to do it.
pub(crate) fn outside_callbacks(close: impl FnOnce() + Send + 'static) {
    if is_inside() {
        // Where no thread can be had the handle leaks, with all that it keeps: better than a dead lock.
        let close = ManuallyDrop::new(close);
        let close = move || ManuallyDrop::into_inner(close)();
        let _ = without_signals(|| std::thread::Builder::new().name("rbd-closer".into()).spawn(close));
    } else {
        close();
    }
}

/// A progress closure on its way through C (`librbd_progress_fn_t`).
pub(crate) struct Progress<'a> {
    report: &'a mut (dyn FnMut(u64, u64) -> ControlFlow<()> + Send),
    panic: Option<Box<dyn Any + Send>>,
}

impl<'a> Progress<'a> {
    pub(crate) fn new(report: &'a mut (dyn FnMut(u64, u64) -> ControlFlow<()> + Send)) -> Self {
        Self { report, panic: None }
    }

    /// What to hand to C beside [`Self::trampoline`].
    pub(crate) fn as_argument(&mut self) -> *mut c_void {
        std::ptr::from_mut(self).cast()
    }

    /// The function to hand to C. A closure that asks to stop, or panics, makes it return `-ECANCELED`.
    ///
    /// # Safety
    ///
    /// `argument` is from [`Self::as_argument`] of a value that is alive and not otherwise used meanwhile; librbd
    /// reports progress from one thread at a time.
    pub(crate) unsafe extern "C" fn trampoline(done: u64, total: u64, argument: *mut c_void) -> c_int {
        // SAFETY: by the function's contract.
        let progress = unsafe { &mut *argument.cast::<Progress<'_>>() };
        if progress.panic.is_some() {
            return -libc::ECANCELED;
        }
        let before = IN_CALLBACK.replace(true);
        let answer = catch_unwind(AssertUnwindSafe(|| (progress.report)(done, total)));
        IN_CALLBACK.set(before);
        match answer {
            Ok(ControlFlow::Continue(())) => 0,
            Ok(ControlFlow::Break(())) => -libc::ECANCELED,
            Err(panic) => {
                progress.panic = Some(panic);
                -libc::ECANCELED
            }
        }
    }

    /// To be called when C has returned: goes on with a panic of the closure.
    pub(crate) fn finish(self) {
        if let Some(panic) = self.panic {
            std::panic::resume_unwind(panic);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread::ThreadId;

    use super::*;

    fn call(progress: &mut Progress<'_>, done: u64) -> c_int {
        let argument = progress.as_argument();
        // SAFETY: the argument is from `as_argument` of a value that lives.
        unsafe { Progress::trampoline(done, 10, argument) }
    }

    #[test]
    fn a_panic_stops_the_operation_and_goes_on_after_it() {
        let mut calls = 0;
        let mut report = |_, _| {
            calls += 1;
            panic!("in the callback");
        };
        let mut progress = Progress::new(&mut report);
        assert_eq!(call(&mut progress, 1), -libc::ECANCELED);
        assert_eq!(call(&mut progress, 2), -libc::ECANCELED);
        let panic = catch_unwind(AssertUnwindSafe(|| progress.finish())).unwrap_err();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"in the callback"));
        assert_eq!(calls, 1);
    }

    #[test]
    fn progress_is_passed_on_until_the_closure_says_stop() {
        let mut seen = Vec::new();
        let mut report = |done, total| {
            seen.push((done, total));
            if done == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let mut progress = Progress::new(&mut report);
        assert_eq!([call(&mut progress, 1), call(&mut progress, 2)], [0, -libc::ECANCELED]);
        progress.finish();
        assert_eq!(seen, [(1, 10), (2, 10)]);
    }

    #[test]
    fn what_ends_inside_a_callback_is_closed_on_another_thread() {
        fn closing_thread() -> ThreadId {
            let (send, receive) = mpsc::channel();
            outside_callbacks(move || send.send(std::thread::current().id()).unwrap());
            receive.recv().unwrap()
        }
        let here = std::thread::current().id();
        assert_eq!(closing_thread(), here);
        let mut inside = None;
        let mut report = |_, _| {
            inside = Some(closing_thread());
            ControlFlow::Continue(())
        };
        let mut progress = Progress::new(&mut report);
        assert_eq!(call(&mut progress, 1), 0);
        progress.finish();
        assert_ne!(inside, Some(here));
        assert_eq!(closing_thread(), here);
    }
}
