/* Fails chosen system calls of a program that it is loaded into (LD_PRELOAD), LMDB's calls included.
 *
 * It counts the calls below that concern a path under FAULT_UNDER, and does to the call number
 * FAULT_AT (from 0; -1 for none, to count only) what FAULT_KIND says:
 *
 *   error   fail with FAULT_ERRNO
 *   short   a write hands over half of its bytes and says so; other calls are not counted
 *   kill    SIGKILL: inside of a write, half of which is done; right before any other call
 *
 * FAULT_STICKY=1 does it to all calls from there on; for EINTR to every second one, since a call that
 * is interrupted for ever would be a hang and not a fault. FAULT_LOG names a file to which each
 * counted call is written, a line each: number, name, result (`ok`, `failed`, `short`), path, and for a
 * sync the file's size. The environment is read at the start and by each faultshim_begin().
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum outcome { PASS, FAIL, HALF };

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static long at = -1, count;
static int error_number, sticky, log_file = -1;
static char kind[8], under[PATH_MAX];

static const char *setting(const char *name) {
    const char *value = getenv(name);
    return value ? value : "";
}

__attribute__((constructor)) void faultshim_begin(void) {
    at = *setting("FAULT_AT") ? atol(setting("FAULT_AT")) : -1;
    error_number = *setting("FAULT_ERRNO") ? atoi(setting("FAULT_ERRNO")) : EIO;
    sticky = atoi(setting("FAULT_STICKY"));
    snprintf(kind, sizeof kind, "%s", setting("FAULT_KIND"));
    snprintf(under, sizeof under, "%s", setting("FAULT_UNDER"));
    count = 0;
    if (log_file >= 0)
        syscall(SYS_close, log_file);
    log_file = -1;
    if (*setting("FAULT_LOG"))
        log_file = syscall(SYS_openat, AT_FDCWD, setting("FAULT_LOG"),
                           O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

/* Fails nothing any more, and counts nothing. */
void faultshim_end(void) { under[0] = 0; }

static int concerns(const char *path) {
    size_t size = strlen(under);
    return size && path && !strncmp(path, under, size);
}

static int path_of(int file, char *path) {
    char link[32];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t size = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX - 1);
    path[size > 0 ? size : 0] = 0;
    return size > 0 && concerns(path);
}

/* What becomes of this call; does not return where the process is killed before it. */
static enum outcome decide(const char *call, const char *path, int file, int is_write) {
    int is_short = !strcmp(kind, "short"), is_kill = !strcmp(kind, "kill");
    enum outcome outcome = PASS;
    char line[PATH_MAX + 80];
    long long size = -1;
    if (is_short && !is_write)
        return PASS;
    pthread_mutex_lock(&guard);
    long number = count++;
    int hit = at >= 0 && (sticky ? number >= at : number == at);
    if (hit && sticky && error_number == EINTR && !is_short && (number - at) % 2)
        hit = 0;
    if (hit)
        outcome = is_short || is_kill ? HALF : FAIL;
    if (log_file >= 0) {
        struct stat facts;
        if (strstr(call, "sync") && !fstat(file, &facts))
            size = facts.st_size;
        int length = snprintf(line, sizeof line, "%ld %s %s %s %lld\n", number, call,
                              outcome == FAIL ? "failed" : outcome == HALF ? "short" : "ok", path, size);
        syscall(SYS_write, log_file, line, length);
    }
    pthread_mutex_unlock(&guard);
    if (outcome == HALF && is_kill && !is_write)
        kill(getpid(), SIGKILL);
    if (outcome == FAIL)
        errno = error_number;
    return outcome;
}

static ssize_t half_done(ssize_t done) {
    if (!strcmp(kind, "kill"))
        kill(getpid(), SIGKILL);
    return done;
}

#define REAL(type, name, ...)                                                                         \
    static type (*real)(__VA_ARGS__);                                                                 \
    if (!real)                                                                                        \
        real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

static size_t half(size_t size) { return size > 1 ? size / 2 : size; }

/* Half of a vector is its first parts and a piece of the next: enough to be torn anywhere. */
static ssize_t half_vector(int file, const struct iovec *parts, int number, off_t offset, int placed) {
    size_t total = 0, left;
    ssize_t done = 0;
    for (int n = 0; n < number; n++)
        total += parts[n].iov_len;
    left = half(total);
    for (int n = 0; n < number && left; n++) {
        size_t size = parts[n].iov_len < left ? parts[n].iov_len : left;
        ssize_t written = placed ? syscall(SYS_pwrite64, file, parts[n].iov_base, size, offset + done)
                                 : syscall(SYS_write, file, parts[n].iov_base, size);
        if (written < 0)
            return done ? done : written;
        done += written;
        left -= written;
    }
    return half_done(done);
}

