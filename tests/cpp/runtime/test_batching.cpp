// Batch rules and the cheapest composition, against exhaustive search.
#include <cstdio>
#include <string>
#include <vector>

#include "batching.h"
#include "check.h"
#include "rules.h"

using modelwheel::BatchPlanner;
using modelwheel::BatchRule;
using modelwheel::BatchRules;
using modelwheel::parse_rule;
using modelwheel::rule_words;
using modelwheel::Variant;

namespace {

struct Plan {
  std::vector<std::size_t> sizes;
  std::vector<double> costs;
  std::vector<Variant> variants;
  std::vector<std::uint16_t> table;
  BatchPlanner planner;

  Plan(std::vector<std::size_t> s, std::vector<double> c, double partial = 0.0)
      : sizes(std::move(s)), costs(std::move(c)) {
    for (std::size_t i = 0; i < sizes.size(); ++i)
      variants.push_back({sizes[i], 0, nullptr, nullptr, costs[i], nullptr, 0, 0.0, partial, nullptr});
    table.resize(BatchPlanner::table_size(variants.data(), variants.size()));
    std::vector<double> scratch(BatchPlanner::scratch_size(variants.data(), variants.size()));
    planner.plan(variants.data(), variants.size(), table.data(), scratch.data());
  }

  double cost(std::size_t rows, std::size_t *padding = nullptr) const {
    double total = 0;
    while (rows > 0) {
      const std::size_t i = planner.cheapest(rows);
      total += variants[i].cost_of(sizes[i] < rows ? sizes[i] : rows);
      if (sizes[i] > rows && padding != nullptr) *padding = sizes[i] - rows;
      rows -= sizes[i] < rows ? sizes[i] : rows;
    }
    return total;
  }
};

/// The cheapest cost by trying everything, one row count after the other.
std::vector<double> exhaustive(const Plan &plan, std::size_t most) {
  std::vector<double> best(most + 1, 0.0);
  for (std::size_t n = 1; n <= most; ++n) {
    best[n] = 1e300;
    for (std::size_t i = 0; i < plan.sizes.size(); ++i) {
      const bool fills = n > plan.sizes[i];
      const double cost = plan.variants[i].cost_of(fills ? plan.sizes[i] : n) + (fills ? best[n - plan.sizes[i]] : 0.0);
      if (cost < best[n]) best[n] = cost;
    }
  }
  return best;
}

void cheapest_equals_exhaustive_search() {
  std::uint32_t state = 1;
  const auto random = [&](std::uint32_t below) {
    state = state * 1664525U + 1013904223U;
    return (state >> 8) % below;
  };
  for (int round = 0; round < 200; ++round) {
    std::vector<std::size_t> sizes;
    std::vector<double> costs;
    std::size_t size = 0;
    for (std::uint32_t i = 0, count = 1 + random(5); i < count; ++i) {
      size += 1 + random(9);
      sizes.push_back(size);
      costs.push_back(1.0 + random(100));
    }
    const Plan plan(sizes, costs, round % 2 * random(11) / 10.0);
    const std::vector<double> best = exhaustive(plan, 600);
    for (std::size_t n = 1; n <= 600; ++n) {
      CHECK_NEAR(plan.cost(n), best[n], 1e-9);
      const std::size_t first = plan.sizes[plan.planner.cheapest(n)], times = plan.planner.repetitions(n);
      for (std::size_t i = 1; i < times; ++i) CHECK(plan.sizes[plan.planner.cheapest(n - i * first)] == first);
    }
  }
}

void never_pads_when_an_exact_split_is_as_cheap() {
  const Plan plan({1, 4}, {1.0, 3.0});
  std::size_t padding = 0;
  CHECK_NEAR(plan.cost(3, &padding), 3.0, 0.0);
  CHECK(padding == 0);
}

void fewer_rows_cost_less_of_a_larger_size() {
  // Five rows of sixteen cost 2 + 8 * 5 / 16.
  const Plan plan({1, 16}, {1.0, 10.0}, 0.8);
  CHECK(plan.planner.cheapest(5) == 1 && plan.planner.cheapest(3) == 0);
  CHECK_NEAR(plan.cost(5), 4.5, 1e-9);
  CHECK_NEAR(plan.cost(16), 10.0, 1e-9);
  CHECK_NEAR(plan.cost(21), 14.5, 1e-9);
}

void equal_costs_go_to_fewer_calls() {
  const Plan plan({1, 4}, {1.0, 4.0});
  CHECK(plan.planner.cheapest(4) == 1);
}

void large_sizes_keep_the_table_small() {
  const Plan plan({1, 1024, 65536}, {1.0, 100.0, 6000.0});
  CHECK(plan.table.size() <= 65537);
  CHECK(plan.planner.cheapest(10000000) == 2);
}

void smallest_is_the_rule_of_cms() {
  const Plan plan({2, 4}, {1.0, 1.5});
  CHECK(plan.planner.smallest(4) == 1);
  CHECK(plan.planner.smallest(5) == 0);
}

/// A rule in memory that has room for it and no more.
struct Rule {
  std::vector<std::uint32_t> words;
  std::string problem;

