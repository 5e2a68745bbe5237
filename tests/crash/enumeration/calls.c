/* Counts the system calls of a broker, kind by kind, and lets one of them fail: the n-th of its kind, with any error.

   Calls on files count if these lie below LEVERET_CALLS_DIRECTORY; connections, event descriptors and threads count
   always. What fails is said in a file that the broker and the test map (calls.py holds the same layout). A call that
   fails is not made. Syncs are not among the kinds: shim.c, preloaded behind this one, lets those fail, because a sync
   that fails takes with it what was written. */

#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* The order is that of Kind in calls.py. */
enum kind {
    OPEN, CREATE, OPENDIR, READDIR, READ, WRITE, RENAME, UNLINK, MKDIR, STAT, TRUNCATE, ALLOCATE, MMAP, LOCK,
    ACCEPT, EVENTFD, THREAD, KINDS
};

enum { PATH_BYTES = 512 };

struct control {
    volatile int64_t kind;   /* which kind fails; -1: none */
    volatile int64_t at;     /* the so-manieth call of this kind */
    volatile int64_t error;  /* its errno; 0: a read or write does half of what it is asked for */
    volatile int64_t sticky; /* not 0: all calls of the kind after it fail as well */
    volatile int64_t hits;   /* how many calls have failed */
    volatile int64_t counts[KINDS];
    volatile char path[PATH_BYTES]; /* the file of the first call that failed */
};

static struct control *control;
static const char *directory;
static size_t directory_length;

__attribute__((constructor)) static void map_control(void) {
    const char *path = getenv("LEVERET_CALLS_CONTROL");
    directory = getenv("LEVERET_CALLS_DIRECTORY");
    if (!directory || !path) return;
    directory_length = strlen(directory);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    void *mapped = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (mapped != MAP_FAILED) control = mapped;
}

/* Counts one call; whether it is to fail, and then with errno set. */
static int fails(enum kind kind, const char *path) {
    int64_t number = __sync_add_and_fetch(&control->counts[kind], 1);
    if (control->kind != kind || number < control->at || (number > control->at && !control->sticky)) return 0;
    if (__sync_add_and_fetch(&control->hits, 1) == 1) strncpy((char *)control->path, path, PATH_BYTES - 1);
    errno = (int)control->error;
    return 1;
}

static int is_below(const char *path) {
    return !strncmp(path, directory, directory_length)
        && (path[directory_length] == '/' || path[directory_length] == 0);
}

/* The same for a call on a path, seen from a directory, or on a descriptor. */
static int fails_at(enum kind kind, int from, const char *path) {
    char whole[2 * PATH_BYTES] = "", link[32];
    if (!control) return 0;
    if (!path || (path[0] != '/' && from != AT_FDCWD)) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", from);
        ssize_t length = readlink(link, whole, PATH_BYTES);
        if (length <= 0) return 0;
        whole[length] = 0;
        if (path && path[0]) snprintf(whole + length, PATH_BYTES, "/%s", path);
    } else {
        snprintf(whole, sizeof whole, "%s", path);
    }
    return is_below(whole) && fails(kind, whole);
}

static int fails_on(enum kind kind, int fd) { return fails_at(kind, fd, NULL); }

/* How many octets of a read or write are to be done: all, half, or -1 with errno set. */
static ssize_t allowed(enum kind kind, int fd, size_t size) {
    if (!fails_on(kind, fd)) return (ssize_t)size;
    if (control->error) return -1;
    return size > 1 ? (ssize_t)(size / 2) : (ssize_t)size;
}

/* The next one of this name: of shim.c, or of libc. */
#define NEXT(name) \
    static __typeof__(name) *next; \
    if (!next) next = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

static mode_t mode_of(int flags, va_list more) {
    return flags & (O_CREAT | __O_TMPFILE) ? va_arg(more, mode_t) : 0;
}

static enum kind kind_of(int flags) { return flags & O_CREAT ? CREATE : OPEN; }

#define OPENS(name) \
    int name(const char *path, int flags, ...) { \
        NEXT(name); \
        va_list more; va_start(more, flags); mode_t mode = mode_of(flags, more); va_end(more); \
        return fails_at(kind_of(flags), AT_FDCWD, path) ? -1 : next(path, flags, mode); \
    }
OPENS(open)
OPENS(open64)

#define OPENS_AT(name) \
    int name(int from, const char *path, int flags, ...) { \
        NEXT(name); \
        va_list more; va_start(more, flags); mode_t mode = mode_of(flags, more); va_end(more); \
        return fails_at(kind_of(flags), from, path) ? -1 : next(from, path, flags, mode); \
    }
OPENS_AT(openat)
OPENS_AT(openat64)

DIR *opendir(const char *path) { NEXT(opendir); return fails_at(OPENDIR, AT_FDCWD, path) ? NULL : next(path); }
DIR *fdopendir(int fd) { NEXT(fdopendir); return fails_on(OPENDIR, fd) ? NULL : next(fd); }
struct dirent *readdir(DIR *d) { NEXT(readdir); return fails_on(READDIR, dirfd(d)) ? NULL : next(d); }
struct dirent64 *readdir64(DIR *d) { NEXT(readdir64); return fails_on(READDIR, dirfd(d)) ? NULL : next(d); }

#define MOVES(name, kind, type) \
    ssize_t name(int fd, type octets, size_t size) { \
        NEXT(name); ssize_t may = allowed(kind, fd, size); \
        return may < 0 ? may : next(fd, octets, (size_t)may); \
    }
MOVES(read, READ, void *)
MOVES(write, WRITE, const void *)

