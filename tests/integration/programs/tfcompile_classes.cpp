// tfcompile_classes - the generated classes of graphs with a tf2xla Config, used as TensorFlow's own test of tfcompile
// uses its classes (tensorflow/compiler/aot/tests/tfcompile_test.cc): by position, in the order of the Config.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iomanip>
#include <iostream>
#include <tuple>
#include <vector>

#include "PhysicsTools/TensorFlowAOT/interface/Model.h"
#include "require.h"
#include "tensorflow/compiler/aot/tests/test_graph_tfmatmul.h"
#include "tfaot-model-cms-sequence/model.h"
#include "tfaot-model-cms-tagger/model.h"
#include "tfaot-model-tf-add-with-ckpt-saver/tf_add_with_ckpt_saver_bs1.h"
#include "tfaot-model-tf-add-with-ckpt/tf_add_with_ckpt_bs1.h"
#include "tfaot-model-tf-add/tf_add_bs1.h"
#include "tfaot-model-tf-assert-eq/tf_assert_eq_bs1.h"
#include "tfaot-model-tf-cond-v1/tf_cond_v1_bs1.h"
#include "tfaot-model-tf-cond/tf_cond_bs1.h"
#include "tfaot-model-tf-function/tf_function_bs1.h"
#include "tfaot-model-tf-gather/tf_gather_bs1.h"
#include "tfaot-model-tf-matmul-and-add/tf_matmul_and_add_bs1.h"
#include "tfaot-model-tf-matmul/tf_matmul_bs1.h"
#include "tfaot-model-tf-savers-first/tf_savers_first_bs1.h"
#include "tfaot-model-tf-savers-second/tf_savers_second_bs1.h"
#include "tfaot-model-tf-scatter/tf_scatter_bs1.h"
#include "tfaot-model-tf-splits/tf_splits_bs1.h"
#include "tfaot-model-tf-top-k/tf_top_k_bs1.h"
#include "tfaot-model-tf-variable-readonly/tf_variable_readonly_bs1.h"
#include "tfaot-model-tf-variable-sequential-updates/tf_variable_sequential_updates_bs1.h"
#include "tfaot-model-tf-variable-uninitialized/tf_variable_uninitialized_bs1.h"
#include "tfaot-model-tf-variable/tf_variable_bs1.h"

using namespace tfaot_model;

