// src/model.cpp - running instances: composing batches, staging buffers; batch rules.
//
// Uses neither exceptions nor the C++ library: a model's library needs only libc and libm.
#include "model.h"

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "instance.h"
#include "sentence.h"

namespace modelwheel {
namespace {

// --- running ----------------------------------------------------------------------------------------------

/// Decides which compiled length serves arrays of `length`; 0 stands for the largest.
void choose_length(modelwheel_model *model, size_t length) {
  if (length == 0 || api.num_lengths == 0) {
    const size_t largest = api.num_lengths == 0 ? 0 : api.lengths[api.num_lengths - 1];
    model->lengths = {largest, largest};
    model->variants = largest_variants(*model->level);
    return;
  }
  const size_t index = modelwheel::find_length(length);
  model->lengths = {length, api.lengths[index]};
  model->variants = model->level->variants + index * api.num_batch_sizes;
}

/// Rows of the buffers that one variant runs: `count` <= variant.batch_size of `total`, after the first `done`.
struct Rows {
  size_t done, count, total;
};

modelwheel_status run_chunk(modelwheel_model *model, const Variant &variant, const Rows &rows, const Sources &inputs,
                            void *const *outputs) {
  const modelwheel::Chunk chunk{variant, model->lengths, model->arena, rows.done, rows.count, rows.total};
  bind_inputs(chunk, inputs, model->inputs);
  bind_outputs(chunk, outputs, model->outputs);
  model->state.begin_run(model->inputs + api.num_inputs);
  if (!variant.run(model->inputs, model->outputs, model->arena, model->threads, static_cast<std::int64_t>(rows.count)))
    return fail(model, MODELWHEEL_INTERNAL, "a compiled kernel of %s reported a failure", api.name);
  copy_staged_outputs(chunk, model->outputs, outputs);
  model->state.end_run();
  return MODELWHEEL_OK;
}

/// A batch size, by its index, that is run several times in a row; the last time with so many rows, which may be fewer.
struct Repeated {
  size_t index, times, last;
};

/// Walks the batch sizes that some number of rows is composed of.
class Composition {
 public:
  Composition(const modelwheel_model *model, size_t rows)
      : model_(model), rule_(model->rules.find(rows)), total_(rows), left_(rows) {}

  bool done() const { return left_ == 0; }

  /// Index of the next batch size.
  size_t next() {
    const size_t index = choose();
    take(index, 1);
    return index;
  }

  /// The next batch size with as many repetitions as are known without walking through them.
  Repeated next_repeated() {
    const size_t index = choose();
    size_t times = 1;
    if (!is_listed() && model_->strategy == Strategy::kSmallest) times = (left_ - 1) / api.batch_sizes[index] + 1;
    if (!is_listed() && model_->strategy == Strategy::kCheapest) times = model_->planner.repetitions(left_);
    return {index, times, take(index, times)};
  }

 private:
  /// Whether each size is looked up, not computed.
  bool is_listed() const { return api.no_emulation_reason != nullptr || rule_.num_sizes != 0; }

  size_t choose() const {
    if (api.no_emulation_reason != nullptr) return model_->planner.index_of(total_);
    if (rule_.num_sizes != 0) return rule_.sizes[step_];
    if (model_->strategy == Strategy::kSmallest) return model_->planner.smallest(total_);
    return model_->planner.cheapest(left_);
  }

  /// Returns the rows of the last run.
  size_t take(size_t index, size_t times) {
    const size_t size = api.batch_sizes[index];
    left_ -= (times - 1) * size;  // all but the last are filled
    const size_t last = size < left_ ? size : left_;
    left_ -= last;
    ++step_;
    return last;
  }