ssize_t write(int file, const void *data, size_t size) {
    char path[PATH_MAX];
    REAL(ssize_t, "write", int, const void *, size_t);
    if (path_of(file, path)) {
        enum outcome outcome = decide("write", path, file, 1);
        if (outcome == FAIL)
            return -1;
        if (outcome == HALF)
            return half_done(real(file, data, half(size)));
    }
    return real(file, data, size);
}

ssize_t writev(int file, const struct iovec *parts, int number) {
    char path[PATH_MAX];
    REAL(ssize_t, "writev", int, const struct iovec *, int);
    if (path_of(file, path)) {
        enum outcome outcome = decide("writev", path, file, 1);
        if (outcome == FAIL)
            return -1;
        if (outcome == HALF)
            return half_vector(file, parts, number, 0, 0);
    }
    return real(file, parts, number);
}

#define PWRITE(function)                                                                              \
    ssize_t function(int file, const void *data, size_t size, off_t offset) {                         \
        char path[PATH_MAX];                                                                          \
        REAL(ssize_t, #function, int, const void *, size_t, off_t);                                   \
        if (path_of(file, path)) {                                                                    \
            enum outcome outcome = decide(#function, path, file, 1);                                  \
            if (outcome == FAIL)                                                                      \
                return -1;                                                                            \
            if (outcome == HALF)                                                                      \
                return half_done(real(file, data, half(size), offset));                               \
        }                                                                                             \
        return real(file, data, size, offset);                                                        \
    }
PWRITE(pwrite)
PWRITE(pwrite64)

#define PWRITEV(function)                                                                             \
    ssize_t function(int file, const struct iovec *parts, int number, off_t offset) {                 \
        char path[PATH_MAX];                                                                          \
        REAL(ssize_t, #function, int, const struct iovec *, int, off_t);                              \
        if (path_of(file, path)) {                                                                    \
            enum outcome outcome = decide(#function, path, file, 1);                                  \
            if (outcome == FAIL)                                                                      \
                return -1;                                                                            \
            if (outcome == HALF)                                                                      \
                return half_vector(file, parts, number, offset, 1);                                   \
        }                                                                                             \
        return real(file, parts, number, offset);                                                     \
    }
PWRITEV(pwritev)
PWRITEV(pwritev64)

#define SYNC(function)                                                                                \
    int function(int file) {                                                                          \
        char path[PATH_MAX];                                                                          \
        REAL(int, #function, int);                                                                    \
        if (path_of(file, path) && decide(#function, path, file, 0) == FAIL)                          \
            return -1;                                                                                \
        return real(file);                                                                            \
    }
SYNC(fsync)
SYNC(fdatasync)

#define FTRUNCATE(function)                                                                           \
    int function(int file, off_t size) {                                                              \
        char path[PATH_MAX];                                                                          \
        REAL(int, #function, int, off_t);                                                             \
        if (path_of(file, path) && decide("ftruncate", path, file, 0) == FAIL)                        \
            return -1;                                                                                \
        return real(file, size);                                                                      \
    }
FTRUNCATE(ftruncate)
FTRUNCATE(ftruncate64)

int rename(const char *from, const char *to) {
    REAL(int, "rename", const char *, const char *);
    if (concerns(to) && decide("rename", to, -1, 0) == FAIL)
        return -1;
    return real(from, to);
}

int link(const char *from, const char *to) {
    REAL(int, "link", const char *, const char *);
    if (concerns(to) && decide("link", to, -1, 0) == FAIL)
        return -1;
    return real(from, to);
}

int unlink(const char *path) {
    REAL(int, "unlink", const char *);
    if (concerns(path) && decide("unlink", path, -1, 0) == FAIL)
        return -1;
    return real(path);
}

static mode_t mode_in(int flags, va_list rest) {
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
}

#define OPEN(function)                                                                                \
    int function(const char *path, int flags, ...) {                                                  \
        va_list rest;                                                                                 \
        REAL(int, #function, const char *, int, ...);                                                 \
        va_start(rest, flags);                                                                        \
        mode_t mode = mode_in(flags, rest);                                                           \
        va_end(rest);                                                                                 \
        const char *name = flags & O_CREAT ? "creat" : "open";                                        \
        if (concerns(path) && decide(name, path, -1, 0) == FAIL)                                      \
            return -1;                                                                                \
        return real(path, flags, mode);                                                               \
    }
OPEN(open)
OPEN(open64)

#define MMAP(function)                                                                                \
    void *function(void *where, size_t size, int protection, int flags, int file, off_t offset) {     \
        char path[PATH_MAX];                                                                          \
        REAL(void *, #function, void *, size_t, int, int, int, off_t);                                \
        if (file >= 0 && path_of(file, path) && decide("mmap", path, file, 0) == FAIL)                \
            return MAP_FAILED;                                                                        \
        return real(where, size, protection, flags, file, offset);                                    \
    }
MMAP(mmap)
MMAP(mmap64)
