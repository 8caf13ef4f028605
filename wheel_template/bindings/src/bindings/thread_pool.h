// src/bindings/thread_pool.h - threads that do the parts of one task.
//
// Knows neither Python nor models, so that it can be tested alone.
#pragma once

#ifdef _WIN32
#include <process.h>
#else
#include <pthread.h>
#include <signal.h>
#include <unistd.h>
#endif

#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>
#endif

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

#include "modelwheel/abi.h"

namespace modelwheel {

/// Tells the CPU that a loop waits for another core.
inline void pause_cpu() {
#if defined(__x86_64__) || defined(_M_X64)
  _mm_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/// Threads that wait for work. The caller does parts of its work too: if no thread wakes up in time, all of them. The
/// threads start with the first work.
///
/// The steps of one evaluation follow each other faster than a thread wakes up, or than a mutex changes hands. So
/// threads claim parts by compare-and-swap, and look for more for a moment before they sleep.
class ThreadPool {
 public:
  explicit ThreadPool(std::size_t workers) : missing_(workers) {}

  ~ThreadPool() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ends_ = true;
    }
    wake_.notify_all();
    for (std::thread &worker : workers_) worker.join();
  }

  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  /// Calls `part(i)` once for each i < `parts`, on any of the threads, and returns when all have returned. Calls
  /// `idle()` on this thread now and then while it waits for others. Several threads may call `run` at the same time.
  /// Neither function may throw, so `run` does not either: others may still be at work on what the caller has.
  template <class Part, class Idle>
  void run(std::size_t parts, const Part &part, const Idle &idle) noexcept {
    static_assert(std::is_nothrow_invocable_v<const Part &, std::size_t> && std::is_nothrow_invocable_v<const Idle &>);
    start_workers();
    Task *const task = parts > 1 ? free_task() : nullptr;
    if (task == nullptr) {
      for (std::size_t i = 0; i < parts; ++i) part(i);
      return;
    }
    task->publish([](const void *context, std::size_t i) { (*static_cast<const Part *>(context))(i); }, &part, parts);
    if (sleeping_ != 0) wake_workers(parts - 1);
    do_part(*task, 0);
    while (do_next(*task)) {
    }
    const auto is_done = [task, parts] { return task->finished == parts; };
    if (!spin(is_done)) wait(*task, is_done, idle);
    task->taken.clear();
  }

  /// Whether all threads have started and look for work.
  bool is_awake() const { return missing_ == 0 && sleeping_ == 0; }

 private:
  static constexpr std::chrono::milliseconds kIdle{50};
  static constexpr std::chrono::microseconds kSpin{100};
  /// For some microseconds, before others get the core: a call of the system answers 0.2 us later.
  static constexpr int kPauses = 256;
  /// As many callers share the threads at a time; others do their work alone.
  static constexpr std::size_t kTasks = 16;

  /// Work that is under way. The next part to claim and the task's number are one word, so that who read it before this
  /// task ended claims nothing of the next one.
  struct alignas(64) Task {
    using Call = void (*)(const void *, std::size_t);
    static constexpr std::uint64_t kNumber = std::uint64_t{1} << 32, kClosed = kNumber - 1;

    /// The first part is the caller's: of steps that follow each other, it finds in its cache what it wrote before.
    void publish(Call function, const void *argument, std::size_t count) {
      const std::uint64_t number = (claims / kNumber + 1) * kNumber;
      // Closed before there are other parts, see claim(). Only the last store waits for those who read meanwhile.
      claims.store(number | kClosed, std::memory_order_relaxed);
      parts.store(count, std::memory_order_release);
      call = function;
      context = argument;
      finished.store(0, std::memory_order_relaxed);
      claims = number + 1;
    }

    /// Whether some part waits for a thread.
    bool has_parts() const { return claims % kNumber < parts; }

    /// Claims the next part, if there is one.
    bool claim(std::size_t &part) {
      std::uint64_t seen = claims;
      for (;;) {
        part = static_cast<std::size_t>(seen % kNumber);
        if (part >= parts) return false;
        if (claims.compare_exchange_weak(seen, seen + 1)) return true;
      }
    }

    std::atomic_flag taken = ATOMIC_FLAG_INIT;
    std::atomic<std::uint64_t> claims{kClosed};
    std::atomic<std::size_t> parts{0}, finished{0};
    Call call = nullptr;
    const void *context = nullptr;
    std::atomic<bool> waits{false};  // whether the caller sleeps until `done`
    std::condition_variable done{};
  };

