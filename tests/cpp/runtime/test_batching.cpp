// Batch rules and the cheapest composition, against exhaustive search.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "batching.h"
#include "check.h"

using modelwheel::BatchPlanner;
using modelwheel::BatchRule;
using modelwheel::parse_rule;

namespace {

struct Plan {
  std::vector<std::size_t> sizes;
  std::vector<double> costs;
  std::vector<std::uint16_t> table;
  BatchPlanner planner;

  Plan(std::vector<std::size_t> s, std::vector<double> c) : sizes(std::move(s)), costs(std::move(c)) {
    const std::size_t entries = BatchPlanner::table_size(sizes.data(), costs.data(), sizes.size());
    table.resize(entries);
    std::vector<double> scratch(entries);
    planner.plan(sizes.data(), costs.data(), sizes.size(), table.data(), scratch.data());
  }

  double cost(std::size_t rows, std::size_t *padding = nullptr) const {
    double total = 0;
    while (rows > 0) {
      const std::size_t i = planner.cheapest(rows);
      total += costs[i];
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
      const double rest = n > plan.sizes[i] ? best[n - plan.sizes[i]] : 0.0;
      if (plan.costs[i] + rest < best[n]) best[n] = plan.costs[i] + rest;
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
    const Plan plan(sizes, costs);
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

std::string problem_of(const char *text) {
  const std::size_t sizes[] = {1, 2, 4};
  BatchRule rule{};
  const char *problem = parse_rule(text, sizes, 3, rule);
  if (problem == nullptr) std::free(rule.sizes);
  return problem == nullptr ? "" : problem;
}

void rules_are_read_as_cms_writes_them() {
  const std::size_t sizes[] = {1, 2, 4};
  BatchRule rule{};
  CHECK(parse_rule("5:2,2,2", sizes, 3, rule) == nullptr);
  CHECK(rule.rows == 5 && rule.num_sizes == 3 && rule.sizes[0] == 1 && rule.sizes[2] == 1);
  std::free(rule.sizes);
  CHECK(parse_rule("5:1,4", sizes, 3, rule) == nullptr);
  CHECK(rule.num_sizes == 2 && rule.sizes[0] == 0 && rule.sizes[1] == 2);
  std::free(rule.sizes);
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
  equal_costs_go_to_fewer_calls();
  large_sizes_keep_the_table_small();
  smallest_is_the_rule_of_cms();
  rules_are_read_as_cms_writes_them();
  wrong_rules_say_what_is_wrong();
  return check_report();
}
