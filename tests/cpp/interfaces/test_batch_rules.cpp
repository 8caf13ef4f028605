// tfaot::BatchRule and tfaot::BatchStrategy: what CMSSW's own have, without their defects.
#include <sstream>
#include <string>
#include <vector>

#include "PhysicsTools/TensorFlowAOT/interface/Batching.h"
#include "check.h"
#include "throws.h"

using tfaot::BatchRule;
using tfaot::BatchStrategy;
using Sizes = std::vector<std::size_t>;

static void test_rule_from_parts() {
  const BatchRule rule(3, {2, 2}, 1);
  CHECK(rule.getBatchSize() == 3);
  CHECK(rule.nSizes() == 2 && rule.getSize(1) == 2 && rule.getSizes() == Sizes({2, 2}));
  CHECK(rule.getLastPadding() == 1);
  CHECK(throws("at least one size", [] { BatchRule(1, {}); }));
  CHECK(throws("padding 2 must be smaller than last size 2", [] { BatchRule(2, {2, 2}, 2); }));
  CHECK(throws("batch size 5 does not match", [] { BatchRule(5, {2, 2}); }));
  CHECK(throws("positive", [] { BatchRule(2, {0, 2}); }));
}

static void test_rule_from_text() {
  const BatchRule rule("5:2,2,2");
  CHECK(rule.getBatchSize() == 5 && rule.getSizes() == Sizes({2, 2, 2}) && rule.getLastPadding() == 1);
  CHECK(BatchRule("1:1").getLastPadding() == 0);
  for (const char *text :
       {"", ":", "5", "5:", ":5", "5:2,2", "5:2,,4", "5:2,4,", "-5:5", "5: 5", "5:5x", "5:99999999999"})
    CHECK(throws("invalid batch rule '" + std::string(text) + "'", [&] { BatchRule{std::string(text)}; }));
  CHECK(throws("padding", [] { BatchRule("5:8,4"); }));
  CHECK(throws("positive", [] { BatchRule("4:0,4"); }));
}

static void test_rule_prints_its_padding() {
  std::ostringstream text;
  text << BatchRule(3, {2, 2}, 1);
  CHECK(text.str() == "BatchRule(batchSize=3, sizes=2,2, lastPadding=1)");
}

static void test_strategy() {
  BatchStrategy strategy;
  CHECK(!strategy.hasRule(3));
  CHECK(throws("no batch rule for batch size 3", [&] { strategy.getRule(3); }));
  strategy.setRule(BatchRule(3, {2, 2}, 1));
  strategy.setRule(BatchRule(3, {1, 2}));
  CHECK(strategy.getRule(3).getSizes() == Sizes({1, 2}));
}

static void test_default_rule_is_that_of_cmssw() {
  BatchStrategy strategy;
  strategy.setDefaultRule(4, {4, 2});
  CHECK(strategy.getRule(4).getSizes() == Sizes({4}));
  strategy.setDefaultRule(5, {4, 2});
  CHECK(strategy.getRule(5).getSizes() == Sizes({2, 2, 2}) && strategy.getRule(5).getLastPadding() == 1);
  strategy.setDefaultRule(6, {4, 2});
  CHECK(strategy.getRule(6).getSizes() == Sizes({2, 2, 2}) && strategy.getRule(6).getLastPadding() == 0);
  CHECK(throws("available", [&] { strategy.setDefaultRule(1, {}); }));
}

int main() {
  test_rule_from_parts();
  test_rule_from_text();
  test_rule_prints_its_padding();
  test_strategy();
  test_default_rule_is_that_of_cmssw();
  return check_report();
}
