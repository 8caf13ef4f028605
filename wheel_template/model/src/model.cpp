// src/model.cpp - instances: choosing a level, owning memory, composing batches, staging buffers.
//
// Uses neither exceptions nor the C++ library: a model's library needs only libc and libm.
#include "model.h"

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "batching.h"
#include "cpu_level.h"
#include "program.h"
#include "sentence.h"
#include "staging.h"
#include "state.h"

using modelwheel::api;
using modelwheel::BatchPlanner;
using modelwheel::BatchRule;
using modelwheel::CallLengths;
using modelwheel::Level;
using modelwheel::Quoted;
using modelwheel::Strategy;
using modelwheel::tables;
using modelwheel::Variant;

struct modelwheel_model {
  const Level *level;
  char *arena;  // aligned; shared by all batch sizes, which run one after the other
  modelwheel::State state;
  const void **inputs;  // buffers of the running variant: inputs, then the state
  void **outputs;
  const Variant *variants;  // of the running length
  CallLengths lengths;
  BatchPlanner planner;
  Strategy strategy;
  BatchRule *rules;
  size_t num_rules;
  char error[256];
};

namespace modelwheel {
namespace {

constexpr size_t aligned(size_t bytes) {
  return (bytes + MODELWHEEL_ALIGNMENT - 1) & ~size_t{MODELWHEEL_ALIGNMENT - 1};
}

// --- creation ---------------------------------------------------------------------------------------------

const Level *find_level(const char *name) {
  for (size_t i = 0; i < api.num_levels; ++i)
    if (std::strcmp(api.levels[i], name) == 0) return &tables.levels[i];
  return nullptr;
}

const Level *highest_supported_level() {
  for (size_t i = api.num_levels; i-- > 0;)
    if (cpu_supports(api.levels[i])) return &tables.levels[i];
  return nullptr;
}

/// Writes "a, b, c" with all levels of the library.
void list_levels(char *text, size_t size) {
  size_t used = 0;
  text[0] = '\0';
  for (size_t i = 0; i < api.num_levels && used < size; ++i)
    used += static_cast<size_t>(std::snprintf(text + used, size - used, i == 0 ? "%s" : ", %s", api.levels[i]));
}

/// Null, with a sentence in `error`, if there is no level to run.
const Level *choose_level(const char *requested, char *error, size_t error_size) {
  const char *origin = "";
  if (requested == nullptr || *requested == '\0') {
    requested = std::getenv("MODELWHEEL_LEVEL");
    origin = " (from MODELWHEEL_LEVEL)";
  }
  char known[128];
  list_levels(known, sizeof known);
  if (requested == nullptr || *requested == '\0') {
    const Level *level = highest_supported_level();
    if (level == nullptr)
      write_sentence(error, error_size, "%s has code for %s; this CPU supports none of these levels", api.name, known);
    return level;
  }
  const Level *level = find_level(requested);
  if (level == nullptr) {
    write_sentence(error, error_size, "%s has no code for CPU level '%s'%s; it has: %s", api.name,
                   Quoted(requested).text(), origin, known);
  } else if (!cpu_supports(level->name)) {
    const Level *best = highest_supported_level();
    write_sentence(error, error_size, "this CPU cannot run level '%s'%s; the highest it can run here is: %s",
                   level->name, origin, best == nullptr ? "none" : best->name);
    level = nullptr;
  }
  return level;
}

/// The variants of the largest length, which are all variants of models without lengths.
const Variant *largest_variants(const Level &level) {
  return level.variants + (api.num_lengths == 0 ? 0 : (api.num_lengths - 1) * api.num_batch_sizes);
}

size_t arena_bytes(const Level &level) {
  size_t bytes = 0;
  for (size_t i = 0; i < api.num_batch_sizes * (api.num_lengths == 0 ? 1 : api.num_lengths); ++i)
    if (level.variants[i].arena_bytes > bytes) bytes = level.variants[i].arena_bytes;
  return aligned(bytes);
}

/// Allocates an instance with everything that `run` will ever need, in one piece.
modelwheel_model *allocate(const Level &level, size_t plan_size) {
  const size_t head = aligned(sizeof(modelwheel_model));
  const size_t num_inputs = api.num_inputs + api.num_states;
  const size_t pointers = aligned((num_inputs + api.num_outputs) * sizeof(void *));
  const size_t arena = arena_bytes(level);
  const size_t plan = aligned(plan_size * sizeof(std::uint16_t));
  void *memory = std::malloc(head + pointers + arena + plan + State::bytes() + MODELWHEEL_ALIGNMENT);
  if (memory == nullptr) return nullptr;

  auto *model = static_cast<modelwheel_model *>(memory);
  *model = {};
  model->level = &level;
  char *next = static_cast<char *>(memory) + head;
  model->inputs = reinterpret_cast<const void **>(next);
  model->outputs = reinterpret_cast<void **>(next) + num_inputs;
  next += pointers;
  next += aligned(reinterpret_cast<std::uintptr_t>(next)) - reinterpret_cast<std::uintptr_t>(next);
  model->arena = next;
  model->state.use_memory(next + arena + plan);
  return model;
}

/// Gives the planner the cost of each size; the plan's table is stored behind the arena.
bool plan_batches(modelwheel_model *model, const double *costs, size_t plan_size) {
  auto *scratch = static_cast<double *>(std::malloc(plan_size * sizeof(double)));
  if (scratch == nullptr) return false;
  auto *table = reinterpret_cast<std::uint16_t *>(model->arena + arena_bytes(*model->level));
  model->planner.plan(api.batch_sizes, costs, api.num_batch_sizes, table, scratch);
  std::free(scratch);
  return true;
}

void seed_random_states(modelwheel_model *model) {
  for (size_t i = 0; i < tables.random_states; ++i) {
    const std::uint64_t state[2] = {kInitialRandomState, 0};
    std::memcpy(model->arena + i * sizeof state, state, sizeof state);
  }
}

modelwheel_status apply_defaults(modelwheel_model *model) {
  modelwheel_status status = set_batch_strategy(model, tables.strategy);
  for (size_t i = 0; i < tables.num_rules && status == MODELWHEEL_OK; ++i)
    status = set_batch_rule(model, tables.rules[i]);
  return status;
}

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

/// Runs `rows` <= variant.batch_size rows, which begin after `done` rows in the buffers.
modelwheel_status run_chunk(modelwheel_model *model, const Variant &variant, size_t done, size_t rows,
                            const void *const *inputs, void *const *outputs) {
  const modelwheel::Chunk chunk{variant, model->lengths, model->arena, done, rows};
  bind_inputs(chunk, inputs, model->inputs);
  bind_outputs(chunk, outputs, model->outputs);
  model->state.begin_run(model->inputs + api.num_inputs);
  if (!variant.run(model->inputs, model->outputs, model->arena))
    return fail(model, MODELWHEEL_INTERNAL, "a compiled kernel of %s reported a failure", api.name);
  copy_staged_outputs(chunk, model->outputs, outputs);
  model->state.end_run();
  return MODELWHEEL_OK;
}

const BatchRule *find_rule(const modelwheel_model *model, size_t rows) {
  for (size_t i = 0; i < model->num_rules; ++i)
    if (model->rules[i].rows == rows) return &model->rules[i];
  return nullptr;
}

/// A batch size, by its index, that is run several times in a row.
struct Repeated {
  size_t index, times;
};

/// Walks the batch sizes that some number of rows is composed of.
class Composition {
 public:
  Composition(const modelwheel_model *model, size_t rows)
      : model_(model), rule_(find_rule(model, rows)), total_(rows), left_(rows) {}

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
    take(index, times);
    return {index, times};
  }

