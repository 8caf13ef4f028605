// modelwheel/compiled_function.hpp - one batch size of a model with the interface of tfcompile's generated classes.
//
// The interface is that of tensorflow::XlaCompiledCpuFunction (tensorflow/compiler/tf2xla/xla_compiled_cpu_function.h)
// and of the classes that tfcompile derives from it, so that code written for those compiles unchanged. The header of
// a batch size (digits_bs4.h) derives its class from this one and adds accessors by position and by name.
#ifndef MODELWHEEL_COMPILED_FUNCTION_HPP
#define MODELWHEEL_COMPILED_FUNCTION_HPP

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "modelwheel/abi.h"
#include "modelwheel/buffer.hpp"
#include "modelwheel/instance.hpp"
#include "modelwheel/thread_pool.hpp"

namespace modelwheel {

/// Element type and extents of one tensor, known while compiling.
template <class T, std::size_t... kExtents>
struct StaticTensor {
  using Element = T;
  static constexpr std::size_t kCount = (std::size_t{1} * ... * kExtents);

  /// Place of an element, by its index on each axis.
  template <class... Index>
  static constexpr std::size_t offset(Index... index) {
    static_assert(sizeof...(Index) == sizeof...(kExtents), "an element has one index for each axis");
    std::size_t place = 0;
    ((place = place * kExtents + static_cast<std::size_t>(index)), ...);
    return place;
  }
};

/// Owns the buffers of arguments and results, at addresses that do not change, and evaluates one batch size. Moving is
/// allowed, copying is not. Different objects may be used by different threads, one of them by one thread at a time.
class CompiledFunction {
 public:
  /// The names are tfcompile's, of today and of its page. Only arguments make a difference: the second mode allocates
  /// none, and set_arg_data must be called for each before Run.
  enum class AllocMode {
    ARGS_VARIABLES_RESULTS_PROFILES_AND_TEMPS,
    RESULTS_PROFILES_AND_TEMPS_ONLY,
    ARGS_RESULTS_AND_TEMPS = ARGS_VARIABLES_RESULTS_PROFILES_AND_TEMPS,
    RESULTS_AND_TEMPS_ONLY = RESULTS_PROFILES_AND_TEMPS_ONLY,
  };

  /// Functions that never run at the same time may share an `instance`, and with it the memory for temporaries; null
  /// creates one. Throws Error if that fails.
  CompiledFunction(const modelwheel_api &api, std::size_t batch_size, AllocMode alloc_mode,
                   std::shared_ptr<modelwheel_model> instance = nullptr)
      : api_(&api), batch_size_(batch_size), instance_(std::move(instance)) {
    if (instance_ == nullptr) instance_ = make_instance(api);
    if (alloc_mode == AllocMode::ARGS_VARIABLES_RESULTS_PROFILES_AND_TEMPS)
      allocate(api.inputs, api.num_inputs, args_);
    else
      args_.resize(api.num_inputs);
    allocate(api.outputs, api.num_outputs, results_);
    allocate(api.states, num_states(api), variables_);
    reset();
  }

  CompiledFunction(const CompiledFunction &) = delete;
  CompiledFunction &operator=(const CompiledFunction &) = delete;
  CompiledFunction(CompiledFunction &&) = default;
  CompiledFunction &operator=(CompiledFunction &&) = default;
  virtual ~CompiledFunction() = default;

  /// Evaluates the arguments into the results; if it returns false, error_msg() has the reason.
  bool Run() {
    // Functions that share an instance have variables of their own.
    modelwheel_status status = MODELWHEEL_OK;
    if (!variables_.empty()) status = api_->set_state(instance_.get(), variables_.data());
    if (status == MODELWHEEL_OK)
      status = api_->run_batch_size(instance_.get(), batch_size_, args_.data(), results_.data());
    if (status == MODELWHEEL_OK && !variables_.empty()) status = api_->get_state(instance_.get(), variables_.data());
    if (status != MODELWHEEL_OK) error_msg_ = api_->error(instance_.get());
    return status == MODELWHEEL_OK;
  }

  /// The message of the last Run that failed.
  std::string error_msg() const { return error_msg_; }
  void set_error_msg(const std::string &error_msg) { error_msg_ = error_msg; }

  /// Lets the threads of a device share the large steps of each Run, where that pays; results have the same bits. The
  /// device must live until another one, or null, is set, or the object is destroyed. Functions that share an instance
  /// share the device too. Throws Error if there is no memory for the threads.
  template <class Device>
  void set_thread_pool(const Device *device) {
    static_assert(IsThreadPoolDevice<Device>::value,
                  "set_thread_pool takes an Eigen::ThreadPoolDevice: define EIGEN_USE_THREADS and include "
                  "unsupported/Eigen/CXX11/Tensor first");
    if (device == nullptr) return set_thread_pool(nullptr);
    use_threads(*this, *device);
  }
  /// The calling thread does all the work, as in a new object.
  void set_thread_pool(std::nullptr_t) { set_threads(1, nullptr, nullptr); }
  /// The same for any function that has parts of work done: see modelwheel_api::set_threads.
  void set_threads(std::size_t threads, modelwheel_parallel_for parallel_for, void *context) {
    modelwheel::set_threads(*api_, instance_.get(), threads, parallel_for, context);
  }

  // --- arguments: dense, row-major ---

  void **args() { return args_.data(); }
  const void *const *args() const { return args_.data(); }
  void *arg_data(std::size_t index) { return args_[index]; }
  const void *arg_data(std::size_t index) const { return args_[index]; }

