/*
 * LD_PRELOAD=rmlog.so RMLOG=FILE: writes the ioctls and mmaps of NVIDIA's devices that a program
 * makes, one line of JSON each. For finding out what libcuda and NVML ask; no part of the product.
 * Only calls by way of the C library are seen.
 */
#include "guard/nvidia/abi.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define EXPORT     __attribute__((visibility("default")))
#define LINE_BYTES 4096
#define LOG_FD     200 /* and above: out of the program's way */

struct line {
    char text[LINE_BYTES];
    size_t length;
};

static int log_fd = -1;

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

__attribute__((format(printf, 2, 3))) static void put(struct line *line, const char *format, ...)
{
    va_list arguments;
    int more;

    va_start(arguments, format);
    more = vsnprintf(line->text + line->length, LINE_BYTES - line->length, format, arguments);
    va_end(arguments);
    if (more > 0 && line->length + (size_t)more < LINE_BYTES)
        line->length += (size_t)more;
}

static void write_line(struct line *line)
{
    const char *path = getenv("RMLOG");

    if (log_fd < 0 && path) {
        int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);

        log_fd = fcntl(fd, F_DUPFD_CLOEXEC, LOG_FD);
        close(fd);
    }
    put(line, "}\n");
    if (log_fd >= 0 && write(log_fd, line->text, line->length) < 0)
        log_fd = -1;
}

/* The name of the device; NULL: none of NVIDIA's (or of those that stand in for them). */
static const char *device_of(int fd, char *path, size_t bytes)
{
    char link[64];
    ssize_t length;
    const char *name;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    length = readlink(link, path, bytes - 1);
    if (length < 0)
        return NULL;
    path[length] = 0;
    name = strrchr(path, '/');
    return name && strncmp(name + 1, "nvidia", 6) == 0 ? name + 1 : NULL;
}

static void put_control(struct line *line, const struct rm_control *control)
{
    put(line,
        ",\"call\":\"control\",\"client\":%u,\"object\":%u,\"cmd\":%u,\"params_bytes\":%u,"
        "\"flags\":%u,"
        "\"status\":%u",
        control->client, control->object, control->cmd, control->params_bytes, control->flags,
        control->status);
}

static void put_alloc(struct line *line, const struct rm_alloc *alloc, uint32_t status,
                      uint64_t rights)
{
    put(line,
        ",\"call\":\"alloc\",\"client\":%u,\"parent\":%u,\"handle\":%u,\"class\":%u,\"params\":%d,"
        "\"rights\":%d,"
        "\"status\":%u",
        alloc->root, alloc->parent, alloc->handle, alloc->class_id, alloc->params != 0, rights != 0,
        status);
    if (alloc->class_id == RM_CLASS_MEMORY_LOCAL_USER && alloc->params)
        put(line, ",\"bytes\":%llu",
            (unsigned long long)((const struct rm_memory_params *)(uintptr_t)alloc->params)->size);
}

static void put_rm(struct line *line, unsigned long cmd, const void *arg)
{
    uint32_t key = (uint32_t)cmd & RM_KEY_MASK;
    const struct rm_alloc *alloc = arg;
    const struct rm_free *released = arg;
    const struct rm_dup_object *dup = arg;
    const struct rm_vid_heap_control *heap = arg;

    put(line, ",\"nr\":%u,\"bytes_arg\":%u", RM_KEY_NR(key), RM_KEY_SIZE(key));
    switch (key) {
    case RM_KEY(RM_ESC_ALLOC, sizeof(struct rm_alloc)):
        put_alloc(line, alloc, alloc->status, alloc->rights);
        break;
    case RM_KEY(RM_ESC_ALLOC, sizeof(struct rm_alloc_short)):
        put_alloc(line, alloc, ((const struct rm_alloc_short *)arg)->status, 0);
        break;
    case RM_KEY(RM_ESC_CONTROL, sizeof(struct rm_control)):
        put_control(line, arg);
        break;
    case RM_KEY(RM_ESC_FREE, sizeof(struct rm_free)):
        put(line, ",\"call\":\"free\",\"client\":%u,\"handle\":%u,\"status\":%u", released->root,
            released->handle, released->status);
        break;
    case RM_KEY(RM_ESC_DUP_OBJECT, sizeof(struct rm_dup_object)):
        put(line, ",\"call\":\"dup\",\"client\":%u,\"handle\":%u,\"status\":%u", dup->client,
            dup->handle, dup->status);
        break;
    case RM_KEY(RM_ESC_VID_HEAP_CONTROL, sizeof(struct rm_vid_heap_control)):
        put(line, ",\"call\":\"heap\",\"function\":%u,\"status\":%u", heap->function, heap->status);
        break;
    default:
        put(line, ",\"call\":\"other\"");
    }
}