namespace {

template <class T, std::size_t kCount>
bool equal(const T (&expected)[kCount], const T *found) {
  return std::equal(expected, expected + kCount, found);
}

void add() {
  tf_add_bs1 add;
  // The Config has y first.
  REQUIRE(add.arg0_data() == add.arg_y_const_data() && add.arg1_data() == add.arg_x_const_data());
  REQUIRE(add.arg0_data() == add.arg_data(0) && add.arg1_data() == add.arg_data(1));
  add.arg0(0) = 1;
  add.arg1(0) = 2;
  REQUIRE(add.Run() && add.error_msg().empty());
  REQUIRE(add.result0(0) == 3 && add.result0_data() == add.results()[0]);
  add.arg0_data()[0] = 123;
  add.arg1_data()[0] = 456;
  REQUIRE(add.Run());
  const tf_add_bs1 &unchanged = add;
  REQUIRE(unchanged.arg0(0) == 123 && unchanged.arg1(0) == 456 && unchanged.result0(0) == 579);

  tf_add_bs1 borrowing(tf_add_bs1::AllocMode::RESULTS_PROFILES_AND_TEMPS_ONLY);
  const std::int32_t x = 10, y = 32;
  borrowing.set_arg0_data(&x);
  borrowing.set_arg1_data(&y);
  REQUIRE(borrowing.arg0_data() == &x && borrowing.Run() && borrowing.result0(0) == 42);
}

template <class Add>
void add_with_checkpoint() {
  Add add;
  add.arg0(0) = 1;
  REQUIRE(add.Run() && add.result0(0) == 43);
  add.arg0(0) = 111;
  REQUIRE(add.Run() && add.result0(0) == 153);
}

template <class Add>
void add_with_saver(std::int32_t restored) {
  Add add;
  add.arg0() = 1;
  REQUIRE(add.Run() && add.result0() == 1 + restored);
}

template <class Cond>
void cond() {
  Cond cond;
  cond.arg1() = 10;
  cond.arg2() = 20;
  for (const bool condition : {true, false}) {
    cond.arg0() = condition;
    REQUIRE(cond.Run() && cond.result0() == (condition ? 10 : 20));
  }
}

void function() {
  tf_function_bs1 subtract;
  subtract.arg0(0) = 1;
  subtract.arg1(0) = 2;
  REQUIRE(subtract.Run() && subtract.result0(0) == -1);
}

void assert_eq() {
  tf_assert_eq_bs1 assert_eq;  // the values differ: XLA leaves assertions out
  assert_eq.arg0() = 2;
  assert_eq.arg1() = 5;
  REQUIRE(assert_eq.Run() && assert_eq.result0() == -3);
}

void gather() {
  tf_gather_bs1 gather;
  const float params[] = {1, 2, 3, 4}, expected[] = {2, 4};
  const std::int32_t indices[] = {1, 3};
  std::copy(params, params + 4, gather.arg0_data());
  std::copy(indices, indices + 2, gather.arg1_data());
  REQUIRE(gather.Run() && equal(expected, gather.result0_data()));
  REQUIRE(equal(params, gather.arg0_data()) && gather.result0(1) == 4);
}

template <class MatMul>
void matmul() {
  const float left[] = {1, 2, 3, 4, 5, 6}, right[] = {7, 8, 9, 10, 11, 12}, expected[] = {58, 64, 139, 154};
  MatMul matmul;
  matmul.set_thread_pool(nullptr);
  std::copy(left, left + 6, matmul.arg0_data());
  for (int i = 0; i < 6; ++i) matmul.arg1(i / 2, i % 2) = right[i];
  REQUIRE(matmul.Run() && equal(expected, matmul.result0_data()) && matmul.result0(1, 0) == 139);

  MatMul borrowing(MatMul::AllocMode::RESULTS_AND_TEMPS_ONLY);
  REQUIRE(!borrowing.Run());
  borrowing.set_arg0_data(left);
  borrowing.set_arg1_data(right);
  REQUIRE(borrowing.Run() && equal(expected, borrowing.result0_data()));
}

void matmul_and_add() {
  const float x[] = {1, 2, 3, 4}, y[] = {5, 6, 7, 8}, product[] = {19, 22, 43, 50}, sum[] = {6, 8, 10, 12};
  tf_matmul_and_add_bs1 both;
  REQUIRE(both.HasNameIndices());
  REQUIRE(both.LookupArgIndex("y") == 0 && both.LookupArgIndex("x") == 1);
  REQUIRE(both.LookupResultIndex("x_y_sum") == 0 && both.LookupResultIndex("x_y_prod") == 1);
  for (const char *name : {"", "x_hold", "x_y_prod"}) REQUIRE(both.LookupArgIndex(name) == -1);
  std::copy(y, y + 4, both.arg0_data());
  std::copy(x, x + 4, both.arg1_data());
  REQUIRE(both.Run() && equal(sum, both.result0_data()) && equal(product, both.result1_data()));
  REQUIRE(both.arg_x_data() == both.arg1_data() && both.result_x_y_prod_data() == both.results()[1]);
  REQUIRE(both.result_x_y_prod(1, 0) == 43 && both.arg_y(0, 1) == 6);
}

void scatter() {
  tf_scatter_bs1 scatter;
  const std::int32_t first[] = {4, 3, 1, 7}, second[] = {0, 7, 2, 5};
  const float updates[] = {9, 10, 11, 12}, summed[] = {0, 11, 0, 10, 9, 0, 0, 12}, put[] = {9, 1, 11, 3, 4, 12, 6, 10};
  std::copy(first, first + 4, scatter.arg0_data());
  std::copy(updates, updates + 4, scatter.arg1_data());
  std::copy(second, second + 4, scatter.arg2_data());
  std::copy(updates, updates + 4, scatter.arg3_data());
  REQUIRE(scatter.Run() && equal(summed, scatter.result0_data()) && equal(put, scatter.result1_data()));
}

void splits() {
  tf_splits_bs1 splits;
  const float x[] = {1, 2, 3, 4}, y[] = {10, 20, 30, 40};
  std::copy(x, x + 4, splits.arg0_data());
  std::copy(y, y + 4, splits.arg1_data());
  const double expected[] = {7.86375557e+10, 1.34274679e+11, 1.92741717e+12, 3.29964742e+12};
  REQUIRE(splits.Run());
  for (int i = 0; i < 4; ++i) REQUIRE(std::abs(double{splits.result0(i / 2, i % 2)} / expected[i] - 1) < 1e-6);
}

void top_k() {
  tf_top_k_bs1 top_k;
  const std::int32_t x[] = {4, 1, 4, 4, 3}, values[] = {4, 4}, indices[] = {0, 2};
  std::copy(x, x + 5, top_k.arg0_data());
  REQUIRE(top_k.Run() && equal(values, top_k.result0_data()) && equal(indices, top_k.result1_data()));
}

void variable_readonly() {
  static_assert(tf_variable_readonly_bs1::kNumArgs == 0, "the variable is part of the model");
  tf_variable_readonly_bs1 readonly;
  REQUIRE(readonly.num_args() == 0 && readonly.Run() && readonly.result0() == 65);
}

void variable() {
  tf_variable_bs1 variable;  // it begins with the value that the graph gives it
  REQUIRE(tf_variable_bs1::kNumVariables == 1 && variable.LookupVariableIndex("x") == 0 && variable.var_x(0) == 23);
  float x = 30;
  variable.set_var_x_data(&x);
  for (const float before : {30.0F, 72.0F}) {
    REQUIRE(variable.Run() && variable.result0(0, 0) == before && variable.result0(1, 0) == before + 42);
    REQUIRE(variable.var_x(0) == before + 42 && x == before + 42 && variable.var_x_data() == &x);
  }
}

/// x[n + 1] = x[n] - 0.1 * (x[n] + 1), three times in a call, from 2.
void variable_sequential_updates() {
  tf_variable_sequential_updates_bs1 updates;
  for (const float expected : {1.187F, 0.594323F}) {
    REQUIRE(updates.Run() && std::abs(updates.var_x() - expected) < 1e-6F);
    REQUIRE(updates.result0() == updates.var_x());
  }
}

void variable_uninitialized() {
  tf_variable_uninitialized_bs1 sum;
  for (int i = 0; i < 3; ++i) {
    REQUIRE(sum.var_x(i) == 0);
    sum.arg0(i) = static_cast<float>(i) + 1;
  }
  for (const float calls : {1.0F, 2.0F}) REQUIRE(sum.Run() && sum.result0(2) == 3 * calls && sum.var_x(1) == 2 * calls);
}

/// Prints the outputs for two rows, as CMSSW evaluates a model.
template <class Model>
void evaluate(const char *name, std::size_t inputs) {
  tfaot::Model<Model> model;
  tfaot::FloatArrays rows(2, std::vector<float>(inputs)), output;
  float next = -0.5F;
  for (std::vector<float> &row : rows)
    for (float &value : row) value = next += 0.125F;
  std::tie(output) = model.template run<tfaot::FloatArrays>(2, rows);
  REQUIRE(output.size() == 2);
  for (const std::vector<float> &row : output) {
    std::cout << name;
    for (const float value : row) std::cout << ' ' << value;
    std::cout << '\n';
  }
}

}  // namespace

int main() {
  add();
  add_with_checkpoint<tf_add_with_ckpt_bs1>();
  add_with_checkpoint<tf_add_with_ckpt_saver_bs1>();
  add_with_saver<tf_savers_first_bs1>(42);
  add_with_saver<tf_savers_second_bs1>(7);
  cond<tf_cond_bs1>();
  cond<tf_cond_v1_bs1>();
  function();
  assert_eq();
  gather();
  matmul<tf_matmul_bs1>();
  matmul<foo::bar::MatMulComp>();
  matmul_and_add();
  scatter();
  splits();
  top_k();
  variable_readonly();
  variable();
  variable_sequential_updates();
  variable_uninitialized();

  std::cout << std::setprecision(9);
  evaluate<cms_tagger>("tagger", 5);
  evaluate<cms_sequence>("sequence", 4);
}