  /// Makes Run read an argument from the caller's memory, of any alignment, until it is set again. It is not written.
  void set_arg_data(std::size_t index, const void *data) { args_[index] = const_cast<void *>(data); }

  int num_args() const { return static_cast<int>(api_->num_inputs); }
  /// Size of an argument in bytes.
  int arg_size(int index) const { return bytes(api_->inputs[index]); }
  const char *GetArgName(int index) const { return name_of(api_->inputs, num_args(), index); }
  /// Position of an argument by its name in the SavedModel's signature; -1 if there is none.
  int LookupArgIndex(const std::string &name) const { return find(api_->inputs, num_args(), name); }

  // --- results: dense, row-major, valid after Run returned true ---

  void **results() { return results_.data(); }
  const void *const *results() const { return results_.data(); }
  void *result_data(std::size_t index) { return results_[index]; }
  const void *result_data(std::size_t index) const { return results_[index]; }

  int num_results() const { return static_cast<int>(api_->num_outputs); }
  int result_size(int index) const { return bytes(api_->outputs[index]); }
  const char *GetResultName(int index) const { return name_of(api_->outputs, num_results(), index); }
  int LookupResultIndex(const std::string &name) const { return find(api_->outputs, num_results(), name); }

  // --- variables: what Run reads and changes; a Run that fails leaves them as they were ---

  void *variable_data(std::size_t index) { return variables_[index]; }
  const void *variable_data(std::size_t index) const { return variables_[index]; }
  /// Makes Run read and change a variable in the caller's memory, of any alignment, until it is set again.
  void set_variable_data(std::size_t index, void *data) { variables_[index] = data; }
  int variable_size(int index) const { return bytes(api_->states[index]); }

  /// Puts the variables back to what they are in a new object. (tfcompile's classes have no values to begin with.)
  void reset() {
    if (variables_.empty()) return;
    check(*api_, instance_.get(), api_->reset(instance_.get()));
    check(*api_, instance_.get(), api_->get_state(instance_.get(), variables_.data()));
  }

  int num_variables() const { return static_cast<int>(variables_.size()); }
  const char *GetVariableName(int index) const { return name_of(api_->states, num_variables(), index); }
  int LookupVariableIndex(const std::string &name) const { return find(api_->states, num_variables(), name); }

  // --- in tfcompile's classes only: no model here has any of it ---

  bool HasNameIndices() const { return true; }
  const std::int64_t *profile_counters() const { return nullptr; }
  bool hlo_profiling_enabled() const { return false; }

 private:
  void allocate(const modelwheel_tensor *tensors, std::size_t count, std::vector<void *> &pointers) {
    for (std::size_t i = 0; i < count; ++i) {
      memory_.emplace_back(tensor_bytes(tensors[i], batch_size_));
      pointers.push_back(memory_.back().data());
    }
  }

  int bytes(const modelwheel_tensor &tensor) const { return static_cast<int>(tensor_bytes(tensor, batch_size_)); }

  static const char *name_of(const modelwheel_tensor *tensors, int count, int index) {
    return index >= 0 && index < count ? tensors[index].name : nullptr;
  }

  static int find(const modelwheel_tensor *tensors, int count, const std::string &name) {
    for (int i = 0; i < count; ++i)
      if (name == tensors[i].name) return i;
    return -1;
  }

  const modelwheel_api *api_;
  std::size_t batch_size_;
  std::shared_ptr<modelwheel_model> instance_;
  std::vector<AlignedVector<std::byte>> memory_;
  std::vector<void *> args_;
  std::vector<void *> results_;
  std::vector<void *> variables_;
  std::string error_msg_;
};

}  // namespace modelwheel

// Members that a derived class offers for argument or result `index`, whose StaticTensor it calls Arg0, Result0, ...
// They are named by `suffix`: 0 gives arg0(i, j), arg0_data(), set_arg0_data(p), arg0_size() and arg0_count().
#define MODELWHEEL_ARG(suffix, index)                                          \
  void set_arg##suffix##_data(const void *data) { set_arg_data(index, data); } \
  MODELWHEEL_ACCESSORS(arg##suffix, Arg##index, arg_data(index))

#define MODELWHEEL_RESULT(suffix, index) MODELWHEEL_ACCESSORS(result##suffix, Result##index, result_data(index))

#define MODELWHEEL_VARIABLE(suffix, index)                                    \
  void set_var##suffix##_data(void *data) { set_variable_data(index, data); } \
  MODELWHEEL_ACCESSORS(var##suffix, Variable##index, variable_data(index))

#define MODELWHEEL_ACCESSORS(name, Tensor, memory)                                                          \
  Tensor::Element *name##_data() { return static_cast<Tensor::Element *>(memory); }                         \
  const Tensor::Element *name##_data() const { return static_cast<const Tensor::Element *>(memory); }       \
  template <class... Index>                                                                                 \
  Tensor::Element &name(Index... index) {                                                                   \
    return name##_data()[Tensor::offset(index...)];                                                         \
  }                                                                                                         \
  template <class... Index>                                                                                 \
  const Tensor::Element &name(Index... index) const {                                                       \
    return name##_data()[Tensor::offset(index...)];                                                         \
  }                                                                                                         \
  static constexpr int name##_size() { return static_cast<int>(sizeof(Tensor::Element) * Tensor::kCount); } \
  static constexpr int name##_count() { return static_cast<int>(Tensor::kCount); }

#endif  // MODELWHEEL_COMPILED_FUNCTION_HPP
