/* A disk that misbehaves on command: preloaded into a broker, it stands between the broker and libc's file calls.

   Only files below LEVERET_FAULT_DIRECTORY are touched. The faults are words in a file that is mapped by the broker
   and by the test (faults.py holds the same layout), so that a test switches them on and off while the broker runs.

   A sync that fails takes with it what was written since the last good one, as Linux does: the pages are marked clean,
   the next sync "succeeds", and the data is gone. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* The order is that of WORDS in faults.py. */
struct control {
    volatile int64_t sync_fails_at;    /* the so-manieth sync from now fails; 0: none */
    volatile int64_t write_room_bytes; /* ENOSPC when so many more bytes are written; -1: never */
    volatile int64_t short_every;      /* every so-manieth write takes only half; 0: none */
    volatile int64_t sync_delay_ms;
    volatile int64_t sync_hangs; /* not 0: a sync does not return */
    volatile int64_t sync_error; /* the errno of a sync that fails; 0: EIO */
    volatile int64_t syncs_fail; /* not 0: every sync fails */
    volatile int64_t sync_lies;  /* not 0: a sync claims success and does nothing */
    volatile int64_t write_lies; /* not 0: a write claims success and does nothing */
    volatile int64_t bad_inode, bad_start, bad_end; /* EIO for this range of the file; inode 0: of every file */
    volatile int64_t open_error; /* not 0: a file that is only to be read cannot be opened, with this error */
    volatile int64_t sync_count, sync_failed_count, sync_hung_count;
    volatile int64_t write_count, write_failed_count, write_short_count;
    volatile int64_t read_failed_count, open_failed_count;
};

/* What was written to a file since its last good sync. */
struct range { off_t at; size_t size; };
enum { FILES_MAX = 64, RANGES_MAX = 8192 };
struct file { dev_t device; ino_t inode; int count; struct range ranges[RANGES_MAX]; };