  explicit Rule(const char *text) : words(rule_words(text)) {
    static constexpr std::size_t kSizes[] = {1, 2, 4};
    const char *found = parse_rule(text, kSizes, 3, words.data());
    problem = found == nullptr ? "" : found;
  }
};

std::string problem_of(const char *text) { return Rule(text).problem; }

void rules_are_read_as_cms_writes_them() {
  const Rule twos("5:2,2,2"), two("5:1,4");
  CHECK(twos.problem.empty() && two.problem.empty());
  CHECK(twos.words == (std::vector<std::uint32_t>{5, 3, 1, 1, 1}));
  CHECK(two.words == (std::vector<std::uint32_t>{5, 2, 0, 2}));
  CHECK(modelwheel::read_rule(two.words.data()).sizes[1] == 2);
}

void rules_are_replaced_in_their_memory() {
  std::vector<std::uint32_t> memory(13), larger(20);
  BatchRules rules;
  rules.use_memory(memory.data(), memory.size());
  for (const char *text : {"5:2,2,2", "7:4,4", "5:1,4", "7:1,2,4"}) {
    CHECK(rule_words(text) <= rules.room());
    static constexpr std::size_t kSizes[] = {1, 2, 4};
    CHECK(parse_rule(text, kSizes, 3, rules.next()) == nullptr);
    rules.keep();
    if (rules.used() == 8) rules.use_memory(larger.data(), larger.size());
  }
  const BatchRule five = rules.find(5), seven = rules.find(7);
  CHECK(rules.used() == 9 && five.num_sizes == 2 && five.sizes[1] == 2);
  CHECK(seven.num_sizes == 3 && seven.sizes[0] == 0 && seven.sizes[2] == 2);
  CHECK(rules.find(6).num_sizes == 0);
}

void wrong_rules_say_what_is_wrong() {
  for (const char *text :
       {"", "5", "5:", "5:2,", ":2", "0:1", "5:2,2,2,", "a:1", "5:-2", "5: 2", "99999999999999999999:1"})
    CHECK(problem_of(text).find("ROWS:SIZE") != std::string::npos);
  CHECK(problem_of("5:3,2").find("compiled") != std::string::npos);
  CHECK(problem_of("5:4").find("sum") != std::string::npos);
  CHECK(problem_of("5:4,1,1").find("covered") != std::string::npos);
}

}  // namespace

int main() {
  cheapest_equals_exhaustive_search();
  never_pads_when_an_exact_split_is_as_cheap();
  fewer_rows_cost_less_of_a_larger_size();
  equal_costs_go_to_fewer_calls();
  large_sizes_keep_the_table_small();
  smallest_is_the_rule_of_cms();
  rules_are_read_as_cms_writes_them();
  rules_are_replaced_in_their_memory();
  wrong_rules_say_what_is_wrong();
  return check_report();
}
