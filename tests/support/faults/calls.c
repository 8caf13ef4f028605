/* Preloaded into Python by calls.py: chosen system calls fail, are slow, or are the last thing that the process does;
 * the clock is wrong; and what was written is recorded in its order. A call on files counts only if it concerns a path
 * below one directory, one on sockets only if it goes to the network. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char root[PATH_MAX];
static size_t root_length;
static FILE *record;

#define KILL -1  /* in place of an error: the process is killed, in the middle of what it writes */
#define COUNT -2 /* in place of an error: nothing happens */

static char chosen[256]; /* the calls that fail, each between two commas, or "" */
static int number;       /* their error; 0: a short write */
static long first;       /* how many such calls come before them */
static long times;       /* how many fail; negative: all that follow */
static long seen;        /* how many there were */
static long hits;        /* how many have failed */

static char slowed[256]; /* the calls that are slow, as above */
static long pause_microseconds;
static long clock_offset; /* seconds */

void faults_watch(const char *directory) {
  root_length = strlen(directory);
  memcpy(root, directory, root_length + 1);
}

void faults_choose(const char *calls, int error, long nth, long how_many) {
  chosen[0] = 0;
  number = error;
  first = nth;
  times = how_many;
  seen = hits = 0;
  snprintf(chosen, sizeof chosen, "%s", calls);
}

long faults_seen(void) { return seen; }
long faults_hits(void) { return hits; }

void faults_slow(const char *calls, long microseconds) {
  snprintf(slowed, sizeof slowed, "%s", calls);
  pause_microseconds = microseconds;
}

void faults_clock(long seconds) { clock_offset = seconds; }

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

static int listed(const char *call, const char *calls) {
  char word[24];
  snprintf(word, sizeof word, ",%s,", call);
  return strstr(calls, word) != NULL;
}

static void die(void) {
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

static int meets(const char *call) {
  if (slowed[0] && listed(call, slowed)) usleep(pause_microseconds);
  if (!listed(call, chosen)) return 0;
  /* Atomically: Python calls the system without its lock. */
  long nth = __atomic_fetch_add(&seen, 1, __ATOMIC_SEQ_CST);
  if (number == COUNT || nth < first || (times >= 0 && nth - first >= times)) return 0;
  __atomic_fetch_add(&hits, 1, __ATOMIC_SEQ_CST);
  if (number == KILL && strcmp(call, "write") != 0 && strcmp(call, "send") != 0) die();
  if (number > 0) errno = number;
  return 1;
}

static int fails(const char *call, const char *path) { return (chosen[0] || slowed[0]) && below(path) && meets(call); }

static int is_network(int descriptor) {
  int domain = 0, before = errno;
  socklen_t length = sizeof domain;
  int found = getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0;
  errno = before;
  return found && (domain == AF_INET || domain == AF_INET6);
}

static int fails_at(const char *call, int descriptor) {
  if (!(chosen[0] || slowed[0]) || !is_network(descriptor) || !meets(call)) return 0;
  if (number > 0) {
    shutdown(descriptor, SHUT_RDWR); /* a connection that has failed once stays so */
    errno = number;
  }
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
  if (fails("open", place) || ((flags & (O_CREAT | O_TRUNC)) && fails("create", place))) return -1;
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
  if (listed("read", chosen) || listed("read", slowed)) {
    if (fails("read", path_of(descriptor, buffer))) return -1;
  }
  return NEXT(read)(descriptor, target, size);
}

ssize_t write(int descriptor, const void *source, size_t size) {
  char buffer[PATH_MAX];
  const char *place = root_length != 0 ? path_of(descriptor, buffer) : NULL;
  int hit = fails("write", place);
  if (hit) {
    if (number > 0) return -1;
    size = size > 1 ? size / 2 : size;
  }
  off_t offset = lseek(descriptor, 0, SEEK_CUR);
  ssize_t written = NEXT(write)(descriptor, source, size);
  if (hit && number == KILL) die();
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

/* Exchanges two directories, for us. */
int renameat2(int from, const char *source, int to, const char *target, unsigned int flags) {
  char buffer[PATH_MAX];
  return fails("rename", path_at(to, target, buffer)) ? -1 : NEXT(renameat2)(from, source, to, target, flags);
}

int unlink(const char *path) {
  if (fails("unlink", path)) return -1;
  int result = NEXT(unlink)(path);
  if (record != NULL && below(path) && result == 0) fprintf(record, "unlink\t%s\n", path);
  return result;
}

int unlinkat(int directory, const char *path, int flags) {
  char buffer[PATH_MAX];
  const char *call = flags & AT_REMOVEDIR ? "rmdir" : "unlink";
  return fails(call, path_at(directory, path, buffer)) ? -1 : NEXT(unlinkat)(directory, path, flags);
}

int rmdir(const char *path) { return fails("rmdir", path) ? -1 : NEXT(rmdir)(path); }

int link(const char *source, const char *target) { return fails("link", target) ? -1 : NEXT(link)(source, target); }

int chmod(const char *path, mode_t mode) { return fails("chmod", path) ? -1 : NEXT(chmod)(path, mode); }

int utimensat(int directory, const char *path, const struct timespec given[2], int flags) {
  char buffer[PATH_MAX];
  if (fails("utime", path_at(directory, path, buffer))) return -1;
  return NEXT(utimensat)(directory, path, given, flags);
}

/* The network. */

int connect(int descriptor, const struct sockaddr *address, socklen_t length) {
  return fails_at("connect", descriptor) ? -1 : NEXT(connect)(descriptor, address, length);
}

ssize_t send(int descriptor, const void *source, size_t size, int flags) {
  int hit = fails_at("send", descriptor);
  if (hit && number > 0) return -1;
  ssize_t sent = NEXT(send)(descriptor, source, hit && size > 1 ? size / 2 : size, flags);
  if (hit && number == KILL) die();
  return sent;
}

ssize_t sendmsg(int descriptor, const struct msghdr *message, int flags) {
  int hit = fails_at("send", descriptor);
  if (hit && number == KILL) die();
  return hit && number > 0 ? -1 : NEXT(sendmsg)(descriptor, message, flags);
}

ssize_t recv(int descriptor, void *target, size_t size, int flags) {
  return fails_at("recv", descriptor) ? -1 : NEXT(recv)(descriptor, target, size, flags);
}

/* The clock. */

int clock_gettime(clockid_t clock, struct timespec *now) {
  int result = NEXT(clock_gettime)(clock, now);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += clock_offset;
  return result;
}

time_t time(time_t *now) {
  struct timespec found;
  clock_gettime(CLOCK_REALTIME, &found);
  if (now != NULL) *now = found.tv_sec;
  return found.tv_sec;
}
