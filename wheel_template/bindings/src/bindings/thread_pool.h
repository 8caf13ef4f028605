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

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace modelwheel {

/// Threads that wait for work. Whoever has work does parts of it too: if no thread wakes up in time, all of them. The
/// threads start with the first work.
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
  /// `idle()` on this thread now and then while it waits for others. Several threads may call `run` at the same time;
  /// neither function may throw.
  template <class Part, class Idle>
  void run(std::size_t parts, const Part &part, const Idle &idle) {
    Task task{[](const void *context, std::size_t i) { (*static_cast<const Part *>(context))(i); }, &part, parts};
    std::unique_lock<std::mutex> lock(mutex_);
    start_workers();
    tasks_.push_back(&task);
    has_tasks_ = true;
    for (std::size_t i = 1; i < std::min(parts, workers_.size() + 1); ++i) wake_.notify_one();
    while (task.next != task.parts) do_next(task, lock);
    spin(lock, [&task] { return task.running == 0; });
    while (!task.done_.wait_for(lock, kIdle, [&task] { return task.running == 0; })) {
      lock.unlock();
      idle();
      lock.lock();
    }
  }

 private:
  static constexpr std::chrono::milliseconds kIdle{50};
  /// The steps of one evaluation follow each other faster than a thread wakes up.
  static constexpr std::chrono::microseconds kSpin{50};

  struct Task {
    void (*call)(const void *, std::size_t);
    const void *context;
    std::size_t parts;
    std::size_t next = 0;
    std::atomic<std::size_t> running{0};
    std::condition_variable done_{};
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

  /// Fewer where the system refuses more.
  void start_workers() {
    if (missing_ == 0) return;
    const NoSignals of_the_process;
    try {
      for (; missing_ > 0; --missing_) workers_.emplace_back([this] { work(); });
    } catch (const std::system_error &) {
      missing_ = 0;
    }
  }

  /// Waits without the lock for a moment.
  template <class Ready>
  static void spin(std::unique_lock<std::mutex> &lock, const Ready &ready) {
    if (ready()) return;
    lock.unlock();
    const auto end = std::chrono::steady_clock::now() + kSpin;
    while (!ready() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    lock.lock();
  }

  void work() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      spin(lock, [this] { return has_tasks_.load(); });
      wake_.wait(lock, [this] { return ends_ || !tasks_.empty(); });
      if (ends_) return;
      do_next(*tasks_.front(), lock);
    }
  }

  /// Does one part of a task that has some left.
  void do_next(Task &task, std::unique_lock<std::mutex> &lock) {
    const std::size_t part = task.next++;
    if (task.next == task.parts) {
      tasks_.erase(std::find(tasks_.begin(), tasks_.end(), &task));
      has_tasks_ = !tasks_.empty();
    }
    ++task.running;
    lock.unlock();
    task.call(task.context, part);
    lock.lock();
    // Still locked, because the task ends as soon as its owner sees this.
    if (--task.running == 0) task.done_.notify_one();
  }

  std::mutex mutex_;  // guards everything below
  std::condition_variable wake_;
  std::deque<Task *> tasks_;            // those with parts that nobody has begun
  std::atomic<bool> has_tasks_{false};  // also read without the mutex
  bool ends_ = false;
  std::vector<std::thread> workers_;
  std::size_t missing_;  // workers that have not started
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

}  // namespace modelwheel
