// src/bindings/instance_pool.h - instances of a model for as many threads as run it at the same time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "bindings/plans.h"
#include "modelwheel/abi.h"
#include "modelwheel/instance.hpp"

namespace modelwheel {

/// Holds a pointer that any thread may exchange at any time.
template <class T>
class AtomicSlot {
 public:
  T *exchange(T *value) { return value_.exchange(value); }

 private:
  std::atomic<T *> value_{nullptr};
};

/// The same where callers exclude each other, as threads with Python's GIL do: an atomic exchange takes 20 cycles, two
/// of them an eighth of the shortest calls.
template <class T>
class PlainSlot {
 public:
  T *exchange(T *value) { return std::exchange(value_, value); }

 private:
  T *value_ = nullptr;
};

/// Lends an instance to each thread that asks, and keeps it for the next. Rules set once hold for all of them. Nothing
/// here touches Python, or waits for it. Failures are thrown as Error.
///
/// A model with state has one instance, as there is one state: while it is lent, others are refused. Waiting for it
/// would let two streams of data change one state in an order that nobody chose.
template <template <class> class Slot>
class InstancePoolOf {
  using Rules = std::map<std::size_t, std::string>;  // by number of rows

  struct Member {
    Instance instance;
    std::uint64_t settings;  // the generation of settings that it has
    Plans plans{};           // with these settings
  };

 public:
  /// An instance on loan; goes back when it is destroyed.
  class Loan {
   public:
    Loan(InstancePoolOf &pool, std::unique_ptr<Member> member) : pool_(pool), member_(std::move(member)) {}
    ~Loan() {
      if (member_ != nullptr) pool_.take_back(std::move(member_));
    }
    Loan(Loan &&) = default;
    Loan(const Loan &) = delete;
    Loan &operator=(const Loan &) = delete;

    modelwheel_model *get() const { return member_->instance.get(); }
    Plans &plans() { return member_->plans; }

   private:
    InstancePoolOf &pool_;
    std::unique_ptr<Member> member_;
  };

  /// Makes the first instance, which decides on the CPU level of all.
  InstancePoolOf(const modelwheel_api &api, const char *level) : api_(api) {
    auto first = std::make_unique<Member>(Member{make_instance(api, level), 0});
    level_ = api.level(first->instance.get());
    last_.exchange(first.release());
  }
  ~InstancePoolOf() { delete last_.exchange(nullptr); }
  InstancePoolOf(const InstancePoolOf &) = delete;
  InstancePoolOf &operator=(const InstancePoolOf &) = delete;

  const std::string &level() const { return level_; }

  Loan lend() {
    std::unique_ptr<Member> member = take();
    update(*member);
    return Loan(*this, std::move(member));
  }

  /// Sets the rule for all instances or, if it throws, for none.
  void set_batch_rule(const std::string &rule) {
    Rules kept{{0, rule}};  // allocated before an instance has the rule
    const Loan loan = lend();
    check(api_, loan.get(), api_.set_batch_rule(loan.get(), rule.c_str()));
    auto node = kept.extract(0);
    node.key() = std::stoul(rule);  // a valid rule begins with its number of rows
    const std::lock_guard<std::mutex> lock(mutex_);
    rules_.erase(node.key());
    rules_.insert(std::move(node));
    ++settings_;
  }

  void set_batch_strategy(const std::string &strategy) {
    std::string kept = strategy;
    const Loan loan = lend();
    check(api_, loan.get(), api_.set_batch_strategy(loan.get(), strategy.c_str()));
    const std::lock_guard<std::mutex> lock(mutex_);
    strategy_.swap(kept);
    ++settings_;
  }

  /// The strategy, "" where none was set, and the rules that were set, by ascending rows.
  std::pair<std::string, std::vector<std::string>> settings() {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<std::string> rules;
    for (const auto &[rows, rule] : rules_) rules.push_back(rule);
    return {strategy_, std::move(rules)};
  }

 private:
  std::unique_ptr<Member> take() {
    if (Member *const last = last_.exchange(nullptr)) return std::unique_ptr<Member>(last);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!free_.empty()) {
        std::unique_ptr<Member> member = std::move(free_.back());
        free_.pop_back();
        return member;
      }
    }
    if (num_states(api_) != 0)
      throw Error(std::string(api_.name) +
                      ": another call is under way; this model keeps state between calls, so each "
                      "thread needs a Model of its own (model.copy() has the same state)",
                  MODELWHEEL_INTERNAL);
    return std::make_unique<Member>(Member{make_instance(api_, level_.c_str()), 0});
  }

  /// Without memory for the list the instance is destroyed: the next thread makes another.
  void take_back(std::unique_ptr<Member> member) noexcept {
    // The one before goes to the list: of the instances of a call in parts, each keeps its thread, whose cache has it.
    member.reset(last_.exchange(member.release()));
    if (member == nullptr) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    try {
      free_.push_back(std::move(member));
    } catch (const std::bad_alloc &) {
    }
  }

  /// Applies the rules that were set since the instance was last used.
  void update(Member &member) {
    if (member.settings == settings_) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    modelwheel_model *model = member.instance.get();
    if (!strategy_.empty()) check(api_, model, api_.set_batch_strategy(model, strategy_.c_str()));
    for (const auto &[rows, rule] : rules_) check(api_, model, api_.set_batch_rule(model, rule.c_str()));
    member.settings = settings_;
    member.plans = {};
  }

  const modelwheel_api &api_;
  std::string level_;
  /// One of those that are free: a call takes it and puts it back without the mutex, which takes three times as long.
  Slot<Member> last_;
  std::mutex mutex_;  // guards the members below
  std::vector<std::unique_ptr<Member>> free_;
  Rules rules_;
  std::string strategy_;
  std::atomic<std::uint64_t> settings_{0};  // also read without the mutex
};

}  // namespace modelwheel