 private:
  /// Whether each size is looked up, not computed.
  bool is_listed() const { return api.no_emulation_reason != nullptr || rule_ != nullptr; }

  size_t choose() const {
    if (api.no_emulation_reason != nullptr) return model_->planner.index_of(total_);
    if (rule_ != nullptr) return rule_->sizes[step_];
    if (model_->strategy == Strategy::kSmallest) return model_->planner.smallest(total_);
    return model_->planner.cheapest(left_);
  }

  void take(size_t index, size_t times) {
    const size_t size = api.batch_sizes[index];
    left_ -= (times - 1) * size;  // all but the last are filled
    left_ -= size < left_ ? size : left_;
    ++step_;
  }

  const modelwheel_model *model_;
  const BatchRule *rule_;
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

modelwheel_status check_buffers(modelwheel_model *model, const void *const *inputs, void *const *outputs) {
  for (size_t i = 0; i < api.num_inputs; ++i)
    if (inputs == nullptr || (inputs[i] == nullptr && api.inputs[i].row_bytes != 0))
      return fail(model, MODELWHEEL_INVALID_ARGUMENT, "the buffer of input '%s' is null", api.inputs[i].name);
  for (size_t i = 0; i < api.num_outputs; ++i)
    if (outputs == nullptr || (outputs[i] == nullptr && api.outputs[i].row_bytes != 0))
      return fail(model, MODELWHEEL_INVALID_ARGUMENT, "the buffer of output '%s' is null", api.outputs[i].name);
  return MODELWHEEL_OK;
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

modelwheel_status create(const char *level_name, modelwheel_model **model, char *error_text, size_t error_size) {
  char unread[1];
  if (error_text == nullptr || error_size == 0) {
    error_text = unread;
    error_size = sizeof unread;
  }
  if (model == nullptr) {
    write_sentence(error_text, error_size, "the address for the new instance is null");
    return MODELWHEEL_INVALID_ARGUMENT;
  }
  *model = nullptr;
  const Level *chosen = choose_level(level_name, error_text, error_size);
  if (chosen == nullptr) return MODELWHEEL_UNSUPPORTED;

  auto *costs = static_cast<double *>(std::malloc(api.num_batch_sizes * sizeof(double)));
  modelwheel_model *made = nullptr;
  modelwheel_status status = MODELWHEEL_OUT_OF_MEMORY;
  if (costs != nullptr) {
    for (size_t i = 0; i < api.num_batch_sizes; ++i) costs[i] = largest_variants(*chosen)[i].cost;
    const size_t plan_size = BatchPlanner::table_size(api.batch_sizes, costs, api.num_batch_sizes);
    made = allocate(*chosen, plan_size);
    if (made != nullptr && plan_batches(made, costs, plan_size)) {
      seed_random_states(made);
      made->state.reset();
      status = apply_defaults(made);
    }
    std::free(costs);
  }
  if (status != MODELWHEEL_OK) {
    const bool explained = made != nullptr && made->error[0] != '\0';
    write_sentence(error_text, error_size, "%s", explained ? made->error : "out of memory");
    destroy(made);
    return status;
  }
  error_text[0] = '\0';  // not before: `level_name` may be in the same memory
  *model = made;
  return MODELWHEEL_OK;
}

void destroy(modelwheel_model *model) {
  if (model == nullptr) return;
  for (size_t i = 0; i < model->num_rules; ++i) std::free(model->rules[i].sizes);
  std::free(model->rules);
  std::free(model);
}

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
  if (model == nullptr) return MODELWHEEL_INVALID_ARGUMENT;
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
    status = run_chunk(model, variant, done, chunk, inputs, outputs);
    done += chunk;
  }
  return status;
}

modelwheel_status run_batch_size(modelwheel_model *model, size_t batch_size, const void *const *inputs,
                                 void *const *outputs) {
  if (model == nullptr) return MODELWHEEL_INVALID_ARGUMENT;
  const size_t index = model->planner.index_of(batch_size);
  if (index == api.num_batch_sizes)
    return fail(model, MODELWHEEL_INVALID_ARGUMENT, "%s was not compiled for batch size %zu", api.name, batch_size);
  const modelwheel_status status = check_buffers(model, inputs, outputs);
  if (status != MODELWHEEL_OK) return status;
  choose_length(model, 0);
  return run_chunk(model, model->variants[index], 0, batch_size, inputs, outputs);
}

modelwheel_status set_batch_rule(modelwheel_model *model, const char *text) {
  if (model == nullptr) return MODELWHEEL_INVALID_ARGUMENT;
  if (text == nullptr) return fail(model, MODELWHEEL_INVALID_ARGUMENT, "the batch rule is null");
  BatchRule rule;
  const RuleProblem problem = parse_rule(text, api.batch_sizes, api.num_batch_sizes, rule);
  if (problem != nullptr)
    return fail(model, MODELWHEEL_INVALID_ARGUMENT, "%s, but the rule is '%s'", problem, Quoted(text).text());
  if (api.no_emulation_reason != nullptr && rule.num_sizes != 1) {
    std::free(rule.sizes);
    return fail(model, MODELWHEEL_UNSUPPORTED, "%s can run only its compiled batch sizes: %s", api.name,
                api.no_emulation_reason);
  }
  for (size_t i = 0; i < model->num_rules; ++i)
    if (model->rules[i].rows == rule.rows) {
      std::free(model->rules[i].sizes);
      model->rules[i] = rule;
      return MODELWHEEL_OK;
    }
  void *rules = std::realloc(model->rules, (model->num_rules + 1) * sizeof(BatchRule));
  if (rules == nullptr) {
    std::free(rule.sizes);
    return fail(model, MODELWHEEL_OUT_OF_MEMORY, "out of memory");
  }
  model->rules = static_cast<BatchRule *>(rules);
  model->rules[model->num_rules++] = rule;
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
