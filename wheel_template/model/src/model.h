// src/model.h - the functions behind modelwheel_api; contracts are in modelwheel/abi.h.
#pragma once

#include "modelwheel/abi.h"

namespace modelwheel {

modelwheel_status create(const char *level, modelwheel_model **model, char *error, size_t error_size);
size_t instance_bytes(const char *level);
modelwheel_status create_in(void *memory, size_t bytes, const char *level, modelwheel_model **model, char *error,
                            size_t error_size);
void destroy(modelwheel_model *model);
const char *level(const modelwheel_model *model);
const char *error(const modelwheel_model *model);
modelwheel_status run(modelwheel_model *model, size_t rows, const void *const *inputs, void *const *outputs);
modelwheel_status run_batch_size(modelwheel_model *model, size_t batch_size, const void *const *inputs,
                                 void *const *outputs);
modelwheel_status set_batch_rule(modelwheel_model *model, const char *rule);
modelwheel_status set_batch_strategy(modelwheel_model *model, const char *strategy);
modelwheel_status run_interruptible(modelwheel_model *model, size_t rows, const void *const *inputs,
                                    void *const *outputs, modelwheel_interrupt interrupt, void *context);
modelwheel_status run_length(modelwheel_model *model, size_t rows, size_t length, const void *const *inputs,
                             void *const *outputs, modelwheel_interrupt interrupt, void *context);
modelwheel_status run_part(modelwheel_model *model, size_t first, size_t rows, size_t total, size_t length,
                           const void *const *inputs, void *const *outputs, modelwheel_interrupt interrupt,
                           void *context);
modelwheel_status run_views(modelwheel_model *model, size_t first, size_t rows, size_t total, size_t length,
                            const modelwheel_view *inputs, void *const *outputs, modelwheel_interrupt interrupt,
                            void *context);
size_t rows_per_thread(modelwheel_model *model, size_t rows, size_t length, size_t threads);
modelwheel_status set_threads(modelwheel_model *model, size_t threads, modelwheel_parallel_for parallel_for,
                              void *context);
double estimate(modelwheel_model *model, size_t rows, size_t length, size_t threads);
modelwheel_status reset(modelwheel_model *model);
modelwheel_status get_state(modelwheel_model *model, void *const *buffers);
modelwheel_status set_state(modelwheel_model *model, const void *const *buffers);
modelwheel_status copy_state(modelwheel_model *model, const modelwheel_model *from);
modelwheel_status batch_rule(modelwheel_model *model, size_t rows, char *text, size_t size, size_t *length);

}  // namespace modelwheel