  /// Blocks signals while threads are made, which inherit that: handlers run on the threads that the program made.
  class NoSignals {
#ifdef _WIN32
   public:
    NoSignals() {}
#else
   public:
    NoSignals() {
      sigset_t all;
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

   private:
    sigset_t before_;
#endif
  };

  /// Fewer where the system refuses more, or has no memory for them.
  void start_workers() {
    if (missing_ == 0) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    const NoSignals of_the_process;
    try {
      for (; missing_ > 0; --missing_) workers_.emplace_back([this]() noexcept { work(); });
    } catch (const std::exception &) {  // system_error, bad_alloc
      missing_ = 0;
    }
  }

  Task *free_task() {
    for (Task &task : tasks_)
      if (!task.taken.test_and_set()) return &task;
    return nullptr;
  }

  void wake_workers(std::size_t most) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (std::size_t i = 0; i < std::min(most, workers_.size()); ++i) wake_.notify_one();
  }

  /// Waits for a moment; returns whether it is ready.
  template <class Ready>
  static bool spin(const Ready &ready) {
    for (int i = 0; i < kPauses; ++i, pause_cpu())
      if (ready()) return true;
    const auto end = std::chrono::steady_clock::now() + kSpin;
    do {
      if (ready()) return true;
      std::this_thread::yield();
    } while (std::chrono::steady_clock::now() < end);
    return ready();
  }

  template <class Ready, class Idle>
  void wait(Task &task, const Ready &is_done, const Idle &idle) {
    std::unique_lock<std::mutex> lock(mutex_);
    task.waits = true;
    while (!task.done.wait_for(lock, kIdle, is_done)) {
      lock.unlock();
      idle();
      lock.lock();
    }
    task.waits = false;
  }

  void work() {
    for (;;) {
      const auto is_needed = [this] {
        for (const Task &task : tasks_)
          if (task.has_parts()) return true;
        return ends_.load();
      };
      bool worked = false;
      for (Task &task : tasks_) worked = do_next(task) || worked;
      if (worked || spin(is_needed)) {
        if (ends_) return;
        continue;
      }
      std::unique_lock<std::mutex> lock(mutex_);
      ++sleeping_;
      wake_.wait(lock, is_needed);
      --sleeping_;
    }
  }

  /// Does one part of a task that has some left.
  bool do_next(Task &task) {
    std::size_t part;
    if (!task.claim(part)) return false;
    do_part(task, part);
    return true;
  }

  void do_part(Task &task, std::size_t part) {
    const std::size_t parts = task.parts;
    task.call(task.context, part);
    if (++task.finished == parts && task.waits) {
      const std::lock_guard<std::mutex> lock(mutex_);
      task.done.notify_one();
    }
  }

  std::array<Task, kTasks> tasks_;
  std::atomic<std::size_t> sleeping_{0}, missing_;  // workers that wait to be woken up, and that have not started
  std::atomic<bool> ends_{false};
  std::mutex mutex_;  // guards the threads, and who falls asleep
  std::condition_variable wake_;
  std::vector<std::thread> workers_;
};

/// A pool that is made when it is first needed, and made again in the child of a fork, which has none of the threads.
class LazyThreadPool {
 public:
  explicit LazyThreadPool(std::size_t threads) : threads_(threads) {}

  ~LazyThreadPool() {
    if (process_ != current_process()) forget();
  }

  /// The threads that do a task, with the one that has it.
  std::size_t threads() const { return threads_; }

  ThreadPool &get() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (process_ != current_process()) forget();
    if (pool_ == nullptr) pool_ = std::make_unique<ThreadPool>(threads_ - 1);
    process_ = current_process();
    return *pool_;
  }

  /// The pool if it has been made, or nullptr.
  ThreadPool *find() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return pool_ != nullptr && process_ == current_process() ? pool_.get() : nullptr;
  }

 private:
  static int current_process() {
#ifdef _WIN32
    return _getpid();
#else
    return getpid();
#endif
  }

  /// The parent's pool may be locked for ever, and has nobody to join.
  void forget() { static_cast<void>(pool_.release()); }

  std::size_t threads_;
  std::mutex mutex_;
  int process_ = 0;
  std::unique_ptr<ThreadPool> pool_;
};

/// A modelwheel_parallel_for whose context is a ThreadPool.
inline void run_on_threads(void *pool, std::size_t parts, modelwheel_task task, void *argument) {
  const auto part = [=](std::size_t i) noexcept { task(argument, i); };
  static_cast<ThreadPool *>(pool)->run(parts, part, []() noexcept {});
}

}  // namespace modelwheel
