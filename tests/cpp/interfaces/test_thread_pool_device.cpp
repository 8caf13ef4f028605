// Parts of work on the threads of a device like Eigen's. Runs under the thread sanitizer too.
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <new>
#include <thread>
#include <type_traits>
#include <vector>

#include "check.h"
#include "modelwheel/thread_pool.hpp"

namespace {

/// A pool as Eigen::ThreadPool has it.
class Pool {
 public:
  explicit Pool(std::size_t threads) {
    for (std::size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
  }
  ~Pool() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    for (std::thread &thread : threads_) thread.join();
  }

  void Schedule(std::function<void()> task) {
    if (accepts == 0) throw std::bad_alloc();
    --accepts;
    const std::lock_guard<std::mutex> lock(mutex_);
    tasks_.push_back(std::move(task));
    changed_.notify_one();
  }

  std::size_t accepts = SIZE_MAX;  // then memory is short

 private:
  void work() {
    for (;;) {
      std::function<void()> task;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [this] { return ends_ || !tasks_.empty(); });
        if (tasks_.empty()) return;
        task = std::move(tasks_.front());
        tasks_.pop_front();
      }
      task();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool ends_ = false;
  std::vector<std::thread> threads_;
};

struct Device {
  Pool *pool;
  int threads;

  int numThreads() const { return threads; }
  Pool *getPool() const { return pool; }
};

static_assert(modelwheel::IsThreadPoolDevice<Device>::value);
static_assert(!modelwheel::IsThreadPoolDevice<Pool>::value && !modelwheel::IsThreadPoolDevice<void>::value);

struct Counts {
  std::vector<std::atomic<int>> done;
  std::atomic<int> on_others{0};
  std::thread::id owner = std::this_thread::get_id();

  static void count(void *argument, std::size_t part) {
    Counts &counts = *static_cast<Counts *>(argument);
    ++counts.done[part];
    if (std::this_thread::get_id() != counts.owner) ++counts.on_others;
  }
};

void run(Device &device, Counts &counts) {
  modelwheel::run_on_pool<Device>(&device, counts.done.size(), Counts::count, &counts);
}

void test_every_part_is_done_once() {
  Pool pool(3);
  Device device{&pool, 3};
  for (int turn = 0; turn < 100; ++turn)
    for (const std::size_t parts : {1, 2, 4, 16}) {
      Counts counts{std::vector<std::atomic<int>>(parts)};
      run(device, counts);
      for (const std::atomic<int> &done : counts.done) CHECK(done == 1);
    }
}

/// Each part ends only when both have begun: one of them on a thread of the pool.
void test_the_threads_of_the_pool_work() {
  Pool pool(1);
  Device device{&pool, 2};
  std::atomic<int> began{0};
  const modelwheel_task meet = [](void *argument, std::size_t) {
    auto &here = *static_cast<std::atomic<int> *>(argument);
    ++here;
    while (here != 2) std::this_thread::yield();
  };
  modelwheel::run_on_pool<Device>(&device, 2, meet, &began);
  CHECK(began == 2);
}

/// All threads of the pool wait: the caller does everything, and what the pool begins later finds nothing to do.
void test_a_busy_pool_keeps_nobody_waiting() {
  Pool pool(1);
  Device device{&pool, 2};
  std::atomic<bool> free{false};
  pool.Schedule([&free] {
    while (!free) std::this_thread::yield();
  });
  Counts counts{std::vector<std::atomic<int>>(8)};
  run(device, counts);
  for (const std::atomic<int> &done : counts.done) CHECK(done == 1);
  CHECK(counts.on_others == 0);
  free = true;
}

/// A call from the only thread of the pool itself.
void test_a_thread_of_the_pool_may_call() {
  Pool pool(1);
  Device device{&pool, 4};
  std::atomic<bool> ended{false};
  pool.Schedule([&] {
    Counts counts{std::vector<std::atomic<int>>(4)};
    run(device, counts);
    for (const std::atomic<int> &done : counts.done) CHECK(done == 1);
    ended = true;
  });
  while (!ended) std::this_thread::yield();
}

void test_short_memory_costs_time_only() {
  for (const std::size_t accepts : {0, 1, 2}) {
    Pool pool(2);
    Device device{&pool, 3};
    pool.accepts = accepts;
    Counts counts{std::vector<std::atomic<int>>(4)};
    run(device, counts);
    for (const std::atomic<int> &done : counts.done) CHECK(done == 1);
  }
}

}  // namespace

int main() {
  test_every_part_is_done_once();
  test_the_threads_of_the_pool_work();
  test_a_busy_pool_keeps_nobody_waiting();
  test_a_thread_of_the_pool_may_call();
  test_short_memory_costs_time_only();
  return check_report();
}
