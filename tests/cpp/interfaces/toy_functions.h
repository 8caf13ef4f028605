// toy_functions.h - the toy model as the rendered headers of a model would offer it.
#pragma once

#include <string>

#include "modelwheel/compiled_function.hpp"
#include "modelwheel/model.hpp"
#include "modelwheel/tfaot_wrapper.hpp"
#include "toy_model.h"

namespace tfaot_model {

class toy_bs2 final : public modelwheel::CompiledFunction {
 public:
  static constexpr std::size_t kNumArgs = 2;
  static constexpr std::size_t kNumResults = 3;

  toy_bs2(AllocMode alloc_mode = AllocMode::ARGS_VARIABLES_RESULTS_PROFILES_AND_TEMPS)
      : CompiledFunction(toy_api(), 2, alloc_mode) {}

  using Arg0 = modelwheel::StaticTensor<float, 2, 2>;
  MODELWHEEL_ARG(0, 0)
  MODELWHEEL_ARG(_x, 0)
  MODELWHEEL_ARG(_feed_x, 0)

  using Arg1 = modelwheel::StaticTensor<std::int32_t, 2>;
  MODELWHEEL_ARG(1, 1)
  MODELWHEEL_ARG(_n, 1)

  using Result0 = modelwheel::StaticTensor<float, 2, 2>;
  MODELWHEEL_RESULT(0, 0)
  MODELWHEEL_RESULT(_fetch_y, 0)

  using Result2 = modelwheel::StaticTensor<std::int64_t, 4>;
  MODELWHEEL_RESULT(2, 2)
};

class toy final : public modelwheel::TfaotWrapper {
 public:
  explicit toy(const std::string &name = "tfaot_model_toy") : TfaotWrapper(toy_api(), name) {}
};

}  // namespace tfaot_model

namespace model_toy {

struct Outputs {
  modelwheel::AlignedVector<float> y;
  modelwheel::AlignedVector<bool> positive;
  modelwheel::AlignedVector<std::int64_t> pair;
};

class Model : public modelwheel::Model {
 public:
  explicit Model(const char *level = nullptr) : modelwheel::Model(toy_api(), level) {}

  Outputs operator()(modelwheel::Span<const float> x, modelwheel::Span<const std::int32_t> n) {
    return evaluate<Outputs, float, bool, std::int64_t>({x, n});
  }
};

}  // namespace model_toy
