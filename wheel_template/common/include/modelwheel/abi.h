/* modelwheel/abi.h - the C ABI that every compiled model offers, for C99 and anything that can call C.
 *
 * A model's library exports one function for each member of `modelwheel_api`, prefixed with the model's
 * name (see model_NAME.h), and one that returns the whole table. Bindings for other languages sit on the
 * table, so that one binding serves every model.
 *
 * A library has no mutable global state: all state is in instances. Different instances may be
 * used from different threads at the same time; one instance may be used by one thread at a time.
 * No function starts a thread. Only create, set_batch_rule and set_threads allocate memory, and none does for
 * instances of create_in.
 *
 * A null instance is answered, not used: functions with a status return MODELWHEEL_INVALID_ARGUMENT, `level` returns
 * "", `error` a sentence, and `destroy` does nothing. Sentences are valid UTF-8; text from the caller is quoted in them
 * as printable ASCII, other bytes as \xNN.
 */
#ifndef MODELWHEEL_ABI_H
#define MODELWHEEL_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised when a member of a struct below changes its meaning; new members are appended without raising it. Also the
 * major version of the Python package modelwheel-runtime, which opens libraries of this version. */
#define MODELWHEEL_ABI_VERSION 1

/* Buffers at multiples of this many bytes are used in place; any other buffer is copied, which costs time only. */
#define MODELWHEEL_ALIGNMENT 64

/* The status of a call. After every value except MODELWHEEL_OK, modelwheel_api::error returns a sentence. */
typedef enum modelwheel_status {
  MODELWHEEL_OK = 0,
  MODELWHEEL_INVALID_ARGUMENT = 1, /* a null pointer, an unknown name, a malformed rule */
  MODELWHEEL_UNSUPPORTED = 2,      /* a CPU level that this machine lacks, a batch that cannot be composed */
  MODELWHEEL_OUT_OF_MEMORY = 3,
  MODELWHEEL_INTERNAL = 4,   /* a compiled kernel reported a failure */
  MODELWHEEL_INTERRUPTED = 5 /* the caller of run_interruptible ended the evaluation */
} modelwheel_status;

/* Element types. Values are XLA's PrimitiveType (xla/xla_data.proto). */
typedef enum modelwheel_dtype {
  MODELWHEEL_BOOL = 1,
  MODELWHEEL_INT8 = 2,
  MODELWHEEL_INT16 = 3,
  MODELWHEEL_INT32 = 4,
  MODELWHEEL_INT64 = 5,
  MODELWHEEL_UINT8 = 6,
  MODELWHEEL_UINT16 = 7,
  MODELWHEEL_UINT32 = 8,
  MODELWHEEL_UINT64 = 9,
  MODELWHEEL_FLOAT16 = 10,
  MODELWHEEL_FLOAT32 = 11,
  MODELWHEEL_FLOAT64 = 12,
  MODELWHEEL_COMPLEX64 = 15,
  MODELWHEEL_BFLOAT16 = 16,
  MODELWHEEL_COMPLEX128 = 18
} modelwheel_dtype;

/* One input or output. All pointers live as long as the library is loaded. */
typedef struct modelwheel_tensor {
  const char *name;   /* as in the SavedModel's signature */
  const char *c_name; /* the same as an identifier */
  modelwheel_dtype dtype;
  size_t item_bytes; /* bytes of one element */
  size_t rank;       /* number of axes */
  const int64_t
      *shape; /* `rank` extents, row-major; -1 for the batch axis, which grows with the batch: mostly axis 0 */
  /* Extent of the batch axis for each row of the batch: 1 for the usual [batch, ...], more for [batch * n, ...],
   * 0 for a tensor that does not grow with the batch (its shape is then fixed). */
  size_t leading_per_row;
  size_t row_elements; /* elements for each row of the batch; of the whole tensor where leading_per_row is 0 */
  size_t row_bytes;    /* row_elements * item_bytes */
} modelwheel_tensor;

/* The extent of one axis at a length: fixed + per_length * length. For the batch axis it is the extent for each row. */
typedef struct modelwheel_extent {
  size_t fixed;
  size_t per_length;
} modelwheel_extent;

/* An instance: the memory that one evaluation at a time needs, its batch rules, and the state of a model that has one.
 */
typedef struct modelwheel_model modelwheel_model;

/* Asked by run_interruptible between two batches; anything but 0 ends the evaluation. Must not use the instance. */
typedef int (*modelwheel_interrupt)(void *context);

/* Work in parts, and how the caller has them done on its threads: calls task(argument, i) once for each i < parts, on
 * any threads and at the same time, and returns when all have returned. It throws no exception: where it can make no
 * thread, it calls the task itself. */
typedef void (*modelwheel_task)(void *argument, size_t part);
typedef void (*modelwheel_parallel_for)(void *context, size_t parts, modelwheel_task task, void *argument);

