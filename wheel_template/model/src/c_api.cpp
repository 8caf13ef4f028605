// src/c_api.cpp - the exported functions, named after the model: each is one member of modelwheel_api.
//
// MODELWHEEL_PREFIX is the model's module name, e.g. model_digits. MODELWHEEL_HEADER, the rendered model_digits.h,
// declares and documents these functions.
#include MODELWHEEL_HEADER

#include "program.h"

#define JOIN_(prefix, name) prefix##_##name
#define JOIN(prefix, name) JOIN_(prefix, name)
#define EXPORT(type, name) extern "C" MODELWHEEL_EXPORT type JOIN(MODELWHEEL_PREFIX, name)

using modelwheel::api;

EXPORT(const modelwheel_api *, api)(void) { return &api; }

EXPORT(const char *, name)(void) { return api.name; }
EXPORT(const char *, version)(void) { return api.version; }
EXPORT(const char *, about)(void) { return api.about; }

EXPORT(size_t, num_inputs)(void) { return api.num_inputs; }
EXPORT(const modelwheel_tensor *, input)(size_t index) { return index < api.num_inputs ? &api.inputs[index] : nullptr; }
EXPORT(size_t, num_outputs)(void) { return api.num_outputs; }
EXPORT(const modelwheel_tensor *, output)(size_t index) {
  return index < api.num_outputs ? &api.outputs[index] : nullptr;
}

EXPORT(size_t, num_states)(void) { return api.num_states; }
EXPORT(const modelwheel_tensor *, state)(size_t index) { return index < api.num_states ? &api.states[index] : nullptr; }

EXPORT(size_t, num_batch_sizes)(void) { return api.num_batch_sizes; }
EXPORT(const size_t *, batch_sizes)(void) { return api.batch_sizes; }
EXPORT(size_t, num_lengths)(void) { return api.num_lengths; }
EXPORT(const size_t *, lengths)(void) { return api.lengths; }
EXPORT(int, batched)(void) { return api.batched; }
EXPORT(const char *, no_emulation_reason)(void) { return api.no_emulation_reason; }

EXPORT(size_t, num_levels)(void) { return api.num_levels; }
EXPORT(const char *const *, levels)(void) { return api.levels; }

EXPORT(modelwheel_status, create)(const char *level, modelwheel_model **model, char *error, size_t error_size) {
  return api.create(level, model, error, error_size);
}
EXPORT(size_t, instance_bytes)(const char *level) { return api.instance_bytes(level); }
EXPORT(modelwheel_status, create_in)(void *memory, size_t bytes, const char *level, modelwheel_model **model,
                                     char *error, size_t error_size) {
  return api.create_in(memory, bytes, level, model, error, error_size);
}
EXPORT(void, destroy)(modelwheel_model *model) { api.destroy(model); }
EXPORT(const char *, level)(const modelwheel_model *model) { return api.level(model); }
EXPORT(const char *, error)(const modelwheel_model *model) { return api.error(model); }

EXPORT(modelwheel_status, run)(modelwheel_model *model, size_t rows, const void *const *inputs, void *const *outputs) {
  return api.run(model, rows, inputs, outputs);
}
EXPORT(modelwheel_status, run_batch_size)(modelwheel_model *model, size_t batch_size, const void *const *inputs,
                                          void *const *outputs) {
  return api.run_batch_size(model, batch_size, inputs, outputs);
}
EXPORT(modelwheel_status, set_batch_rule)(modelwheel_model *model, const char *rule) {
  return api.set_batch_rule(model, rule);
}
EXPORT(modelwheel_status, set_batch_strategy)(modelwheel_model *model, const char *strategy) {
  return api.set_batch_strategy(model, strategy);
}
EXPORT(modelwheel_status, batch_rule)(modelwheel_model *model, size_t rows, char *text, size_t size, size_t *length) {
  return api.batch_rule(model, rows, text, size, length);
}
EXPORT(modelwheel_status, run_interruptible)(modelwheel_model *model, size_t rows, const void *const *inputs,
                                             void *const *outputs, modelwheel_interrupt interrupt, void *context) {
  return api.run_interruptible(model, rows, inputs, outputs, interrupt, context);
}
EXPORT(modelwheel_status, run_length)(modelwheel_model *model, size_t rows, size_t length, const void *const *inputs,
                                      void *const *outputs, modelwheel_interrupt interrupt, void *context) {
  return api.run_length(model, rows, length, inputs, outputs, interrupt, context);
}
EXPORT(modelwheel_status, run_part)(modelwheel_model *model, size_t first, size_t rows, size_t total, size_t length,
                                    const void *const *inputs, void *const *outputs, modelwheel_interrupt interrupt,
                                    void *context) {
  return api.run_part(model, first, rows, total, length, inputs, outputs, interrupt, context);
}
EXPORT(modelwheel_status, run_views)(modelwheel_model *model, size_t first, size_t rows, size_t total, size_t length,
                                     const modelwheel_view *inputs, void *const *outputs,
                                     modelwheel_interrupt interrupt, void *context) {
  return api.run_views(model, first, rows, total, length, inputs, outputs, interrupt, context);
}
EXPORT(size_t, rows_per_thread)(modelwheel_model *model, size_t rows, size_t length, size_t threads) {
  return api.rows_per_thread(model, rows, length, threads);
}
EXPORT(modelwheel_status, set_threads)(modelwheel_model *model, size_t threads, modelwheel_parallel_for parallel_for,
                                       void *context) {
  return api.set_threads(model, threads, parallel_for, context);
}
EXPORT(double, estimate)(modelwheel_model *model, size_t rows, size_t length, size_t threads) {
  return api.estimate(model, rows, length, threads);
}
EXPORT(modelwheel_status, reset)(modelwheel_model *model) { return api.reset(model); }
EXPORT(modelwheel_status, get_state)(modelwheel_model *model, void *const *buffers) {
  return api.get_state(model, buffers);
}
EXPORT(modelwheel_status, set_state)(modelwheel_model *model, const void *const *buffers) {
  return api.set_state(model, buffers);
}
EXPORT(modelwheel_status, copy_state)(modelwheel_model *model, const modelwheel_model *from) {
  return api.copy_state(model, from);
}
