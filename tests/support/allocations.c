/* Preloaded into Python, or linked into a program, by allocations.py: makes a chosen allocation fail. That a thread
 * cannot be made counts as one. Only glibc has the functions that this one calls. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static atomic_int armed, failed, lasting;
static atomic_long left; /* how many allocations come before the one that fails */

/* Lets the allocation `nth`, from 0, fail, on whichever thread it is; and, if asked, all that follow. */
void allocations_fail(long nth, int all_after) {
  failed = 0;
  lasting = all_after;
  left = nth;
  armed = 1;
}

/* Ends it. How many have failed. */
int allocations_end(void) {
  armed = 0;
  return failed;
}

/* The result of a call during which this happens. */
void *allocations_call(void *(*function)(void *, void *), void *object, void *argument, long nth, int all_after) {
  allocations_fail(nth, all_after);
  void *const result = function(object, argument);
  allocations_end();
  return result;
}

/* A profiler that does nothing. With one, CPython makes the object of each frame when a function begins. Without, it
 * makes that of the caller when a function ends with an exception, which is lost if there is no memory (CPython 3.11,
 * take_ownership in Python/frame.c): any function may then end in a SystemError. */
int allocations_profile(void *object, void *frame, int event, void *argument) {
  (void)object, (void)frame, (void)event, (void)argument;
  return 0;
}

/* How many have failed since the last allocations_fail. */
int allocations_failed(void) { return failed; }

static int fails(void) {
  if (!armed) return 0;
  const long before = left--;
  if (before > 0 || (before < 0 && !lasting)) return 0;
  failed++;
  errno = ENOMEM;
  return 1;
}

void *malloc(size_t size) { return fails() ? NULL : __libc_malloc(size); }
void *calloc(size_t count, size_t size) { return fails() ? NULL : __libc_calloc(count, size); }
void *realloc(void *memory, size_t size) { return size != 0 && fails() ? NULL : __libc_realloc(memory, size); }
void *memalign(size_t alignment, size_t size) { return fails() ? NULL : __libc_memalign(alignment, size); }
void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void **memory, size_t alignment, size_t size) {
  *memory = memalign(alignment, size);
  return *memory == NULL ? ENOMEM : 0;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument) {
  static int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
  if (next == NULL) *(void **)&next = dlsym(RTLD_NEXT, "pthread_create"); /* as POSIX casts it */
  return fails() ? EAGAIN : next(thread, attributes, start, argument);
}
