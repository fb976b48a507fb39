/*
 * A disk that fails on demand. The library is preloaded into a server under test and stands between it and the calls
 * that write and sync files.
 *
 * The file named by FAULTS_CONTROL says what happens, and is read again at every call: a mode, a space, and the
 * directory whose regular files it is about. Sockets, logs and everything elsewhere work as ever. For every fault one
 * byte is added to the file named by FAULTS_HITS, so that a test can see that the faults were really met.
 *
 *   enospc         writes fail: there is no space
 *   eio-sync       fsync and fdatasync fail, and sync nothing
 *   stall-sync     fsync and fdatasync wait until something else is said
 *   torn           a write leaves half of its bytes and fails
 *   kill-torn      a write leaves half of its bytes and the process dies
 *   kill-unsynced  the process dies instead of syncing
 *   kill-synced    the process dies right after a sync
 *
 * Without the file everything works.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

_Static_assert(sizeof(long) == 8, "offsets are passed to system calls in one register");

enum mode { OK, ENOSPC_WRITES, EIO_SYNCS, STALL_SYNCS, TORN, KILL_TORN, KILL_UNSYNCED, KILL_SYNCED };

static const struct {
    const char *name;
    enum mode mode;
} MODES[] = {
    { "enospc", ENOSPC_WRITES }, { "eio-sync", EIO_SYNCS },   { "stall-sync", STALL_SYNCS },
    { "torn", TORN },            { "kill-torn", KILL_TORN },  { "kill-unsynced", KILL_UNSYNCED },
    { "kill-synced", KILL_SYNCED },
};

/* Whether fd is a regular file below the directory. */
static int is_below(int fd, const char *directory)
{
    struct stat stat;
    char link[64], path[PATH_MAX];
    size_t length = strlen(directory);
    if (fstat(fd, &stat) != 0 || !S_ISREG(stat.st_mode))
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t read = readlink(link, path, sizeof path);
    return read > (ssize_t)length && memcmp(path, directory, length) == 0 && path[length] == '/';
}

/* What is to happen to fd. The calls here go to the system directly, so none of them comes back to this file. */
static enum mode mode_for(int fd)
{
    char text[PATH_MAX + 32];
    const char *control = getenv("FAULTS_CONTROL");
    int file = control ? syscall(SYS_openat, AT_FDCWD, control, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return OK;
    ssize_t length = syscall(SYS_read, file, text, sizeof text - 1);
    syscall(SYS_close, file);
    if (length <= 0)
        return OK;
    text[length] = 0;
    char *directory = strchr(text, ' ');
    if (!directory)
        return OK;
    *directory++ = 0;
    for (size_t i = 0; i < sizeof MODES / sizeof MODES[0]; i++)
        if (strcmp(MODES[i].name, text) == 0)
            return is_below(fd, directory) ? MODES[i].mode : OK;
    return OK;
}

static void note_hit(void)
{
    const char *hits = getenv("FAULTS_HITS");
    int file = hits ? syscall(SYS_openat, AT_FDCWD, hits, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    if (file >= 0) {
        syscall(SYS_write, file, "x", 1);
        syscall(SYS_close, file);
    }
}

static long fail(int error)
{
    note_hit();
    errno = error;
    return -1;
}

static void die(void)
{
    note_hit();
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

/* A write of `count` buffers at `offset`, or at the place of the file if that is negative. */
static ssize_t write_buffers(int fd, const struct iovec *buffers, int count, off_t offset)
{
    enum mode mode = mode_for(fd);
    struct iovec half;
    if (mode == ENOSPC_WRITES)
        return fail(ENOSPC);
    int is_torn = (mode == TORN || mode == KILL_TORN) && count > 0;
    if (is_torn) {
        half.iov_base = buffers->iov_base;
        half.iov_len = buffers->iov_len / 2;
        buffers = &half;
        count = 1;
    }
    ssize_t written = offset < 0 ? syscall(SYS_writev, fd, buffers, count)
                                 : syscall(SYS_pwritev, fd, buffers, count, offset, 0L);
    if (!is_torn)
        return written;
    if (mode == KILL_TORN)
        die();
    return fail(EIO);
}

static int sync_file(int fd, long call)
{
    enum mode mode = mode_for(fd);
    if (mode == EIO_SYNCS)
        return fail(EIO);
    if (mode == STALL_SYNCS)
        note_hit();
    while (mode == STALL_SYNCS) {
        usleep(2000);
        mode = mode_for(fd);
    }
    if (mode == KILL_UNSYNCED)
        die();
    int synced = syscall(call, fd);
    if (mode == KILL_SYNCED && synced == 0)
        die();
    return synced;
}

ssize_t write(int fd, const void *bytes, size_t length)
{
    struct iovec buffer = { (void *)bytes, length };
    return write_buffers(fd, &buffer, 1, -1);
}

ssize_t writev(int fd, const struct iovec *buffers, int count)
{
    return write_buffers(fd, buffers, count, -1);
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t offset)
{
    struct iovec buffer = { (void *)bytes, length };
    return write_buffers(fd, &buffer, 1, offset);
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset)
{
    return pwrite64(fd, bytes, length, offset);
}

ssize_t pwritev64(int fd, const struct iovec *buffers, int count, off64_t offset)
{
    return write_buffers(fd, buffers, count, offset);
}

ssize_t pwritev(int fd, const struct iovec *buffers, int count, off_t offset)
{
    return pwritev64(fd, buffers, count, offset);
}

int fsync(int fd)
{
    return sync_file(fd, SYS_fsync);
}

int fdatasync(int fd)
{
    return sync_file(fd, SYS_fdatasync);
}