#define MOVES_AT(name, kind, type) \
    ssize_t name(int fd, type octets, size_t size, off_t at) { \
        NEXT(name); ssize_t may = allowed(kind, fd, size); \
        return may < 0 ? may : next(fd, octets, (size_t)may, at); \
    }
MOVES_AT(pread, READ, void *)
MOVES_AT(pread64, READ, void *)
MOVES_AT(pwrite, WRITE, const void *)
MOVES_AT(pwrite64, WRITE, const void *)

/* Of several pieces half means half of the first. */
static ssize_t allowed_of(enum kind kind, int fd, const struct iovec *pieces, int *count, struct iovec *first) {
    ssize_t may = allowed(kind, fd, pieces[0].iov_len);
    if (may >= 0 && (size_t)may < pieces[0].iov_len) *first = (struct iovec){pieces[0].iov_base, (size_t)may}, *count = 1;
    else *first = pieces[0];
    return may;
}

#define MOVES_PIECES(name, kind, more, arguments) \
    ssize_t name(int fd, const struct iovec *pieces, int count more) { \
        NEXT(name); struct iovec first; int all = count; \
        if (count > 0 && allowed_of(kind, fd, pieces, &count, &first) < 0) return -1; \
        if (count != all || (all == 1 && first.iov_len < pieces[0].iov_len)) pieces = &first; \
        return next arguments; \
    }
#define COMMA ,
MOVES_PIECES(readv, READ, , (fd, pieces, count))
MOVES_PIECES(writev, WRITE, , (fd, pieces, count))
MOVES_PIECES(preadv64, READ, COMMA off_t at, (fd, pieces, count, at))
MOVES_PIECES(pwritev64, WRITE, COMMA off_t at, (fd, pieces, count, at))
MOVES_PIECES(preadv64v2, READ, COMMA off_t at COMMA int flags, (fd, pieces, count, at, flags))
MOVES_PIECES(pwritev64v2, WRITE, COMMA off_t at COMMA int flags, (fd, pieces, count, at, flags))

int rename(const char *from, const char *to) { NEXT(rename); return fails_at(RENAME, AT_FDCWD, to) ? -1 : next(from, to); }
int renameat(int a, const char *from, int b, const char *to) {
    NEXT(renameat);
    return fails_at(RENAME, b, to) ? -1 : next(a, from, b, to);
}
int unlink(const char *path) { NEXT(unlink); return fails_at(UNLINK, AT_FDCWD, path) ? -1 : next(path); }
int unlinkat(int from, const char *path, int flags) {
    NEXT(unlinkat);
    return fails_at(UNLINK, from, path) ? -1 : next(from, path, flags);
}
int rmdir(const char *path) { NEXT(rmdir); return fails_at(UNLINK, AT_FDCWD, path) ? -1 : next(path); }
int mkdir(const char *path, mode_t mode) { NEXT(mkdir); return fails_at(MKDIR, AT_FDCWD, path) ? -1 : next(path, mode); }
int mkdirat(int from, const char *path, mode_t mode) {
    NEXT(mkdirat);
    return fails_at(MKDIR, from, path) ? -1 : next(from, path, mode);
}

int stat64(const char *path, struct stat64 *s) { NEXT(stat64); return fails_at(STAT, AT_FDCWD, path) ? -1 : next(path, s); }
int lstat64(const char *path, struct stat64 *s) { NEXT(lstat64); return fails_at(STAT, AT_FDCWD, path) ? -1 : next(path, s); }
int fstat64(int fd, struct stat64 *s) { NEXT(fstat64); return fails_on(STAT, fd) ? -1 : next(fd, s); }
int fstatat64(int from, const char *path, struct stat64 *s, int flags) {
    NEXT(fstatat64);
    return fails_at(STAT, from, path) ? -1 : next(from, path, s, flags);
}

int truncate64(const char *path, off_t size) { NEXT(truncate64); return fails_at(TRUNCATE, AT_FDCWD, path) ? -1 : next(path, size); }
int ftruncate64(int fd, off_t size) { NEXT(ftruncate64); return fails_on(TRUNCATE, fd) ? -1 : next(fd, size); }
int fallocate64(int fd, int mode, off_t at, off_t size) {
    NEXT(fallocate64);
    return fails_on(ALLOCATE, fd) ? -1 : next(fd, mode, at, size);
}
int posix_fallocate64(int fd, off_t at, off_t size) {
    NEXT(posix_fallocate64);
    return fails_on(ALLOCATE, fd) ? errno : next(fd, at, size);
}

void *mmap64(void *near, size_t size, int protection, int flags, int fd, off_t at) {
    NEXT(mmap64);
    if (fd >= 0 && fails_on(MMAP, fd)) return MAP_FAILED;
    return next(near, size, protection, flags, fd, at);
}

int flock(int fd, int operation) { NEXT(flock); return fails_on(LOCK, fd) ? -1 : next(fd, operation); }

int accept(int fd, struct sockaddr *peer, socklen_t *size) {
    NEXT(accept);
    return control && fails(ACCEPT, "") ? -1 : next(fd, peer, size);
}
int accept4(int fd, struct sockaddr *peer, socklen_t *size, int flags) {
    NEXT(accept4);
    return control && fails(ACCEPT, "") ? -1 : next(fd, peer, size, flags);
}
int eventfd(unsigned int start, int flags) {
    static int (*next)(unsigned int, int);
    if (!next) next = dlsym(RTLD_NEXT, "eventfd");
    return control && fails(EVENTFD, "") ? -1 : next(start, flags);
}
int pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*work)(void *), void *argument) {
    NEXT(pthread_create);
    return control && fails(THREAD, "") ? errno : next(thread, how, work, argument);
}