static struct control *control;
static const char *directory;
static size_t directory_length;
static struct file files[FILES_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static ssize_t (*real_write)(int, const void *, size_t);
static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static ssize_t (*real_writev)(int, const struct iovec *, int);
static ssize_t (*real_pwritev)(int, const struct iovec *, int, off_t);
static int (*real_fsync)(int);
static int (*real_fdatasync)(int);
static int (*real_fallocate)(int, int, off_t, off_t);
static int (*real_posix_fallocate)(int, off_t, off_t);
static int (*real_ftruncate)(int, off_t);
static ssize_t (*real_read)(int, void *, size_t);
static ssize_t (*real_pread)(int, void *, size_t, off_t);
static ssize_t (*real_preadv)(int, const struct iovec *, int, off_t);
static int (*real_open)(const char *, int, ...);

__attribute__((constructor)) static void find_everything(void) {
    real_write = dlsym(RTLD_NEXT, "write");
    real_pwrite = dlsym(RTLD_NEXT, "pwrite64");
    real_writev = dlsym(RTLD_NEXT, "writev");
    real_pwritev = dlsym(RTLD_NEXT, "pwritev64");
    real_fsync = dlsym(RTLD_NEXT, "fsync");
    real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
    real_fallocate = dlsym(RTLD_NEXT, "fallocate64");
    real_posix_fallocate = dlsym(RTLD_NEXT, "posix_fallocate64");
    real_ftruncate = dlsym(RTLD_NEXT, "ftruncate64");
    real_read = dlsym(RTLD_NEXT, "read");
    real_pread = dlsym(RTLD_NEXT, "pread64");
    real_preadv = dlsym(RTLD_NEXT, "preadv64");
    real_open = dlsym(RTLD_NEXT, "open64");
    directory = getenv("LEVERET_FAULT_DIRECTORY");
    const char *path = getenv("LEVERET_FAULT_CONTROL");
    if (!directory || !path) return;
    directory_length = strlen(directory);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    void *mapped = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (mapped != MAP_FAILED) control = mapped;
}

/* Whether the file lies below the directory that faults are wanted for. */
static int is_target(int fd) {
    if (!control) return 0;
    char link[32], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    return length > (ssize_t)directory_length && !memcmp(path, directory, directory_length)
        && path[directory_length] == '/';
}

/* The notes on this file; makes them if they are not there. NULL when there is no room: then nothing can be undone. */
static struct file *notes_on(int fd) {
    struct stat found;
    if (fstat(fd, &found)) return NULL;
    struct file *unused = NULL;
    for (struct file *file = files; file < files + FILES_MAX; file++) {
        if (file->count && file->device == found.st_dev && file->inode == found.st_ino) return file;
        if (!file->count && !unused) unused = file;
    }
    if (unused) unused->device = found.st_dev, unused->inode = found.st_ino;
    return unused;
}

static void note_written(int fd, off_t at, size_t size) {
    pthread_mutex_lock(&lock);
    struct file *file = notes_on(fd);
    if (file) {
        struct range *last = file->count ? &file->ranges[file->count - 1] : NULL;
        if (last && last->at + (off_t)last->size == at) last->size += size;
        else if (file->count < RANGES_MAX) file->ranges[file->count++] = (struct range){at, size};
    }
    pthread_mutex_unlock(&lock);
}

/* With a sync: what it covers is safe, or, if it fails, overwritten with zeros. */
static void settle_written(int fd, int failed) {
    static const char zeros[4096];
    pthread_mutex_lock(&lock);
    struct file *file = notes_on(fd);
    for (int i = 0; failed && file && i < file->count; i++) {
        off_t at = file->ranges[i].at, end = at + (off_t)file->ranges[i].size;
        while (at < end) {
            size_t step = end - at < (off_t)sizeof zeros ? (size_t)(end - at) : sizeof zeros;
            if (real_pwrite(fd, zeros, step, at) <= 0) break;
            at += (off_t)step;
        }
    }
    if (file) file->count = 0;
    pthread_mutex_unlock(&lock);
}

/* How many of these bytes may be written now: all, fewer, or -1 with errno set. */
static ssize_t allowed(size_t size) {
    int64_t number = __sync_add_and_fetch(&control->write_count, 1);
    int64_t room = control->write_room_bytes;
    if (room >= 0 && size) {
        if (room == 0) {
            __sync_add_and_fetch(&control->write_failed_count, 1);
            errno = ENOSPC;
            return -1;
        }
        if ((int64_t)size > room) size = (size_t)room;
        control->write_room_bytes = room - (int64_t)size;
    }
    if (control->short_every > 0 && number % control->short_every == 0 && size > 1) {
        __sync_add_and_fetch(&control->write_short_count, 1);
        size /= 2;
    }
    return (ssize_t)size;
}

ssize_t write(int fd, const void *octets, size_t size) {
    if (!is_target(fd)) return real_write(fd, octets, size);
    ssize_t may = allowed(size);
    if (may < 0 || control->write_lies) return may;
    ssize_t done = real_write(fd, octets, (size_t)may);
    if (done > 0) note_written(fd, lseek(fd, 0, SEEK_CUR) - done, (size_t)done);
    return done;
}

ssize_t pwrite64(int fd, const void *octets, size_t size, off_t at) {
    if (!is_target(fd)) return real_pwrite(fd, octets, size, at);
    ssize_t may = allowed(size);
    if (may < 0 || control->write_lies) return may;
    ssize_t done = real_pwrite(fd, octets, (size_t)may, at);
    if (done > 0) note_written(fd, at, (size_t)done);
    return done;
}

ssize_t pwrite(int fd, const void *octets, size_t size, off_t at) { return pwrite64(fd, octets, size, at); }

/* As much of the pieces as may be written, one after the other. A real disk takes a prefix just so. */
static ssize_t write_pieces(int fd, const struct iovec *pieces, int count, off_t at) {
    size_t size = 0;
    for (int i = 0; i < count; i++) size += pieces[i].iov_len;
    ssize_t may = allowed(size);
    if (may < 0 || control->write_lies) return may;
    ssize_t written = 0;
    for (int i = 0; i < count && written < may; i++) {
        size_t left = (size_t)(may - written);
        size_t step = pieces[i].iov_len < left ? pieces[i].iov_len : left;
        ssize_t done = at < 0 ? real_write(fd, pieces[i].iov_base, step)
                              : real_pwrite(fd, pieces[i].iov_base, step, at + written);
        if (done < 0) return written ? written : done;
        written += done;
        if ((size_t)done < step) break;
    }
    if (written > 0) note_written(fd, at < 0 ? lseek(fd, 0, SEEK_CUR) - written : at, (size_t)written);
    return written;
}

ssize_t writev(int fd, const struct iovec *pieces, int count) {
    return is_target(fd) ? write_pieces(fd, pieces, count, -1) : real_writev(fd, pieces, count);
}

ssize_t pwritev64(int fd, const struct iovec *pieces, int count, off_t at) {
    return is_target(fd) ? write_pieces(fd, pieces, count, at) : real_pwritev(fd, pieces, count, at);
}

ssize_t pwritev(int fd, const struct iovec *pieces, int count, off_t at) { return pwritev64(fd, pieces, count, at); }

/* Flags (RWF_DSYNC and the like) are refused for targets, so that no sync slips through here. */
ssize_t pwritev64v2(int fd, const struct iovec *pieces, int count, off_t at, int flags) {
    if (flags && is_target(fd)) { errno = EOPNOTSUPP; return -1; }
    return at == -1 ? writev(fd, pieces, count) : pwritev64(fd, pieces, count, at);
}

ssize_t pwritev2(int fd, const struct iovec *pieces, int count, off_t at, int flags) {
    return pwritev64v2(fd, pieces, count, at, flags);
}

static int synced(int fd, int (*real_sync)(int)) {
    if (!is_target(fd)) return real_sync(fd);
    __sync_add_and_fetch(&control->sync_count, 1);
    if (control->sync_delay_ms > 0) usleep((useconds_t)control->sync_delay_ms * 1000);
    if (control->sync_hangs) {
        __sync_add_and_fetch(&control->sync_hung_count, 1);
        while (control->sync_hangs) usleep(2000);
    }
    int fails = control->syncs_fail != 0;
    if (control->sync_fails_at > 0) fails |= __sync_sub_and_fetch(&control->sync_fails_at, 1) == 0;
    if (fails) {
        __sync_add_and_fetch(&control->sync_failed_count, 1);
        settle_written(fd, 1);
        errno = control->sync_error ? (int)control->sync_error : EIO;
        return -1;
    }
    if (control->sync_lies) return 0;
    /* Before the sync: what is written while it runs is not covered by it. */
    settle_written(fd, 0);
    return real_sync(fd);
}

int fsync(int fd) { return synced(fd, real_fsync); }

int fdatasync(int fd) { return synced(fd, real_fdatasync); }

/* Space that is reserved counts only when it is written. */
static int no_room_for(int fd, off_t size) {
    if (!is_target(fd) || control->write_room_bytes < 0 || control->write_room_bytes >= size) return 0;
    __sync_add_and_fetch(&control->write_failed_count, 1);
    return 1;
}

int fallocate64(int fd, int mode, off_t at, off_t size) {
    if (!mode && no_room_for(fd, size)) { errno = ENOSPC; return -1; }
    return real_fallocate(fd, mode, at, size);
}

int fallocate(int fd, int mode, off_t at, off_t size) { return fallocate64(fd, mode, at, size); }

int posix_fallocate64(int fd, off_t at, off_t size) {
    return no_room_for(fd, size) ? ENOSPC : real_posix_fallocate(fd, at, size);
}

int posix_fallocate(int fd, off_t at, off_t size) { return posix_fallocate64(fd, at, size); }

int ftruncate64(int fd, off_t size) {
    if (control && control->write_lies && is_target(fd)) return 0;
    return real_ftruncate(fd, size);
}

int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }

/* Whether the disk cannot read something in this range of the file. */
static int is_bad(int fd, off_t at, size_t size) {
    if (!control || control->bad_end <= control->bad_start) return 0;
    if (at >= control->bad_end || at + (off_t)size <= control->bad_start || !is_target(fd)) return 0;
    struct stat found;
    if (fstat(fd, &found) || !S_ISREG(found.st_mode)) return 0;
    if (control->bad_inode && control->bad_inode != (int64_t)found.st_ino) return 0;
    __sync_add_and_fetch(&control->read_failed_count, 1);
    errno = EIO;
    return 1;
}

ssize_t read(int fd, void *octets, size_t size) {
    if (!real_read) real_read = dlsym(RTLD_NEXT, "read");
    if (control && control->bad_end > control->bad_start && is_bad(fd, lseek(fd, 0, SEEK_CUR), size)) return -1;
    return real_read(fd, octets, size);
}

ssize_t pread64(int fd, void *octets, size_t size, off_t at) {
    if (!real_pread) real_pread = dlsym(RTLD_NEXT, "pread64");
    return is_bad(fd, at, size) ? -1 : real_pread(fd, octets, size, at);
}

ssize_t pread(int fd, void *octets, size_t size, off_t at) { return pread64(fd, octets, size, at); }

ssize_t preadv64(int fd, const struct iovec *pieces, int count, off_t at) {
    size_t size = 0;
    for (int i = 0; i < count; i++) size += pieces[i].iov_len;
    return is_bad(fd, at, size) ? -1 : real_preadv(fd, pieces, count, at);
}

ssize_t preadv(int fd, const struct iovec *pieces, int count, off_t at) { return preadv64(fd, pieces, count, at); }

ssize_t preadv64v2(int fd, const struct iovec *pieces, int count, off_t at, int flags) {
    if (flags && is_target(fd)) { errno = EOPNOTSUPP; return -1; }
    return preadv64(fd, pieces, count, at);
}

ssize_t preadv2(int fd, const struct iovec *pieces, int count, off_t at, int flags) {
    return preadv64v2(fd, pieces, count, at, flags);
}

int open64(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    if (control && control->open_error && (flags & O_ACCMODE) == O_RDONLY && !(flags & O_DIRECTORY)
        && !strncmp(path, directory, directory_length) && path[directory_length] == '/') {
        __sync_add_and_fetch(&control->open_failed_count, 1);
        errno = (int)control->open_error;
        return -1;
    }
    /* Other libraries open files before the constructor has run. */
    if (!real_open) real_open = dlsym(RTLD_NEXT, "open64");
    return real_open(path, flags, mode);
}

int open(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    return open64(path, flags, mode);
}