static void put_uvm(struct line *line, unsigned long cmd, const void *arg)
{
    const struct uvm_range *range = arg;
    const uint32_t *words = arg;

    put(line, ",\"call\":\"uvm\",\"cmd\":%u", (uint32_t)cmd);
    switch ((uint32_t)cmd) {
    case UVM_INITIALIZE:
        put(line, ",\"status\":%u", words[2]);
        break;
    case UVM_MAP_EXTERNAL_ALLOCATION:
        put(line, ",\"base\":%llu,\"length\":%llu,\"status\":%u", (unsigned long long)range->base,
            (unsigned long long)range->length, ((const struct uvm_map_external *)arg)->status);
        break;
    case UVM_UNMAP_EXTERNAL:
        put(line, ",\"base\":%llu,\"length\":%llu,\"status\":%u", (unsigned long long)range->base,
            (unsigned long long)range->length, ((const struct uvm_unmap_external *)arg)->status);
        break;
    case UVM_CREATE_EXTERNAL_RANGE:
    case UVM_FREE: /* 24 bytes with a length, until branch 595 */
        put(line, ",\"base\":%llu,\"length\":%llu,\"status\":%u", (unsigned long long)range->base,
            (unsigned long long)range->length, words[4]);
        break;
    }
}

EXPORT int ioctl(int fd, unsigned long cmd, ...);
EXPORT int ioctl(int fd, unsigned long cmd, ...)
{
    struct line line = {.length = 0};
    char path[512];
    const char *device;
    va_list arguments;
    uint64_t begin;
    void *arg;
    long rc;
    int error;

    va_start(arguments, cmd);
    arg = va_arg(arguments, void *);
    va_end(arguments);
    begin = now_ns();
    rc = syscall(SYS_ioctl, fd, cmd, arg);
    error = errno;
    device = device_of(fd, path, sizeof(path));
    if (!device)
        goto end;
    put(&line,
        "{\"t\":%llu,\"ns\":%llu,\"pid\":%d,\"fd\":%d,\"device\":\"%s\",\"rc\":%ld,\"errno\":%d",
        (unsigned long long)begin, (unsigned long long)(now_ns() - begin), getpid(), fd, device, rc,
        rc < 0 ? error : 0);
    if (strstr(device, "uvm"))
        put_uvm(&line, cmd, arg);
    else
        put_rm(&line, cmd, arg);
    write_line(&line);
end:
    errno = error;
    return (int)rc;
}

static void *map(void *address, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    void *got = (void *)syscall(SYS_mmap, address, bytes, protection, flags, fd, offset);
    int error = errno;
    char path[512];
    const char *device =
        fd >= 0 && !(flags & MAP_ANONYMOUS) ? device_of(fd, path, sizeof(path)) : NULL;

    if (device) {
        struct line line = {.length = 0};

        put(&line,
            "{\"t\":%llu,\"pid\":%d,\"fd\":%d,\"device\":\"%s\",\"call\":\"mmap\",\"address\":%llu,"
            "\"length\":%llu,"
            "\"prot\":%d,\"flags\":%d,\"offset\":%llu,\"failed\":%d",
            (unsigned long long)now_ns(), getpid(), fd, device, (unsigned long long)(uintptr_t)got,
            (unsigned long long)bytes, protection, flags, (unsigned long long)offset,
            got == MAP_FAILED);
        write_line(&line);
    }
    errno = error;
    return got;
}

EXPORT void *mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    return map(address, bytes, protection, flags, fd, offset);
}

EXPORT void *mmap64(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);
EXPORT void *mmap64(void *address, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    return map(address, bytes, protection, flags, fd, offset);
}