  const modelwheel_model *model_;
  const BatchRule rule_;
  size_t total_, left_, step_ = 0;
};

modelwheel_status check_rows(modelwheel_model *model, size_t rows) {
  if (!api.batched && rows != 1)
    return fail(model, MODELWHEEL_INVALID_ARGUMENT,
                "%s has no batch axis and evaluates one input at a time, got %zu rows", api.name, rows);
  if (rows == 0)
    for (size_t i = 0; i < api.num_outputs; ++i)
      if (api.outputs[i].leading_per_row == 0)
        return fail(model, MODELWHEEL_UNSUPPORTED, "%s: output '%s' has a fixed shape: pass at least one row", api.name,
                    api.outputs[i].name);
  if (rows != 0 && api.no_emulation_reason != nullptr && model->planner.index_of(rows) == api.num_batch_sizes)
    return fail(model, MODELWHEEL_UNSUPPORTED, "%s can run only its compiled batch sizes, not %zu rows: %s", api.name,
                rows, api.no_emulation_reason);
  return MODELWHEEL_OK;
}

modelwheel_status check_length(modelwheel_model *model, size_t length) {
  if (api.num_lengths == 0 ? length == 0 : length != 0 && modelwheel::find_length(length) != api.num_lengths)
    return MODELWHEEL_OK;
  if (api.num_lengths == 0)
    return fail(model, MODELWHEEL_INVALID_ARGUMENT, "%s has fixed lengths: pass 0 as the length", api.name);
  return fail(model, MODELWHEEL_INVALID_ARGUMENT, "%s takes lengths from 1 to %zu, got %zu", api.name,
              api.lengths[api.num_lengths - 1], length);
}

modelwheel_status check_buffers(modelwheel_model *model, const Sources &inputs, void *const *outputs) {
  for (size_t i = 0; i < api.num_inputs; ++i)
    if (inputs.is_null(i) && api.inputs[i].row_bytes != 0)
      return fail(model, MODELWHEEL_INVALID_ARGUMENT, "the buffer of input '%s' is null", api.inputs[i].name);
  for (size_t i = 0; i < api.num_outputs; ++i)
    if (outputs == nullptr || (outputs[i] == nullptr && api.outputs[i].row_bytes != 0))
      return fail(model, MODELWHEEL_INVALID_ARGUMENT, "the buffer of output '%s' is null", api.outputs[i].name);
  return MODELWHEEL_OK;
}

modelwheel_status run_sources(modelwheel_model *model, const Rows &asked, size_t length, const Sources &inputs,
                              void *const *outputs, modelwheel_interrupt interrupt, void *context) {
  if (model == nullptr) return MODELWHEEL_INVALID_ARGUMENT;
  const size_t first = asked.done, rows = asked.count, total = asked.total;
  if (first > total || rows > total - first)
    return fail(model, MODELWHEEL_INVALID_ARGUMENT, "%zu rows from number %zu on are not among %zu rows", rows, first,
                total);
  modelwheel_status status = check_length(model, length);
  if (status == MODELWHEEL_OK) status = check_rows(model, rows);
  if (status != MODELWHEEL_OK || rows == 0) return status;
  status = check_buffers(model, inputs, outputs);
  choose_length(model, length);
  size_t done = 0;
  for (Composition composition(model, rows); status == MODELWHEEL_OK && !composition.done();) {
    if (interrupt != nullptr && done != 0 && interrupt(context) != 0)
      return fail(model, MODELWHEEL_INTERRUPTED, "the evaluation of %zu rows was interrupted", rows);
    const Variant &variant = model->variants[composition.next()];
    const size_t left = rows - done;
    const size_t chunk = variant.batch_size < left ? variant.batch_size : left;
    status = run_chunk(model, variant, {first + done, chunk, total}, inputs, outputs);
    done += chunk;
  }
  return status;
}

/// The summed cost of the batch sizes that a number of rows is composed of, each run by so many threads.
double cost_of(const modelwheel_model *model, size_t rows, size_t threads) {
  double cost = 0.0;
  for (Composition composition(model, rows); !composition.done();) {
    const Repeated next = composition.next_repeated();
    const Variant &variant = model->variants[next.index];
    const double saved = variant.shared * (1.0 - 1.0 / static_cast<double>(threads));
    // Steps that threads share compute all rows.
    const double last = threads > 1 ? variant.cost : variant.cost_of(next.last);
    cost += (static_cast<double>(next.times - 1) * variant.cost + last) * (1.0 - saved);
  }
  return cost;
}

/// What it costs to give work to another thread and to wait for it, in the unit of the costs, nanoseconds. An
/// assumption on the safe side: what is split should not get slower.
constexpr double kCostOfThreads = 20000.0;

/// How threads best do a call: the rows of each part, which is all of them where threads share the steps of one run,
/// and the cost of the longest part. Threads that are left over share the steps of each part.
struct Split {
  size_t rows;
  double cost;
};

/// With one thread alone if more save less than a tenth, which estimates do not know.
Split best_split(const modelwheel_model *model, size_t rows, size_t threads) {
  Split best{rows, cost_of(model, rows, 1)};
  if (threads < 2 || rows == 0) return best;
  double lowest = 0.9 * best.cost;
  const bool splits = api.batched && api.no_emulation_reason == nullptr;
  for (size_t most = splits ? threads : 1; most > 0; most /= 2) {
    const size_t part = (rows - 1) / most + 1, parts = (rows - 1) / part + 1;
    const double cost = cost_of(model, part, threads / parts) + kCostOfThreads;
    if (cost > lowest) continue;
    lowest = cost;
    best = {part, cost};
  }
  return best;
}

/// Whether there is memory for so many more words of batch rules. In the caller's memory there is no more than at
/// first.
bool make_room(modelwheel_model *model, size_t words) {
  if (words <= model->rules.room()) return true;
  if (model->owned == nullptr) return false;
  const size_t size = 2 * (model->rules.used() + words);
  auto *memory = static_cast<std::uint32_t *>(allocate(size * sizeof(std::uint32_t), 0));
  if (memory == nullptr) return false;
  model->rules.use_memory(memory, size);
  release(model->owned_rules);
  model->owned_rules = memory;
  return true;
}

/// Whether there is scratch memory of so many bytes for the parts of steps.
bool make_scratch(modelwheel_model *model, size_t bytes) {
  if (bytes <= model->scratch_bytes) return true;
  void *memory = model->owned == nullptr ? nullptr : allocate(bytes + MODELWHEEL_ALIGNMENT - 1, bytes);
  if (memory == nullptr) return false;
  release(model->owned_scratch);
  model->owned_scratch = memory;
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  model->threads.scratch = static_cast<char *>(memory) + (aligned(address) - address);
  model->scratch_bytes = bytes;
  return true;
}

/// Writes text into a buffer as far as there is room, and counts all of it.
class Writer {
 public:
  Writer(char *text, size_t size) : text_(text), room_(size != 0 ? size - 1 : 0) {
    if (size != 0) text_[0] = '\0';
  }

