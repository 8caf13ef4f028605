// cms_interface - code as CMSSW has it for the models test-simple and test-multi, both in one program.
//
// It calls what PhysicsTools/TensorFlowAOT/test/testInterface.cc of CMSSW calls, and prints every output, one row a
// line, for the rows 0 1 2 3 / 4 5 6 7 / 8 9 10 11 of each input.
#include <iomanip>
#include <iostream>
#include <string>
#include <tuple>

#include "PhysicsTools/TensorFlowAOT/interface/Model.h"
#include "require.h"
#include "tfaot-model-test-multi/model.h"
#include "tfaot-model-test-simple/model.h"

void run_tfcompile_classes();

namespace {

template <class Rows>
void print(const std::string &name, std::size_t batch, const Rows &rows) {
  REQUIRE(rows.size() == batch);
  for (const auto &row : rows) {
    REQUIRE(row.size() == 2);
    std::cout << name << ' ' << batch << ' ' << row[0] << ' ' << row[1] << '\n';
  }
}

void run_simple() {
  auto model = tfaot::Model<tfaot_model::test_simple>();
  model.setBatchRule(1, {1});
  model.setBatchRule(3, {2, 2}, 1);
  model.setBatchRule("5:2,2,2");

  const auto &strategy = model.getBatchStrategy();
  REQUIRE(strategy.hasRule(1) && strategy.getRule(1).nSizes() == 1 && strategy.getRule(1).getLastPadding() == 0);
  REQUIRE(strategy.hasRule(3) && strategy.getRule(3).nSizes() == 2 && strategy.getRule(3).getLastPadding() == 1);
  REQUIRE(strategy.hasRule(5) && strategy.getRule(5).nSizes() == 3 && strategy.getRule(5).getLastPadding() == 1);
  REQUIRE(!strategy.hasRule(2) && !strategy.hasRule(4));

  tfaot::FloatArrays one = {{0, 1, 2, 3}};
  tfaot::FloatArrays output;
  std::tie(output) = model.run<tfaot::FloatArrays>(1, one);
  print("simple", 1, output);

  tfaot::FloatArrays two = {{0, 1, 2, 3}, {4, 5, 6, 7}};
  std::tie(output) = model.run<tfaot::FloatArrays>(2, two);
  print("simple", 2, output);
  REQUIRE(model.getBatchStrategy().hasRule(2));

  tfaot::FloatArrays three = {{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}};
  std::tie(output) = model.run<tfaot::FloatArrays>(3, three);
  print("simple", 3, output);
  REQUIRE(!model.getBatchStrategy().hasRule(4));
}

void run_multi() {
  auto model = tfaot::Model<tfaot_model::test_multi>();
  REQUIRE(!model.getBatchStrategy().hasRule(2));

  tfaot::FloatArrays input1 = {{0, 1, 2, 3}, {4, 5, 6, 7}};
  tfaot::DoubleArrays input2 = {{0, 1, 2, 3}, {4, 5, 6, 7}};
  tfaot::FloatArrays output1;
  tfaot::BoolArrays output2;
  std::tie(output1, output2) = model.run<tfaot::FloatArrays, tfaot::BoolArrays>(2, input1, input2);
  print("multi1", 2, output1);
  print("multi2", 2, output2);
  REQUIRE(model.getBatchStrategy().hasRule(2));
}

/// What CMSSW's own headers let pass or do wrong.
void run_what_cms_gets_wrong() {
  std::cout << tfaot::BatchRule("5:2,2,2") << '\n';

  tfaot::Model<tfaot_model::test_simple> model;
  const tfaot::FloatArrays short_of_rows = {{0, 1, 2, 3}};
  const tfaot::FloatArrays short_of_elements = {{0, 1, 2, 3}, {4, 5, 6}};
  for (const tfaot::FloatArrays &input : {short_of_rows, short_of_elements}) {
    try {
      model.run<tfaot::FloatArrays>(2, input);
    } catch (const tfaot::Exception &error) {
      std::cout << error.what() << '\n';
    }
  }

  const tfaot::FloatArrays seven(7, {0, 1, 2, 3});
  REQUIRE(std::get<0>(model.run<tfaot::FloatArrays>(7, seven)).size() == 7);
  std::cout << "seven as " << model.getBatchStrategy().getRule(7).getSizes().front() << '\n';
  REQUIRE(std::get<0>(model.run<tfaot::FloatArrays>(0, tfaot::FloatArrays{})).empty());
}

}  // namespace

int main() {
  std::cout << std::setprecision(9);
  run_simple();
  run_multi();
  run_what_cms_gets_wrong();
  run_tfcompile_classes();
  return 0;
}
