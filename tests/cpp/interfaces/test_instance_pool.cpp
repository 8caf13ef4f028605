// InstancePool: what lets one Python object serve many threads. Runs under the thread sanitizer too.
#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bindings/instance_pool.h"
#include "check.h"
#include "throws.h"
#include "toy_model.h"

namespace {

using modelwheel::AtomicSlot;
using modelwheel::InstancePoolOf;
using modelwheel::PlainSlot;

/// Evaluates one row and says whether the result is right.
bool run_one(InstancePoolOf<AtomicSlot> &pool, std::int32_t value) {
  const InstancePoolOf<AtomicSlot>::Loan model = pool.lend();
  const float x[] = {1, 2};
  float y[2] = {};
  bool positive = false;
  std::int64_t pair[2] = {};
  const void *inputs[] = {x, &value};
  void *outputs[] = {y, &positive, pair};
  const bool ran = toy_api().run(model.get(), 1, inputs, outputs) == MODELWHEEL_OK;
  return ran && y[1] == 4 + static_cast<float>(value) && pair[1] == -value;
}

void test_many_threads() {
  InstancePoolOf<AtomicSlot> pool(toy_api(), nullptr);
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (std::int32_t thread = 0; thread < 4; ++thread)
    threads.emplace_back([&pool, &right, thread] {
      for (std::int32_t i = 0; i < 200; ++i) {
        right += run_one(pool, thread * 1000 + i) ? 1 : 0;
        if (i % 50 == thread) pool.set_batch_rule("3:1,2");
      }
    });
  for (std::thread &thread : threads) thread.join();
  CHECK(right == 800);
}

template <class InstancePool>
void test_loans_come_back() {
  InstancePool pool(toy_api(), nullptr);
  const modelwheel_model *first = pool.lend().get();
  CHECK(pool.lend().get() == first);
  const typename InstancePool::Loan kept = pool.lend();
  CHECK(kept.get() == first && pool.lend().get() != first);
}

template <class InstancePool>
void test_instances_keep_their_parts() {
  InstancePool pool(toy_api(), nullptr);
  const auto both = [&pool] {
    const typename InstancePool::Loan one = pool.lend(), another = pool.lend();
    return std::pair(one.get(), another.get());
  };
  const auto before = both();
  CHECK(before.first != before.second && both() == before && both() == before);
}

template <class InstancePool>
void test_rules_reach_all_instances() {
  InstancePool pool(toy_api(), nullptr);
  const auto rule = [](const typename InstancePool::Loan &loan, std::size_t rows) {
    return modelwheel::batch_rule(toy_api(), loan.get(), rows);
  };
  pool.set_batch_rule("3:1,2");
  pool.set_batch_rule("3:2,1");
  pool.set_batch_strategy("smallest");
  CHECK(throws("9:9", [&] { pool.set_batch_rule("9:9"); }));
  CHECK(throws("dearest", [&] { pool.set_batch_strategy("dearest"); }));
  const typename InstancePool::Loan one = pool.lend(), another = pool.lend();
  CHECK(rule(one, 3) == "3:2,1" && rule(another, 3) == "3:2,1");
  CHECK(rule(one, 5) == "5:1,1,1,1,1" && rule(another, 5) == "5:1,1,1,1,1");
}

template <class InstancePool>
void test_plans_are_those_of_the_rules() {
  InstancePool pool(toy_api(), nullptr);
  const auto alone = [&pool](std::size_t rows) {
    typename InstancePool::Loan model = pool.lend();
    return model.plans().find(toy_api(), model.get(), rows, 0, 2).alone;
  };
  CHECK(alone(3) == 2e5 && alone(67) == 17 * 2e5 && alone(3) == 2e5);
  pool.set_batch_rule("3:1,2");
  CHECK(alone(3) == 1e5 + 1.5e5);
}

template <class InstancePool>
void test_each_slot() {
  test_loans_come_back<InstancePool>();
  test_instances_keep_their_parts<InstancePool>();
  test_rules_reach_all_instances<InstancePool>();
  test_plans_are_those_of_the_rules<InstancePool>();
}

}  // namespace

int main() {
  test_many_threads();
  test_each_slot<InstancePoolOf<AtomicSlot>>();
  test_each_slot<InstancePoolOf<PlainSlot>>();
  return check_report();
}
