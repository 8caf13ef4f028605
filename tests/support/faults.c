/* Preloaded into Python by faults.py: makes chosen system calls below one directory fail, and records what was written
 * there and in which order. A call is counted only if it concerns a path below the directory. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[PATH_MAX];
static size_t root_length;
static FILE *record;

static char chosen[16]; /* the call that fails, or "" */
static int number;      /* its error; 0: a short write */
static int remaining;   /* how many such calls come before it */
static int hits;        /* how many have failed */

void faults_watch(const char *directory) {
  root_length = strlen(directory);
  memcpy(root, directory, root_length + 1);
}

void faults_choose(const char *call, int error, int nth) {
  snprintf(chosen, sizeof chosen, "%s", call);
  number = error;
  remaining = nth;
  hits = 0;
}

int faults_hits(void) { return hits; }

void faults_record(const char *path) {
  if (record != NULL) fclose(record);
  record = path == NULL ? NULL : fopen(path, "w");
}

void faults_mark(const char *text) {
  if (record != NULL) fprintf(record, "mark\t%s\n", text);
}

static int below(const char *path) {
  return root_length != 0 && path != NULL && strncmp(path, root, root_length) == 0 &&
         (path[root_length] == '/' || path[root_length] == 0);
}

/* The path of an open file or directory, as the system knows it now. */
static const char *path_of(int descriptor, char *buffer) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  ssize_t length = readlink(link, buffer, PATH_MAX - 1);
  if (length < 0) return NULL;
  buffer[length] = 0;
  return buffer;
}

static const char *path_at(int directory, const char *path, char *buffer) {
  char parent[PATH_MAX];
  if (path[0] == '/') return path;
  if (directory == AT_FDCWD) return NULL; /* the tests use absolute paths */
  if (path_of(directory, parent) == NULL) return NULL;
  if (snprintf(buffer, PATH_MAX, "%.2000s/%.2000s", parent, path) >= PATH_MAX) return NULL;
  return buffer;
}

static int fails(const char *call, const char *path) {
  if (strcmp(call, chosen) != 0 || !below(path) || remaining-- != 0) return 0;
  hits++;
  if (number != 0) errno = number;
  return 1;
}

static unsigned long inode(const char *path) {
  struct stat status;
  int before = errno;
  unsigned long found = lstat(path, &status) == 0 ? status.st_ino : 0;
  errno = before;
  return found;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int opened(int (*next)(int, const char *, int, ...), int directory, const char *path, int flags, mode_t mode) {
  char buffer[PATH_MAX];
  const char *place = path_at(directory, path, buffer);
  if (fails("open", place)) return -1;
  int watched = record != NULL && below(place);
  unsigned long before = watched ? inode(place) : 0;
  int descriptor = next(directory, path, flags, mode);
  if (watched && descriptor >= 0 && (flags & (O_CREAT | O_TRUNC))) {
    if (before == 0)
      fprintf(record, "create\t%s\t%lu\n", place, inode(place));
    else if (flags & O_TRUNC)
      fprintf(record, "truncate\t%lu\n", before);
  }
  return descriptor;
}

static mode_t mode_of(int flags, va_list arguments) {
  return flags & (O_CREAT | O_TMPFILE) ? (mode_t)va_arg(arguments, int) : 0;
}

#define OPEN(name)                                            \
  int name(const char *path, int flags, ...) {                \
    va_list arguments;                                        \
    va_start(arguments, flags);                               \
    mode_t mode = mode_of(flags, arguments);                  \
    va_end(arguments);                                        \
    return opened(NEXT(openat), AT_FDCWD, path, flags, mode); \
  }
OPEN(open)
OPEN(open64)

#define OPEN_AT(name)                                          \
  int name(int directory, const char *path, int flags, ...) {  \
    va_list arguments;                                         \
    va_start(arguments, flags);                                \
    mode_t mode = mode_of(flags, arguments);                   \
    va_end(arguments);                                         \
    return opened(NEXT(openat), directory, path, flags, mode); \
  }
OPEN_AT(openat64)

ssize_t read(int descriptor, void *target, size_t size) {
  char buffer[PATH_MAX];
  if (root_length != 0 && chosen[0] == 'r' && fails("read", path_of(descriptor, buffer))) return -1;
  return NEXT(read)(descriptor, target, size);
}

ssize_t write(int descriptor, const void *source, size_t size) {
  char buffer[PATH_MAX];
  const char *place = root_length != 0 ? path_of(descriptor, buffer) : NULL;
  if (fails("write", place)) {
    if (number != 0) return -1;
    size = size > 1 ? size / 2 : size;
  }
  off_t offset = lseek(descriptor, 0, SEEK_CUR);
  ssize_t written = NEXT(write)(descriptor, source, size);
  struct stat status;
  if (record != NULL && below(place) && written > 0 && fstat(descriptor, &status) == 0) {
    fprintf(record, "write\t%lu\t%ld\t", status.st_ino, (long)offset);
    for (ssize_t i = 0; i < written; i++) fprintf(record, "%02x", ((const unsigned char *)source)[i]);
    fputc('\n', record);
  }
  return written;
}

int fsync(int descriptor) {
  char buffer[PATH_MAX];
  struct stat status;
  const char *place = root_length != 0 ? path_of(descriptor, buffer) : NULL;
  if (fails("fsync", place)) return -1;
  int result = NEXT(fsync)(descriptor);
  if (record != NULL && below(place) && fstat(descriptor, &status) == 0) fprintf(record, "sync\t%lu\n", status.st_ino);
  return result;
}

int rename(const char *source, const char *target) {
  if (fails("rename", target)) return -1;
  int result = NEXT(rename)(source, target);
  if (record != NULL && below(target) && result == 0) fprintf(record, "rename\t%s\t%s\n", source, target);
  return result;
}

int mkdir(const char *path, mode_t mode) {
  if (fails("mkdir", path)) return -1;
  int result = NEXT(mkdir)(path, mode);
  if (record != NULL && below(path) && result == 0) fprintf(record, "mkdir\t%s\t%lu\n", path, inode(path));
  return result;
}

int unlink(const char *path) {
  if (fails("unlink", path)) return -1;
  int result = NEXT(unlink)(path);
  if (record != NULL && below(path) && result == 0) fprintf(record, "unlink\t%s\n", path);
  return result;
}

int chmod(const char *path, mode_t mode) { return fails("chmod", path) ? -1 : NEXT(chmod)(path, mode); }
