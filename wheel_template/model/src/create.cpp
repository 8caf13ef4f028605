// src/create.cpp - creating instances: choosing a level, dividing memory.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "cpu_level.h"
#include "expand.h"
#include "instance.h"
#include "model.h"
#include "sentence.h"

namespace modelwheel {
namespace {

// --- the level --------------------------------------------------------------------------------------------

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

// --- memory -----------------------------------------------------------------------------------------------

CommonMemory common_memory() {
  return {api.num_inputs + api.num_states + api.num_outputs, tables.rules, tables.num_rules, api.states,
          api.num_states};
}

LevelMemory level_memory(const Level &level) {
  return {level.variants, api.num_batch_sizes, api.num_lengths == 0 ? 1 : api.num_lengths};
}

size_t bytes_for(const Level &level) { return common_memory().bytes() + level_memory(level).bytes(); }

/// Makes an instance in bytes_for(level) bytes, as src/memory.h divides them.
modelwheel_model *divide(const Level &level, void *memory) {
  auto *model = static_cast<modelwheel_model *>(memory);
  *model = {};
  model->level = &level;
  char *next = static_cast<char *>(memory);
  const auto take = [&next](size_t bytes) {
    char *const part = next;
    next += bytes;
    return part;
  };
  take(kHeadBytes);
  const CommonMemory common = common_memory();
  const LevelMemory own = level_memory(level);
  model->inputs = reinterpret_cast<const void **>(take(common.pointers));
  model->outputs = const_cast<void **>(model->inputs) + api.num_inputs + api.num_states;
  model->rules.use_memory(reinterpret_cast<std::uint32_t *>(take(common.rules)), common.rules / sizeof(std::uint32_t));
  model->state.use_memory(take(common.state));
  auto *table = reinterpret_cast<std::uint16_t *>(take(own.plan));
  model->arena = take(own.arena);
  auto *scratch = reinterpret_cast<double *>(model->arena);  // holds nothing yet
  model->threads = {1, nullptr, nullptr, nullptr, own.part};
  model->planner.plan(largest_variants(level), api.num_batch_sizes, table, scratch);
  return model;
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

// --- both ways of creating --------------------------------------------------------------------------------

/// Where a failure is explained; a caller may pass nothing.
struct Explanation {
  char unread[1];
  char *text;
  size_t size;

  Explanation(char *given, size_t given_size) : text(given), size(given_size) {
    if (given != nullptr && given_size != 0) return;
    text = unread;
    size = sizeof unread;
  }
};

/// Null, with a sentence and `status`, if there is nowhere to put the instance or no level to run.
const Level *begin(const char *level_name, modelwheel_model **model, const Explanation &error,
                   modelwheel_status &status) {
  status = MODELWHEEL_INVALID_ARGUMENT;
  if (model == nullptr) {
    write_sentence(error.text, error.size, "the address for the new instance is null");
    return nullptr;
  }
  *model = nullptr;
  if (tables.is_expanded != nullptr && !*tables.is_expanded) *tables.is_expanded = expand_weights();
  status = MODELWHEEL_UNSUPPORTED;
  return choose_level(level_name, error.text, error.size);
}

modelwheel_status finish(const Level &level, void *memory, void *owned, modelwheel_model **model,
                         const Explanation &error) {
  modelwheel_model *made = divide(level, memory);
  made->owned = owned;
  seed_random_states(made);
  made->state.reset();
  const modelwheel_status status = apply_defaults(made);
  if (status != MODELWHEEL_OK) {
    write_sentence(error.text, error.size, "%s", made->error);
    destroy(made);
    return status;
  }
  error.text[0] = '\0';  // not before: the name of the level may be in the same memory
  *model = made;
  return MODELWHEEL_OK;
}

}  // namespace

#ifdef MODELWHEEL_STATIC_ARENA
void *allocate(size_t, size_t) { return nullptr; }
void release(void *) {}
#else
void *allocate(size_t bytes, size_t used) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  // A core knows where some thousand pages are. Of more memory than these, pages should be large.
  constexpr size_t kLargePage = size_t{2} << 20;
  void *memory = nullptr;
  if (used >= 2 * kLargePage) {
    if (posix_memalign(&memory, kLargePage, bytes) != 0) return nullptr;
    madvise(memory, bytes, MADV_HUGEPAGE);  // a system that has none leaves the memory as it is
    return memory;
  }
#endif
  return std::malloc(bytes);
}
void release(void *memory) { std::free(memory); }
#endif

size_t instance_bytes(const char *level_name) {
  size_t largest = 0;
  for (size_t i = 0; i < api.num_levels; ++i) {
    const Level &level = tables.levels[i];
    if (level_name != nullptr && std::strcmp(level.name, level_name) != 0) continue;
    const size_t bytes = bytes_for(level);
    if (bytes > largest) largest = bytes;
  }
  return largest;
}

modelwheel_status create(const char *level_name, modelwheel_model **model, char *error_text, size_t error_size) {
  const Explanation error(error_text, error_size);
  modelwheel_status status;
  const Level *level = begin(level_name, model, error, status);
  if (level == nullptr) return status;
#ifdef MODELWHEEL_STATIC_ARENA
  write_sentence(error.text, error.size, "this library of %s allocates no memory: use create_in", api.name);
  return MODELWHEEL_UNSUPPORTED;
#endif
  // What only larger batches need stays untouched until they come.
  const size_t smallest = level->variants[0].arena_bytes;
  void *owned = allocate(bytes_for(*level) + MODELWHEEL_ALIGNMENT - 1, smallest);
  if (owned == nullptr) {
    write_sentence(error.text, error.size, "out of memory");
    return MODELWHEEL_OUT_OF_MEMORY;
  }
  const auto address = reinterpret_cast<std::uintptr_t>(owned);
  return finish(*level, static_cast<char *>(owned) + (aligned(address) - address), owned, model, error);
}

modelwheel_status create_in(void *memory, size_t bytes, const char *level_name, modelwheel_model **model,
                            char *error_text, size_t error_size) {
  const Explanation error(error_text, error_size);
  modelwheel_status status;
  const Level *level = begin(level_name, model, error, status);
  if (level == nullptr) return status;
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  if (memory == nullptr || aligned(address) != address) {
    write_sentence(error.text, error.size, "the memory for an instance must be at a multiple of %d bytes, not at %p",
                   MODELWHEEL_ALIGNMENT, memory);
    return MODELWHEEL_INVALID_ARGUMENT;
  }
  const size_t needed = bytes_for(*level);
  if (bytes < needed) {
    write_sentence(error.text, error.size, "an instance of %s needs %zu bytes at level '%s', got %zu", api.name, needed,
                   level->name, bytes);
    return MODELWHEEL_OUT_OF_MEMORY;
  }
  return finish(*level, memory, nullptr, model, error);
}

void destroy(modelwheel_model *model) {
  if (model == nullptr) return;
  release(model->owned_rules);
  release(model->owned_scratch);
  release(model->owned);
}

}  // namespace modelwheel
