// src/bindings/gil.h - without the GIL: other threads run, signals are handled, and the interpreter may end meanwhile.
#pragma once

#include <Python.h>

#include <chrono>
#include <thread>

namespace modelwheel {

[[noreturn]] inline void sleep_forever() {
  for (;;) std::this_thread::sleep_for(std::chrono::hours(24));
}

/// Calls a function of C that may wait for the GIL. Daemon threads never get it back once the interpreter ends: CPython
/// 3.14 lets them sleep, but older versions end them with pthread_exit, which glibc implements as an exception. Thrown
/// through C++ it would run destructors without the GIL and abort the process at the first `noexcept`
/// (https://github.com/python/cpython/issues/87135, https://github.com/pybind/pybind11/issues/2657). So it stops here,
/// and the thread sleeps there too: that the interpreter ends cannot be known before, because it may begin to at any
/// time.
template <class Call>
auto call_with_gil(const Call &call) -> decltype(call()) {
  try {
    return call();
  } catch (...) {
    sleep_forever();
  }
}

/// Releases the GIL, and takes it again when destroyed. pybind11's gil_scoped_release does not survive the end of the
/// interpreter.
class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  ~WithoutGil() { take(); }
  WithoutGil(const WithoutGil &) = delete;
  WithoutGil &operator=(const WithoutGil &) = delete;

  /// Takes the GIL for a moment and runs Python's handlers for signals. Whether one raised an exception.
  bool handle_signals() {
    take();
    const bool raised = call_with_gil([] { return PyErr_CheckSignals(); }) != 0;
    state_ = PyEval_SaveThread();
    return raised;
  }

 private:
  void take() {
    call_with_gil([this] { PyEval_RestoreThread(state_); });
  }

  PyThreadState *state_;
};

/// Has signals such as Ctrl-C handled now and then during a long evaluation.
class Signals {
 public:
  explicit Signals(WithoutGil &gil) : gil_(gil) {}

  /// A modelwheel_interrupt; the context is a Signals. Reads the clock less often the shorter batches are.
  static int poll(void *context) noexcept { return static_cast<Signals *>(context)->is_interrupted() ? 1 : 0; }

  /// Whether a handler raised an exception, which is set.
  bool raised() const { return raised_; }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kInterval{100};

  bool is_interrupted() {
    if (--batches_left_ != 0) return false;
    const Clock::time_point now = Clock::now();
    if (last_ == Clock::time_point()) last_ = now;
    if (now - last_ < kInterval) {
      stride_ *= 2;
    } else {
      last_ = now;
      if (stride_ > 1) stride_ /= 2;
      raised_ = gil_.handle_signals();
    }
    batches_left_ = stride_;
    return raised_;
  }

  WithoutGil &gil_;
  unsigned long stride_ = 1, batches_left_ = 1;
  Clock::time_point last_;
  bool raised_ = false;
};

}  // namespace modelwheel