/* An input as it is in memory. Its elements may be at any addresses, aligned or not, and some may share one. */
typedef struct modelwheel_view {
  const void *data;
  /* The bytes from one place to the next along each axis, which may be negative or 0; null: dense and row-major. */
  const ptrdiff_t *strides;
  /* Null, or for a structure of arrays one pointer for each place of the last axis, in place of `data` and of the last
   * stride: each points to its element of place 0 on all other axes. Without strides each such array is dense. */
  const void *const *columns;
} modelwheel_view;

typedef struct modelwheel_api {
  size_t struct_size;   /* sizeof(modelwheel_api) in the library: members beyond it do not exist there */
  uint32_t abi_version; /* MODELWHEEL_ABI_VERSION of the library */

  const char *name;    /* as in the spec, e.g. "digits" */
  const char *version; /* of the model */
  const char *about;   /* JSON: spec digest, source, compiler, flags, sizes (the manifest's summary) */

  size_t num_inputs;
  const modelwheel_tensor *inputs; /* in the order in which run takes them */
  size_t num_outputs;
  const modelwheel_tensor *outputs;

  /* Compiled batch sizes, ascending. A model whose signature has no free batch axis has the single size 1,
   * `batched` 0, and takes one whole evaluation for each run. */
  size_t num_batch_sizes;
  const size_t *batch_sizes;
  int batched;
  /* Null where any number of rows can be run; otherwise the reason why only compiled batch sizes can. */
  const char *no_emulation_reason;

  size_t num_levels;
  const char *const *levels; /* CPU levels in the library, lowest first, e.g. "x86-64-v3" */

  /* Makes an instance. `level` names a CPU level or is null: then the environment variable MODELWHEEL_LEVEL
   * decides, and without it the highest level that this CPU has. On failure *model is null and `error` (may be
   * null), of `error_size` bytes, holds a sentence. */
  modelwheel_status (*create)(const char *level, modelwheel_model **model, char *error, size_t error_size);
  /* Frees an instance; null is allowed. */
  void (*destroy)(modelwheel_model *model);
  /* The level in use. */
  const char *(*level)(const modelwheel_model *model);
  /* The sentence of the instance's last failure; "" before the first. Valid until the next call on it. */
  const char *(*error)(const modelwheel_model *model);

  /* Evaluates `rows` >= 0 rows, composed of compiled batch sizes by the instance's rules. `inputs` and `outputs`
   * hold one caller-owned buffer for each tensor, dense and row-major, of rows * row_bytes bytes (row_bytes where
   * leading_per_row is 0); any alignment is allowed, multiples of MODELWHEEL_ALIGNMENT avoid copies. Inputs are not
   * written. Output buffers must not overlap each other or an input; their contents are undefined until the
   * call returns, and after a failure. A model that is not `batched` takes rows == 1. Allocates nothing. */
  modelwheel_status (*run)(modelwheel_model *model, size_t rows, const void *const *inputs, void *const *outputs);
  /* Evaluates exactly one compiled batch size, regardless of rules. Buffers as for run with rows = batch_size. */
  modelwheel_status (*run_batch_size)(modelwheel_model *model, size_t batch_size, const void *const *inputs,
                                      void *const *outputs);

  /* Sets how one number of rows is composed: "5:2,2,2" runs 5 rows as 2 + 2 + 2 with the last row padded,
   * "5:1,4" as 1 + 4. Sizes must be compiled ones, reach the rows, and pad less than the last size. */
  modelwheel_status (*set_batch_rule)(modelwheel_model *model, const char *rule);
  /* Sets how rows without a rule are composed: "cheapest" (the default) minimises the summed cost of the batch
   * sizes and pads only where that is cheaper than every exact composition; "smallest" is CMS's default rule (the
   * exact size where compiled, else the smallest size repeated). Rules set before stay. */
  modelwheel_status (*set_batch_strategy)(modelwheel_model *model, const char *strategy);
  /* Writes the composition used for `rows` in the form of set_batch_rule, as "7:4,2,1", cut to `size` bytes with
   * its terminating null; *length (may be null) receives the whole length without the null, SIZE_MAX if that is too
   * large to count. After a failure the text is "" and the length 0. Takes time for `size`, not for `rows`. */
  modelwheel_status (*batch_rule)(modelwheel_model *model, size_t rows, char *text, size_t size, size_t *length);

  /* The same as run, but calls `interrupt` (may be null) with `context` between two batches, and ends with
   * MODELWHEEL_INTERRUPTED once that returns anything but 0. */
  modelwheel_status (*run_interruptible)(modelwheel_model *model, size_t rows, const void *const *inputs,
                                         void *const *outputs, modelwheel_interrupt interrupt, void *context);

  /* A model whose inputs may have several lengths has code for each of these, ascending; `shape`, `row_elements` and
   * `row_bytes` of its tensors are those of the largest, with which run and run_batch_size work. 0 for other models,
   * whose next members are null. */
  size_t num_lengths;
  const size_t *lengths;
  /* For each input and each output, one extent for each axis. */
  const modelwheel_extent *const *input_extents;
  const modelwheel_extent *const *output_extents;
  /* The same as run_interruptible for arrays of a length from 1 to the largest: inputs are padded to the next compiled
   * length, and outputs cut to their extents at `length`. Without lengths, `length` must be 0. */
  modelwheel_status (*run_length)(modelwheel_model *model, size_t rows, size_t length, const void *const *inputs,
                                  void *const *outputs, modelwheel_interrupt interrupt, void *context);
  /* The state: tensors that each successful run changes, and that the next run on the same instance reads. Their
   * shapes are fixed. Most models have none; one that has is run in compiled batch sizes only. */
  size_t num_states;
  const modelwheel_tensor *states;
  /* Puts the state back to what it is in a new instance. */
  modelwheel_status (*reset)(modelwheel_model *model);
  /* Copies the state out or in: one buffer of row_bytes bytes for each tensor, of any alignment; a null buffer leaves
   * that tensor out. */
  modelwheel_status (*get_state)(modelwheel_model *model, void *const *buffers);
  modelwheel_status (*set_state)(modelwheel_model *model, const void *const *buffers);
  /* Copies the state of another instance of the same model, which no thread may be using. */
  modelwheel_status (*copy_state)(modelwheel_model *model, const modelwheel_model *from);

  /* Bytes of an instance with everything that it needs: its head, batch rules, state, and working memory. `level` names
   * a CPU level of the library, whether this machine has it or not; null stands for the one that needs most. 0 if the
   * library has no such level. */
  size_t (*instance_bytes)(const char *level);
  /* The same as create, but the instance is in the caller's memory, at a multiple of MODELWHEEL_ALIGNMENT, and
   * allocates nothing. With less than instance_bytes(level) the status is MODELWHEEL_OUT_OF_MEMORY. The memory must not
   * be used or moved until `destroy`, which does not free it. There is room for about sixty batch rules in addition to
   * those of the spec; one more is refused with MODELWHEEL_OUT_OF_MEMORY. */
  modelwheel_status (*create_in)(void *memory, size_t bytes, const char *level, modelwheel_model **model, char *error,
                                 size_t error_size);

  /* How many rows each of up to `threads` threads best takes, the last one the rest; `rows` if one thread alone is as
   * fast, if threads better share the steps of one run, or if the rows cannot be split. Each part is then a run of its
   * own on an instance of its own, composed by that instance's rules: see run_part. Depends on the costs of the batch
   * sizes, not on the machine. `length` as for run_length. */
  size_t (*rows_per_thread)(modelwheel_model *model, size_t rows, size_t length, size_t threads);

  /* Lets up to `threads` threads of the caller share the large steps of each run of this instance, where that pays by
   * an estimate; results have the same bits. During a run, its thread calls `parallel_for` with `context` and at most
   * `threads` parts; a program without large steps never does. 0 or 1 thread, as in a new instance, needs none of both.
   * The memory that parts need is kept until `destroy`; in the caller's memory there is none, and the status is
   * MODELWHEEL_OUT_OF_MEMORY for more than one thread if the model has large steps. */
  modelwheel_status (*set_threads)(modelwheel_model *model, size_t threads, modelwheel_parallel_for parallel_for,
                                   void *context);

  /* An estimate of what a call with so many rows takes on up to `threads` threads of a server's CPU, in nanoseconds, if
   * they split its rows or share its steps, whichever is faster; that of one thread if more gain nothing. `length` as
   * for run_length. 0 if the model cannot run them. */
  double (*estimate)(modelwheel_model *model, size_t rows, size_t length, size_t threads);

  /* The same as run_length for some rows of a larger batch: `rows` rows from number `first` on, of buffers that hold
   * `total` rows. Other rows are neither read nor written, so that threads may run parts of the same buffers at the
   * same time, each on an instance of its own; outputs that do not grow with the batch are written by each. Where the
   * batch axis of all tensors is axis 0, it is a run with pointers to those rows. Without lengths, `length` is 0. */
  modelwheel_status (*run_part)(modelwheel_model *model, size_t first, size_t rows, size_t total, size_t length,
                                const void *const *inputs, void *const *outputs, modelwheel_interrupt interrupt,
                                void *context);

  /* The same as run_part for inputs that need not be dense: one view for each. The copy that puts rows where compiled
   * code reads them takes them from there, so that none is made before; rows that are dense and at multiples of
   * MODELWHEEL_ALIGNMENT are used in place. */
  modelwheel_status (*run_views)(modelwheel_model *model, size_t first, size_t rows, size_t total, size_t length,
                                 const modelwheel_view *inputs, void *const *outputs, modelwheel_interrupt interrupt,
                                 void *context);
} modelwheel_api;

#ifdef __cplusplus
}
#endif

#endif /* MODELWHEEL_ABI_H */
