// src/bindings/recent_calls.h - whether a call is long enough to wake threads that are asleep.
//
// Knows neither Python nor models, so that it can be tested alone.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>

namespace modelwheel {

/// What is known of calls that found the threads asleep, or not yet started.
///
/// Waking a thread takes about 20 us, which a short call loses. How long a call takes alone is known from its cost by
/// the library's estimate, which is right up to a factor, and from how long others of some cost took. Any number of
/// threads may ask and tell.
class RecentCalls {
 public:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;

  /// Whether a call pays for waking the threads. So does one that follows soon after another: more may come, and find
  /// the threads awake. `cost` is in nanoseconds, or 0 if it is unknown.
  bool pays(double cost, Time now) const {
    return cost == 0.0 || cost * factor_ >= kLong || now - ended_.load() < kSoon;
  }

  /// A call has ended for which so many threads, with its own, were there.
  void add(double cost, Time began, Time ended, std::size_t threads) {
    ended_ = ended;
    if (cost == 0.0) return;
    const double took = std::chrono::duration<double, std::nano>(ended - began).count();
    if (threads == 1)
      factor_ = took / cost;
    else  // it would have taken no longer than this alone
      factor_ = std::min(factor_.load(), std::max(took - kWaking, 0.0) * static_cast<double>(threads) / cost);
  }

 private:
  static constexpr double kWaking = 20e3, kLong = 150e3;  // nanoseconds
  static constexpr std::chrono::microseconds kSoon{100};

  std::atomic<double> factor_{1.0};  // the time of a call alone over its cost
  std::atomic<Time> ended_{Time{}};
};

}  // namespace modelwheel
