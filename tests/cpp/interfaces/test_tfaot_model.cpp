// tfaot::Model over tfaot_model::toy: code as CMSSW has it, and what CMSSW's header lets pass.
#include <tuple>
#include <vector>

#include "PhysicsTools/TensorFlowAOT/interface/Model.h"
#include "check.h"
#include "throws.h"
#include "toy_functions.h"

const char *name_from_other_unit();

namespace {

using Model = tfaot::Model<tfaot_model::toy>;
using Outputs = std::tuple<tfaot::FloatArrays, tfaot::BoolArrays, tfaot::Int64Arrays>;

struct Inputs {
  tfaot::FloatArrays x;
  tfaot::Int32Arrays n;
};

Inputs make_inputs(std::size_t rows) {
  Inputs inputs;
  for (std::size_t row = 0; row < rows; ++row) {
    const auto value = static_cast<float>(row);
    inputs.x.push_back({value + 1, -value});
    inputs.n.push_back({static_cast<std::int32_t>(row) - 2});
  }
  return inputs;
}

Outputs run(Model &model, std::size_t rows, const Inputs &inputs) {
  return model.run<tfaot::FloatArrays, tfaot::BoolArrays, tfaot::Int64Arrays>(rows, inputs.x, inputs.n);
}

void check_outputs(const Outputs &outputs, const Inputs &inputs, std::size_t rows) {
  const auto &[y, positive, pair] = outputs;
  CHECK(y.size() == rows && positive.size() == rows && pair.size() == rows);
  for (std::size_t row = 0; row < rows; ++row) {
    const std::int32_t n = inputs.n[row][0];
    const auto offset = static_cast<float>(n);
    CHECK(y[row] == std::vector<float>({2 * inputs.x[row][0] + offset, 2 * inputs.x[row][1] + offset}));
    CHECK(positive[row] == std::vector<bool>({n > 0}));
    CHECK(pair[row] == std::vector<std::int64_t>({n, -n}));
  }
}

void test_rules_as_in_cmssw() {
  auto model = Model();
  CHECK(model.name() == "tfaot_model_toy");
  model.setBatchRule(1, {1});
  model.setBatchRule(3, {2, 2}, 1);
  model.setBatchRule("5:2,2,2");
  CHECK(model.getBatchStrategy().hasRule(1) && model.getBatchStrategy().getRule(1).getLastPadding() == 0);
  CHECK(model.getBatchStrategy().getRule(3).nSizes() == 2 && model.getBatchStrategy().getRule(5).nSizes() == 3);
  CHECK(!model.getBatchStrategy().hasRule(2));

  const Inputs inputs = make_inputs(5);
  for (const std::size_t rows : {std::size_t{1}, std::size_t{2}, std::size_t{3}, std::size_t{5}})
    check_outputs(run(model, rows, inputs), inputs, rows);
  CHECK(model.getBatchStrategy().hasRule(2));
  CHECK(!model.getBatchStrategy().hasRule(4));
}

void test_any_number_of_rows() {
  Model model;
  for (std::size_t rows = 0; rows <= 11; ++rows) {
    const Inputs inputs = make_inputs(rows);
    check_outputs(run(model, rows, inputs), inputs, rows);
    CHECK(model.getBatchStrategy().hasRule(rows) == (rows > 0));
  }
  CHECK(model.getBatchStrategy().getRule(9).getSizes() == std::vector<std::size_t>({4, 4, 1}));
}

void test_padding_is_zero() {
  Model model;
  const Inputs inputs = make_inputs(4);
  run(model, 4, inputs);
  model.setBatchRule(1, {4}, 3);
  check_outputs(run(model, 1, inputs), inputs, 1);
  CHECK((toy_last_x == std::array<float, 8>{1, 0, 0, 0, 0, 0, 0, 0}));
}

void test_mistakes_are_refused() {
  Model model;
  Inputs inputs = make_inputs(3);
  CHECK(throws("received 3 rows for input 0, but 4 are expected", [&] { run(model, 4, inputs); }));
  inputs.x[1].pop_back();
  CHECK(throws("1 elements for input 0 in row 1, but 2 are expected", [&] { run(model, 3, inputs); }));
  CHECK(throws("has 2 inputs, got 1", [&] { model.run<tfaot::FloatArrays>(1, inputs.x); }));
  CHECK(throws("has 3 outputs, got 1", [&] { model.run<tfaot::FloatArrays>(1, inputs.x, inputs.n); }));

  const tfaot::DoubleArrays doubles = {{1, 2}};
  const tfaot::Int32Arrays ones = {{1}};
  CHECK(throws("'x' of model 'tfaot_model_toy' holds float32, not float64",
               [&] { model.run<tfaot::FloatArrays, tfaot::BoolArrays, tfaot::Int64Arrays>(1, doubles, ones); }));
  CHECK(throws("'pair' of model 'tfaot_model_toy' holds int64, not int32", [&] {
    model.run<tfaot::FloatArrays, tfaot::BoolArrays, tfaot::Int32Arrays>(1, tfaot::FloatArrays{{1, 2}}, ones);
  }));
  model.setBatchRule(3, {3});
  CHECK(throws("batch size 3 not known", [&] { run(model, 3, make_inputs(3)); }));
  toy_fail_next = true;
  CHECK(throws("evaluation with batch size 1 failed", [&] { run(model, 1, make_inputs(1)); }));
}

/// A model whose rows depend on each other.
class Interacting : public modelwheel::TfaotWrapper {
 public:
  Interacting() : TfaotWrapper(api(), "interacting") {}

