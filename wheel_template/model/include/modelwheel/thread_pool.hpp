// modelwheel/thread_pool.hpp - the threads of an Eigen::ThreadPoolDevice as those that share the large steps of a run.
//
//   modelwheel::use_threads(model, device);  // a model_digits::Model, say; modelwheel/tbb.hpp has the same for TBB
#ifndef MODELWHEEL_THREAD_POOL_HPP
#define MODELWHEEL_THREAD_POOL_HPP

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>

#include "modelwheel/abi.h"

namespace modelwheel {

/// Whether a type has what is used of Eigen::ThreadPoolDevice: numThreads(), and a pool that takes functions.
template <class Device, class = void>
struct IsThreadPoolDevice : std::false_type {};
template <class Device>
struct IsThreadPoolDevice<
    Device, std::void_t<decltype(static_cast<std::size_t>(std::declval<const Device &>().numThreads())),
                        decltype(std::declval<const Device &>().getPool()->Schedule(std::declval<void (*)()>()))>>
    : std::true_type {};

/// Parts of work, which the caller and the threads of a pool take one after the other. The caller takes what no thread
/// has begun: so a busy pool, or a call from one of its own threads, costs time only.
class PartsOfWork {
 public:
  PartsOfWork(std::size_t parts, modelwheel_task task, void *argument)
      : parts_(parts), task_(task), argument_(argument) {}

  /// Does parts until each is done or begun by another thread.
  void work() {
    std::size_t mine = 0;
    for (std::size_t part = next_++; part < parts_; part = next_++, ++mine) task_(argument_, part);
    if (mine == 0) return;  // a pool may call this after the end of the run
    const std::lock_guard<std::mutex> lock(mutex_);
    done_ += mine;
    if (done_ == parts_) all_done_.notify_all();
  }

  void wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    all_done_.wait(lock, [this] { return done_ == parts_; });
  }

 private:
  const std::size_t parts_;
  const modelwheel_task task_;
  void *const argument_;
  std::atomic<std::size_t> next_{0};
  std::size_t done_ = 0;  // under the mutex
  std::mutex mutex_;
  std::condition_variable all_done_;
};

/// Does parts of work on this thread and others: `schedule` gives a function without arguments to one of them. Where
/// memory for that is short, this thread does more parts itself.
template <class Schedule>
void share_work(std::size_t parts, modelwheel_task task, void *argument, const Schedule &schedule) {
  std::shared_ptr<PartsOfWork> work;
  try {
    work = std::make_shared<PartsOfWork>(parts, task, argument);
    for (std::size_t i = 1; i < parts; ++i) schedule([work] { work->work(); });
  } catch (...) {
    if (work == nullptr) {
      for (std::size_t part = 0; part < parts; ++part) task(argument, part);
      return;
    }
  }
  work->work();
  work->wait();
}

/// A modelwheel_parallel_for whose context is a `const Device *`.
template <class Device>
void run_on_pool(void *context, std::size_t parts, modelwheel_task task, void *argument) {
  share_work(parts, task, argument,
             [context](auto work) { static_cast<const Device *>(context)->getPool()->Schedule(std::move(work)); });
}

/// Lets the threads of a device share the large steps of each run, where that pays; results have the same bits. The
/// device must live until the model has other threads, or is destroyed.
template <class Model, class Device, class = std::enable_if_t<IsThreadPoolDevice<Device>::value>>
void use_threads(Model &model, const Device &device) {
  const auto threads = static_cast<std::size_t>(device.numThreads());
  model.set_threads(threads, run_on_pool<Device>, const_cast<Device *>(&device));
}

}  // namespace modelwheel

#endif  // MODELWHEEL_THREAD_POOL_HPP
