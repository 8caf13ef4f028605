// src/bindings/parts.h - one evaluation, in parts that several threads do.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

#include "bindings/thread_pool.h"
#include "modelwheel/abi.h"
#include "modelwheel/instance.hpp"
#include "modelwheel/lengths.hpp"
#include "modelwheel/rows.hpp"

namespace modelwheel {

/// Whether a library says how rows are split: older ones lack the function.
inline bool knows_threads(const modelwheel_api &api) {
  return api.struct_size >= offsetof(modelwheel_api, rows_per_thread) + sizeof api.rows_per_thread;
}

/// Whether threads can share the steps of a run: the same.
inline bool knows_steps(const modelwheel_api &api) {
  return api.struct_size >= offsetof(modelwheel_api, set_threads) + sizeof api.set_threads;
}

/// Lets so many threads of a pool share the large steps of the instance's next run, if the library knows how. Without a
/// pool, the run is done by one thread.
inline modelwheel_status share_steps(const modelwheel_api &api, modelwheel_model *model, std::size_t threads,
                                     ThreadPool *pool) {
  if (!knows_steps(api)) return MODELWHEEL_OK;
  return api.set_threads(model, pool == nullptr ? 1 : threads, run_on_threads, pool);
}

/// The arguments of modelwheel_api::run_length.
struct Evaluation {
  std::size_t rows, length;
  const void *const *inputs;
  void *const *outputs;
  modelwheel_interrupt interrupt;
  void *context;
  const modelwheel_view *views = nullptr;  // in place of `inputs`, if not null
};

/// Evaluates on one instance.
inline modelwheel_status evaluate(const modelwheel_api &api, modelwheel_model *model, const Evaluation &all) {
  if (all.views != nullptr)
    return api.run_views(model, 0, all.rows, all.rows, all.length, all.views, all.outputs, all.interrupt, all.context);
  if (all.length == 0)
    return api.run_interruptible(model, all.rows, all.inputs, all.outputs, all.interrupt, all.context);
  return api.run_length(model, all.rows, all.length, all.inputs, all.outputs, all.interrupt, all.context);
}

/// The number of parts that some rows, one at least, are split into.
inline std::size_t count_parts(std::size_t rows, std::size_t rows_per_part) { return (rows - 1) / rows_per_part + 1; }

/// Evaluates in parts of `rows_per_part` rows, the last of which may be smaller.
class PartedEvaluation {
 public:
  PartedEvaluation(const modelwheel_api &api, const LengthTable &lengths, const Evaluation &all,
                   std::size_t rows_per_part)
      : api_(api),
        inputs_(api.inputs, api.num_inputs, lengths.inputs, all.length),
        outputs_(api.outputs, api.num_outputs, lengths.outputs, all.length),
        all_(all),
        rows_per_part_(rows_per_part),
        scattered_(is_scattered(api.inputs, api.num_inputs) || is_scattered(api.outputs, api.num_outputs)),
        owner_(std::this_thread::get_id()) {}

  /// Runs part i on models[i], whose steps so many threads share, on the threads of the pool; without one, in order,
  /// where all models may be the same. Returns the first failure, and whose it is. Throws std::bad_alloc before any
  /// part begins, or not at all: a thread of the pool can hand no exception on, and its caller cannot leave before it.
  std::pair<modelwheel_status, modelwheel_model *> run(ThreadPool *pool, const std::vector<modelwheel_model *> &models,
                                                       std::size_t threads) {
    std::vector<modelwheel_status> statuses(models.size(), MODELWHEEL_OK);
    std::vector<const void *> inputs(models.size() * api_.num_inputs);
    std::vector<void *> outputs(models.size() * api_.num_outputs);
    const auto part = [&](std::size_t i) noexcept {
      // On the thread that runs the part, whose cache has the instance.
      statuses[i] = share_steps(api_, models[i], threads, pool);
      if (statuses[i] == MODELWHEEL_OK)
        statuses[i] =
            run_part(i, models[i], inputs.data() + i * api_.num_inputs, outputs.data() + i * api_.num_outputs);
      if (statuses[i] != MODELWHEEL_OK) ends_ = true;
    };
    if (pool != nullptr)
      pool->run(models.size(), part, [this]() noexcept { is_interrupted(); });
    else
      for (std::size_t i = 0; i < models.size() && !ends_; ++i) part(i);
    // A part that ended because of another one says that it was interrupted.
    std::pair<modelwheel_status, modelwheel_model *> found{MODELWHEEL_OK, models.front()};
    for (std::size_t i = 0; i < models.size(); ++i) {
      if (statuses[i] == MODELWHEEL_OK) continue;
      if (found.first == MODELWHEEL_OK || found.first == MODELWHEEL_INTERRUPTED) found = {statuses[i], models[i]};
    }
    return found;
  }

 private:
  /// `inputs` and `outputs` have room for the pointers of this part.
  modelwheel_status run_part(std::size_t part, modelwheel_model *model, const void **inputs, void **outputs) noexcept {
    const std::size_t first = part * rows_per_part_, left = all_.rows - first;
    const std::size_t rows = left < rows_per_part_ ? left : rows_per_part_;
    if (all_.views != nullptr)
      return api_.run_views(model, first, rows, all_.rows, all_.length, all_.views, all_.outputs, poll, this);
    if (scattered_)
      return api_.run_part(model, first, rows, all_.rows, all_.length, all_.inputs, all_.outputs, poll, this);
    for (std::size_t i = 0; i < api_.num_inputs; ++i)
      inputs[i] = static_cast<const char *>(all_.inputs[i]) + offset(inputs_[i], first);
    for (std::size_t i = 0; i < api_.num_outputs; ++i)
      outputs[i] = static_cast<char *>(all_.outputs[i]) + offset(outputs_[i], first);
    return evaluate(api_, model, {rows, all_.length, inputs, outputs, poll, this});
  }

  /// Whether rows of a tensor do not follow each other. Libraries that are older than `run_part` have no such tensor.
  static bool is_scattered(const modelwheel_tensor *tensors, std::size_t count) {
    return std::any_of(tensors, tensors + count, [](const auto &tensor) { return row_pieces(tensor) != 1; });
  }

  static std::size_t offset(const modelwheel_tensor &tensor, std::size_t row) {
    return tensor.leading_per_row == 0 ? 0 : row * tensor.row_bytes;
  }

  static int poll(void *context) noexcept { return static_cast<PartedEvaluation *>(context)->is_interrupted() ? 1 : 0; }

  /// Only the thread that asked for the evaluation asks whether it has to end.
  bool is_interrupted() noexcept {
    if (!ends_ && all_.interrupt != nullptr && std::this_thread::get_id() == owner_ &&
        all_.interrupt(all_.context) != 0)
      ends_ = true;
    return ends_;
  }

  const modelwheel_api &api_;
  TensorsAt inputs_, outputs_;
  Evaluation all_;
  std::size_t rows_per_part_;
  bool scattered_;
  std::thread::id owner_;
  std::atomic<bool> ends_{false};
};

}  // namespace modelwheel