  /// Appends text several times; takes as long as what is written.
  void append(const char *part, size_t bytes, size_t times) {
    for (size_t i = 0; i < times && used_ < room_; ++i) {
      const size_t written = bytes < room_ - used_ ? bytes : room_ - used_;
      std::memcpy(text_ + used_, part, written);
      used_ += written;
      text_[used_] = '\0';
    }
    length_ = times > (SIZE_MAX - length_) / bytes ? SIZE_MAX : length_ + times * bytes;
  }

  /// Bytes of everything, written or not; SIZE_MAX if that is too large.
  size_t length() const { return length_; }

 private:
  char *text_;
  size_t room_;  // without the terminating null
  size_t used_ = 0, length_ = 0;
};

}  // namespace

modelwheel_status fail(modelwheel_model *model, modelwheel_status status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  format_sentence(model->error, sizeof model->error, format, arguments);
  va_end(arguments);
  return status;
}

State &state_of(modelwheel_model *model) { return model->state; }

const State &state_of(const modelwheel_model *model) { return model->state; }

const char *level(const modelwheel_model *model) { return model == nullptr ? "" : model->level->name; }

const char *error(const modelwheel_model *model) { return model == nullptr ? "the instance is null" : model->error; }

modelwheel_status run(modelwheel_model *model, size_t rows, const void *const *inputs, void *const *outputs) {
  return run_interruptible(model, rows, inputs, outputs, nullptr, nullptr);
}

modelwheel_status run_interruptible(modelwheel_model *model, size_t rows, const void *const *inputs,
                                    void *const *outputs, modelwheel_interrupt interrupt, void *context) {
  const size_t largest = api.num_lengths == 0 ? 0 : api.lengths[api.num_lengths - 1];
  return run_length(model, rows, largest, inputs, outputs, interrupt, context);
}

modelwheel_status run_length(modelwheel_model *model, size_t rows, size_t length, const void *const *inputs,
                             void *const *outputs, modelwheel_interrupt interrupt, void *context) {
  return run_part(model, 0, rows, rows, length, inputs, outputs, interrupt, context);
}

modelwheel_status run_part(modelwheel_model *model, size_t first, size_t rows, size_t total, size_t length,
                           const void *const *inputs, void *const *outputs, modelwheel_interrupt interrupt,
                           void *context) {
  return run_sources(model, {first, rows, total}, length, {inputs, nullptr}, outputs, interrupt, context);
}

modelwheel_status run_views(modelwheel_model *model, size_t first, size_t rows, size_t total, size_t length,
                            const modelwheel_view *inputs, void *const *outputs, modelwheel_interrupt interrupt,
                            void *context) {
  return run_sources(model, {first, rows, total}, length, {nullptr, inputs}, outputs, interrupt, context);
}

size_t rows_per_thread(modelwheel_model *model, size_t rows, size_t length, size_t threads) {
  if (model == nullptr || check_rows(model, rows) != MODELWHEEL_OK || check_length(model, length) != MODELWHEEL_OK)
    return rows;
  choose_length(model, length);
  return best_split(model, rows, threads).rows;
}

double estimate(modelwheel_model *model, size_t rows, size_t length, size_t threads) {
  if (model == nullptr || check_rows(model, rows) != MODELWHEEL_OK || check_length(model, length) != MODELWHEEL_OK)
    return 0.0;
  choose_length(model, length);
  return best_split(model, rows, threads).cost;
}

modelwheel_status set_threads(modelwheel_model *model, size_t threads, modelwheel_parallel_for parallel_for,
                              void *context) {
  if (model == nullptr) return MODELWHEEL_INVALID_ARGUMENT;
  Threads &own = model->threads;
  own.count = 1;
  if (threads < 2 || own.part_bytes == 0) return MODELWHEEL_OK;
  if (parallel_for == nullptr)
    return fail(model, MODELWHEEL_INVALID_ARGUMENT, "the function that runs the parts of %zu threads is null", threads);
  const size_t count = threads < kMostThreads ? threads : kMostThreads;
  if (!make_scratch(model, count * own.part_bytes))
    return fail(model, MODELWHEEL_OUT_OF_MEMORY, "there is no memory for %zu threads of this instance", count);
  own.count = count;
  own.run = parallel_for;
  own.context = context;
  return MODELWHEEL_OK;
}

modelwheel_status run_batch_size(modelwheel_model *model, size_t batch_size, const void *const *inputs,
                                 void *const *outputs) {
  if (model == nullptr) return MODELWHEEL_INVALID_ARGUMENT;
  const size_t index = model->planner.index_of(batch_size);
  if (index == api.num_batch_sizes)
    return fail(model, MODELWHEEL_INVALID_ARGUMENT, "%s was not compiled for batch size %zu", api.name, batch_size);
  const Sources sources{inputs, nullptr};
  const modelwheel_status status = check_buffers(model, sources, outputs);
  if (status != MODELWHEEL_OK) return status;
  choose_length(model, 0);
  return run_chunk(model, model->variants[index], {0, batch_size, batch_size}, sources, outputs);
}

modelwheel_status set_batch_rule(modelwheel_model *model, const char *text) {
  if (model == nullptr) return MODELWHEEL_INVALID_ARGUMENT;
  if (text == nullptr) return fail(model, MODELWHEEL_INVALID_ARGUMENT, "the batch rule is null");
  if (!make_room(model, rule_words(text)))
    return fail(model, MODELWHEEL_OUT_OF_MEMORY, "the memory of this instance has no room for the batch rule '%s'",
                Quoted(text).text());
  const RuleProblem problem = parse_rule(text, api.batch_sizes, api.num_batch_sizes, model->rules.next());
  if (problem != nullptr)
    return fail(model, MODELWHEEL_INVALID_ARGUMENT, "%s, but the rule is '%s'", problem, Quoted(text).text());
  if (api.no_emulation_reason != nullptr && read_rule(model->rules.next()).num_sizes != 1)
    return fail(model, MODELWHEEL_UNSUPPORTED, "%s can run only its compiled batch sizes: %s", api.name,
                api.no_emulation_reason);
  model->rules.keep();
  return MODELWHEEL_OK;
}

modelwheel_status set_batch_strategy(modelwheel_model *model, const char *strategy) {
  if (model == nullptr) return MODELWHEEL_INVALID_ARGUMENT;
  if (strategy != nullptr && std::strcmp(strategy, "cheapest") == 0) {
    model->strategy = Strategy::kCheapest;
  } else if (strategy != nullptr && std::strcmp(strategy, "smallest") == 0) {
    model->strategy = Strategy::kSmallest;
  } else {
    return fail(model, MODELWHEEL_INVALID_ARGUMENT, "the batch strategy '%s' is neither 'cheapest' nor 'smallest'",
                strategy == nullptr ? "(null)" : Quoted(strategy).text());
  }
  return MODELWHEEL_OK;
}

modelwheel_status batch_rule(modelwheel_model *model, size_t rows, char *text, size_t size, size_t *length) {
  if (length != nullptr) *length = 0;
  Writer writer(text, text != nullptr ? size : 0);
  if (model == nullptr) return MODELWHEEL_INVALID_ARGUMENT;
  const modelwheel_status status = check_rows(model, rows);
  if (status != MODELWHEEL_OK) return status;
  if (text == nullptr && size != 0) return fail(model, MODELWHEEL_INVALID_ARGUMENT, "the buffer of the rule is null");
  char part[24];
  const auto append = [&](const char *format, size_t number, size_t times) {
    const int bytes = std::snprintf(part, sizeof part, format, number);
    writer.append(part, static_cast<size_t>(bytes), times);
  };
  append("%zu", rows, 1);
  const char *first = ":%zu";
  for (Composition composition(model, rows); !composition.done(); first = ",%zu") {
    const Repeated next = composition.next_repeated();
    append(first, api.batch_sizes[next.index], 1);
    if (next.times > 1) append(",%zu", api.batch_sizes[next.index], next.times - 1);
  }
  if (length != nullptr) *length = writer.length();
  return MODELWHEEL_OK;
}

}  // namespace modelwheel
