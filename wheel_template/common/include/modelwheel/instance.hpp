// modelwheel/instance.hpp - an instance of a model that frees itself, and failures as exceptions.
#ifndef MODELWHEEL_INSTANCE_HPP
#define MODELWHEEL_INSTANCE_HPP

#if __cplusplus < 201703L && (!defined(_MSVC_LANG) || _MSVC_LANG < 201703L)
#error "the C++ headers of a model need C++17: compile with -std=c++17 (Bazel: --cxxopt=-std=c++17)"
#endif

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>

#include "modelwheel/abi.h"

namespace modelwheel {

/// A failure, described in one sentence.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string &sentence, modelwheel_status status = MODELWHEEL_INVALID_ARGUMENT)
      : std::runtime_error(sentence), status_(status) {}

  modelwheel_status status() const noexcept { return status_; }

 private:
  modelwheel_status status_;
};

/// An instance of the C library; frees itself with the function that it was made with.
using Instance = std::unique_ptr<modelwheel_model, void (*)(modelwheel_model *)>;

/// The part of a library's table that is used here. Members appended later may be absent from a library.
inline constexpr std::size_t kTableBytes =
    offsetof(modelwheel_api, run_interruptible) + sizeof(modelwheel_api::run_interruptible);

/// The longest batch rule that is written or read, in bytes.
inline constexpr std::size_t kLongestRule = std::size_t{1} << 24;

/// Whether a library has the ABI of this header. Reads the two members that every version has.
inline bool is_compatible(const modelwheel_api &api) {
  return api.abi_version == MODELWHEEL_ABI_VERSION && api.struct_size >= kTableBytes;
}

/// The number of tensors of a model's state; 0 for libraries that are older than these members.
inline std::size_t num_states(const modelwheel_api &api) {
  constexpr std::size_t kEnd = offsetof(modelwheel_api, copy_state) + sizeof(modelwheel_api::copy_state);
  return api.struct_size >= kEnd ? api.num_states : 0;
}

/// Creates an instance for a CPU level; null stands for MODELWHEEL_LEVEL or the highest level of this CPU.
/// Throws Error if this CPU lacks the level, memory is short, or the library has another ABI than this header.
inline Instance make_instance(const modelwheel_api &api, const char *level = nullptr) {
  if (!is_compatible(api))
    throw Error("the model's library has ABI version " + std::to_string(api.abi_version) +
                    ", but this program was compiled for version " + std::to_string(MODELWHEEL_ABI_VERSION) +
                    ": compile it with the headers that come with the library",
                MODELWHEEL_UNSUPPORTED);
  char sentence[512];
  modelwheel_model *model = nullptr;
  const modelwheel_status status = api.create(level, &model, sentence, sizeof sentence);
  if (status != MODELWHEEL_OK) throw Error(sentence, status);
  return Instance(model, api.destroy);
}

/// Throws Error if a call on `model` returned a status other than MODELWHEEL_OK.
inline void check(const modelwheel_api &api, const modelwheel_model *model, modelwheel_status status) {
  if (status != MODELWHEEL_OK) throw Error(api.error(model), status);
}

/// Lets up to `threads` threads share the large steps of each run. Throws Error if the library is too old for that.
inline void set_threads(const modelwheel_api &api, modelwheel_model *model, std::size_t threads,
                        modelwheel_parallel_for parallel_for, void *context) {
  if (api.struct_size < offsetof(modelwheel_api, set_threads) + sizeof api.set_threads)
    throw Error("the model's library is older than set_threads", MODELWHEEL_UNSUPPORTED);
  check(api, model, api.set_threads(model, threads, parallel_for, context));
}

/// How `rows` rows would be split, e.g. "7:4,2,1". Throws Error if they cannot be run, or if the text is too long.
inline std::string batch_rule(const modelwheel_api &api, modelwheel_model *model, std::size_t rows) {
  std::size_t length = 0;
  check(api, model, api.batch_rule(model, rows, nullptr, 0, &length));
  if (length > kLongestRule)
    throw Error("the batch rule for " + std::to_string(rows) + " rows is longer than " + std::to_string(kLongestRule) +
                    " characters",
                MODELWHEEL_UNSUPPORTED);
  std::string rule(length, '\0');
  check(api, model, api.batch_rule(model, rows, rule.data(), length + 1, nullptr));
  return rule;
}

}  // namespace modelwheel

#endif  // MODELWHEEL_INSTANCE_HPP