 private:
  static const modelwheel_api &api() {
    static const modelwheel_api changed = [] {
      modelwheel_api copy = toy_api();
      copy.no_emulation_reason = "rows are sorted";
      return copy;
    }();
    return changed;
  }
};

void test_rows_that_interact_are_not_split() {
  tfaot::Model<Interacting> model;
  const Inputs inputs = make_inputs(3);
  const auto run_rows = [&](std::size_t rows) {
    return model.run<tfaot::FloatArrays, tfaot::BoolArrays, tfaot::Int64Arrays>(rows, inputs.x, inputs.n);
  };
  check_outputs(run_rows(2), inputs, 2);
  model.setBatchRule(3, {1, 2});
  CHECK(throws("rows are sorted", [&] { run_rows(3); }));
  model.setBatchRule(1, {2}, 1);
  CHECK(throws("rows are sorted", [&] { run_rows(1); }));
}

void test_wrapper() {
  tfaot_model::toy toy("other name");
  CHECK(toy.name() == "other name");
  CHECK(toy.batchSizes() == std::vector<std::size_t>({1, 2, 4}) && toy.nBatchSizes() == 3);
  CHECK(toy.hasBatchSize(2) && !toy.hasBatchSize(3));
  CHECK(toy.nArgs() == 2 && toy.argCount(4, 0) == 8 && toy.argCountNoBatch(0) == 2);
  CHECK(toy.nResults() == 3 && toy.resultCount(4, 2) == 8 && toy.resultCountNoBatch(2) == 2);
  CHECK(throws("argument 2 not known", [&] { toy.argCountNoBatch(2); }));
  CHECK(throws("batch size 3 not known to model 'other name' in 'argCount()'", [&] { toy.argCount(3, 0); }));
  CHECK(throws("has 2 argument(s): there is no 2", [&] { toy.argData<float>(1, 2); }));
  toy.argData<float>(2, 0)[3] = 5;
  toy.argData<std::int32_t>(2, 1)[1] = 1;
  toy.run(2);
  CHECK(static_cast<const tfaot_model::toy &>(toy).resultData<float>(2, 0)[3] == 11);
}

}  // namespace

int main() {
  CHECK(std::string(name_from_other_unit()) == "toy");
  test_rules_as_in_cmssw();
  test_any_number_of_rows();
  test_padding_is_zero();
  test_mistakes_are_refused();
  test_rows_that_interact_are_not_split();
  test_wrapper();
  return check_report();
}
