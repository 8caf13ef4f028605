// src/state.cpp - reading, setting and resetting the state of instances.
#include "state.h"

#include <cstring>

#include "memory.h"
#include "model.h"
#include "program.h"

namespace modelwheel {
namespace {

std::size_t copy_bytes() { return state_bytes(api.states, api.num_states); }

/// For each tensor, with its place in one copy of the state.
template <class Visit>
void for_each(char *copy, const Visit &visit) {
  for (std::size_t i = 0; i < api.num_states; ++i) {
    visit(i, copy, api.states[i].row_bytes);
    copy += aligned(api.states[i].row_bytes);
  }
}

}  // namespace

void State::use_memory(char *memory) {
  current_ = memory;
  next_ = memory + copy_bytes();
}

void State::reset() {
  for_each(current_, [](std::size_t i, char *place, std::size_t bytes) {
    if (bytes != 0) std::memcpy(place, modelwheel_weights + tables.first_state[i], bytes);
  });
}

void State::copy(const State &other) {
  if (this != &other && copy_bytes() != 0) std::memcpy(current_, other.current_, copy_bytes());
}

void State::read(void *const *buffers) const {
  for_each(current_, [buffers](std::size_t i, const char *place, std::size_t bytes) {
    if (buffers[i] != nullptr && bytes != 0) std::memcpy(buffers[i], place, bytes);
  });
}

void State::write(const void *const *buffers) {
  for_each(current_, [buffers](std::size_t i, char *place, std::size_t bytes) {
    if (buffers[i] != nullptr && bytes != 0) std::memcpy(place, buffers[i], bytes);
  });
}

void State::begin_run(const void **pointers) {
  if (copy_bytes() != 0) std::memcpy(next_, current_, copy_bytes());
  for_each(next_, [pointers](std::size_t i, const char *place, std::size_t) { pointers[i] = place; });
}

void State::end_run() {
  char *before = current_;
  current_ = next_;
  next_ = before;
}

modelwheel_status reset(modelwheel_model *model) {
  if (model == nullptr) return MODELWHEEL_INVALID_ARGUMENT;
  state_of(model).reset();
  return MODELWHEEL_OK;
}

modelwheel_status get_state(modelwheel_model *model, void *const *buffers) {
  if (model == nullptr) return MODELWHEEL_INVALID_ARGUMENT;
  if (api.num_states != 0 && buffers == nullptr)
    return fail(model, MODELWHEEL_INVALID_ARGUMENT, "the list of buffers for the state is null");
  state_of(model).read(buffers);
  return MODELWHEEL_OK;
}

modelwheel_status set_state(modelwheel_model *model, const void *const *buffers) {
  if (model == nullptr) return MODELWHEEL_INVALID_ARGUMENT;
  if (api.num_states != 0 && buffers == nullptr)
    return fail(model, MODELWHEEL_INVALID_ARGUMENT, "the list of buffers with the state is null");
  state_of(model).write(buffers);
  return MODELWHEEL_OK;
}

modelwheel_status copy_state(modelwheel_model *model, const modelwheel_model *from) {
  if (model == nullptr) return MODELWHEEL_INVALID_ARGUMENT;
  if (from == nullptr) return fail(model, MODELWHEEL_INVALID_ARGUMENT, "the instance to copy the state of is null");
  state_of(model).copy(state_of(from));
  return MODELWHEEL_OK;
}

}  // namespace modelwheel
