/*
 * The file system, spoken to the kernel as linux/fuse.h has it. Threads read requests; there are
 * always some that wait for one, because a call may sleep or stall in its caller's memory.
 */
#include "fakerm.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define WRITE_MOST   65536u
#define REQUEST_MOST (WRITE_MOST + 4096u)
#define THREADS_MOST 256
#define DEVICE_BYTES (1ULL << 47) /* so that it can be mapped at any offset */
#define VALID_S      3600u

static int fuse_fd = -1;
static int threads, idle_threads;

static const char *node_name(uint64_t node, char buffer[32])
{
    static const char *const names[] = {
        [NODE_ROOT] = ".",          [NODE_CTL] = "nvidiactl", [NODE_UVM] = "nvidia-uvm",
        [NODE_VERSION] = "version", [NODE_BOOK] = "book",
    };

    if (node < NODE_GPU)
        return names[node];
    snprintf(buffer, 32, "nvidia%u", (unsigned)(node - NODE_GPU));
    return buffer;
}

static uint64_t node_by_name(const char *name)
{
    char buffer[32];

    for (uint64_t node = NODE_CTL; node < NODE_GPU + settings.gpus; node++)
        if (strcmp(name, node_name(node, buffer)) == 0)
            return node;
    return 0;
}

static bool is_text(uint64_t node)
{
    return node == NODE_VERSION || node == NODE_BOOK;
}

static struct fuse_attr attributes(uint64_t node)
{
    struct fuse_attr attr = {.ino = node, .nlink = 1, .blksize = 4096};

    if (node == NODE_ROOT) {
        attr.mode = S_IFDIR | 0755;
        attr.nlink = 2;
    } else if (is_text(node)) {
        attr.mode = S_IFREG | 0444;
    } else {
        attr.mode = S_IFREG | 0666;
        attr.size = DEVICE_BYTES;
    }
    return attr;
}

static void answer(uint64_t unique, int error, const void *data, size_t bytes)
{
    struct fuse_out_header header = {.error = error, .unique = unique};
    struct iovec parts[2] = {{&header, sizeof(header)},
                             {(void *)(uintptr_t)data, error ? 0 : bytes}};
    ssize_t rc;

    header.len = (uint32_t)(sizeof(header) + parts[1].iov_len);
    rc = writev(fuse_fd, parts, 2);
    if (rc < 0 && errno != ENOENT && errno != ENODEV)
        fprintf(stderr, "fakerm: answer: %s\n", strerror(errno));
}

void fuse_answer_ioctl(uint64_t unique, int rc, const void *data, size_t bytes)
{
    struct {
        struct fuse_ioctl_out head; /* stands before the argument */
        uint8_t data[CALL_MOST];
    } out;

    if (rc < 0) {
        answer(unique, rc, NULL, 0);
        return;
    }
    out.head = (struct fuse_ioctl_out){.result = rc};
    memcpy(out.data, data, bytes);
    answer(unique, 0, &out, sizeof(out.head) + bytes);
}

static void do_init(const struct fuse_in_header *header, const struct fuse_init_in *in)
{
    struct fuse_init_out out = {
        .major = FUSE_KERNEL_VERSION,
        .minor = in->minor < FUSE_KERNEL_MINOR_VERSION ? in->minor : FUSE_KERNEL_MINOR_VERSION,
        .max_readahead = in->max_readahead,
        .max_write = WRITE_MOST,
        .max_background = 64,
        .congestion_threshold = 48,
        .time_gran = 1,
    };

    answer(header->unique, 0, &out, sizeof(out));
}

static void do_lookup(const struct fuse_in_header *header, const char *name)
{
    struct fuse_entry_out out = {
        .nodeid = node_by_name(name), .entry_valid = VALID_S, .attr_valid = VALID_S};

    if (header->nodeid != NODE_ROOT || out.nodeid == 0) {
        answer(header->unique, -ENOENT, NULL, 0);
        return;
    }
    out.attr = attributes(out.nodeid);
    answer(header->unique, 0, &out, sizeof(out));
}

static void do_getattr(const struct fuse_in_header *header)
{
    struct fuse_attr_out out = {.attr_valid = VALID_S, .attr = attributes(header->nodeid)};

    answer(header->unique, 0, &out, sizeof(out));
}

static void write_text(struct file *file)
{
    FILE *out = open_memstream(&file->text, &file->text_bytes);

    if (!out)
        return;
    if (file->node == NODE_VERSION) {
        fprintf(
            out,
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  %s  Release Build  (fakerm)\n"
            "GCC version:  none\n",
            settings.version);
    } else {
        pthread_mutex_lock(&state_lock);
        for (unsigned i = 0; i < settings.gpus; i++)
            gpu_simulate(&gpus[i]);
        book_write(out);
        pthread_mutex_unlock(&state_lock);
    }
    fclose(out);
}

static void do_open(const struct fuse_in_header *header)
{
    struct file *file = calloc(1, sizeof(*file));
    struct fuse_open_out out = {.fh = (uintptr_t)file, .open_flags = FOPEN_KEEP_CACHE};

    if (!file) {
        answer(header->unique, -ENOMEM, NULL, 0);
        return;
    }
    file->node = header->nodeid;
    if (is_text(file->node)) {
        write_text(file);
        out.open_flags = FOPEN_DIRECT_IO;
    }
    pthread_mutex_lock(&state_lock);
    book.files++;
    file->next = files;
    if (files)
        files->prev = file;
    files = file;
    pthread_mutex_unlock(&state_lock);
    answer(header->unique, 0, &out, sizeof(out));
}

static void do_release(const struct fuse_in_header *header, const struct fuse_release_in *in)
{
    struct file *file = (struct file *)(uintptr_t)in->fh;

    rm_file_closed(file);
    uvm_file_closed(file);
    pthread_mutex_lock(&state_lock);
    book.files--;
    if (file->prev)
        file->prev->next = file->next;
    else
        files = file->next;
    if (file->next)
        file->next->prev = file->prev;
    free(file->text);
    pthread_mutex_unlock(&state_lock);
    free(file);
    answer(header->unique, 0, NULL, 0);
}

/* Pages of a device that is mapped: they begin as zeros, and the kernel keeps what is written to
 * them. */
static void do_read(const struct fuse_in_header *header, const struct fuse_read_in *in)
{
    const struct file *file = (const struct file *)(uintptr_t)in->fh;
    static const uint8_t zeros[131072];
    uint64_t left;

    if (!is_text(header->nodeid)) {
        answer(header->unique, 0, zeros, in->size < sizeof(zeros) ? in->size : sizeof(zeros));
        return;
    }
    pthread_mutex_lock(&state_lock);
    left = file->text_bytes > in->offset ? file->text_bytes - in->offset : 0;
    answer(header->unique, 0, left ? file->text + in->offset : NULL,
           left < in->size ? left : in->size);
    pthread_mutex_unlock(&state_lock);
}

static void do_write(const struct fuse_in_header *header, const struct fuse_write_in *in)
{
    answer(header->unique, 0, &(struct fuse_write_out){.size = in->size},
           sizeof(struct fuse_write_out));
}

static void do_readdir(const struct fuse_in_header *header, const struct fuse_read_in *in)
{
    char buffer[4096], name_buffer[32];
    size_t used = 0;

    for (uint64_t at = in->offset; at < NODE_GPU + settings.gpus - NODE_ROOT; at++) {
        const char *name = node_name(NODE_ROOT + at, name_buffer);
        size_t length = strlen(name), bytes = FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + length);
        struct fuse_dirent entry = {.ino = NODE_ROOT + at,
                                    .off = at + 1,
                                    .namelen = (uint32_t)length,
                                    .type = at == 0 ? DT_DIR : DT_REG};

        if (used + bytes > sizeof(buffer) || used + bytes > in->size)
            break;
        memset(buffer + used, 0, bytes);
        memcpy(buffer + used, &entry, FUSE_NAME_OFFSET);
        memcpy(buffer + used + FUSE_NAME_OFFSET, name, length);
        used += bytes;
    }
    answer(header->unique, 0, buffer, used);
}

static void do_ioctl(const struct fuse_in_header *header, const struct fuse_ioctl_in *in)
{
    struct call call = {
        .file = (struct file *)(uintptr_t)in->fh,
        .tid = (pid_t)header->pid,
        .cmd = in->cmd,
        .arg = in->arg,
        .unique = header->unique,
    };
    int rc = -ENOTTY;

    if (header->nodeid == NODE_UVM)
        rc = uvm_ioctl(&call);
    else if (header->nodeid == NODE_CTL || header->nodeid >= NODE_GPU)
        rc = rm_ioctl(&call);
    if (!call.later)
        fuse_answer_ioctl(call.unique, rc, call.data, call.out_bytes);
}

static void handle(const struct fuse_in_header *header, const void *in)
{
    switch (header->opcode) {
    case FUSE_INIT:
        do_init(header, in);
        break;
    case FUSE_LOOKUP:
        do_lookup(header, in);
        break;
    case FUSE_GETATTR:
    case FUSE_SETATTR:
        do_getattr(header);
        break;
    case FUSE_OPEN:
    case FUSE_OPENDIR:
        do_open(header);
        break;
    case FUSE_RELEASE:
    case FUSE_RELEASEDIR:
        do_release(header, in);
        break;
    case FUSE_READ:
        do_read(header, in);
        break;
    case FUSE_WRITE:
        do_write(header, in);
        break;
    case FUSE_READDIR:
        do_readdir(header, in);
        break;
    case FUSE_IOCTL:
        do_ioctl(header, in);
        break;
    case FUSE_INTERRUPT:
        pthread_mutex_lock(&state_lock);
        wait_interrupt(((const struct fuse_interrupt_in *)in)->unique);
        pthread_mutex_unlock(&state_lock);
        break;
    case FUSE_FLUSH:
    case FUSE_FSYNC:
    case FUSE_ACCESS:
    case FUSE_DESTROY:
        answer(header->unique, 0, NULL, 0);
        break;
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
        break;
    default:
        answer(header->unique, -ENOSYS, NULL, 0);
    }
}

static int start_thread(void);

/*
 * The next request. As in the driver, who has closed a file has freed what it had by the time of
 * the next call: the kernel does not wait for our answer to that, so it is done before anything
 * that follows is taken.
 */
static ssize_t take(void *request)
{
    static pthread_mutex_t order = PTHREAD_MUTEX_INITIALIZER;
    const struct fuse_in_header *header = request;
    ssize_t bytes;

    pthread_mutex_lock(&order);
    bytes = read(fuse_fd, request, REQUEST_MOST);
    if (bytes >= (ssize_t)sizeof(*header) && header->opcode == FUSE_RELEASE) {
        handle(request, header + 1);
        bytes = 0;
    }
    pthread_mutex_unlock(&order);
    return bytes;
}

static void *serve(void *arg)
{
    void *request = malloc(REQUEST_MOST);

    (void)arg;
    if (!request)
        abort();
    prctl(PR_SET_TIMERSLACK, 1UL);
    for (;;) {
        ssize_t bytes = take(request);

        if (bytes < 0 && errno == ENODEV)
            break;
        if (bytes < (ssize_t)sizeof(struct fuse_in_header))
            continue;
        if (__atomic_sub_fetch(&idle_threads, 1, __ATOMIC_RELAXED) == 0 &&
            __atomic_load_n(&threads, __ATOMIC_RELAXED) < THREADS_MOST)
            start_thread();
        handle(request, (const struct fuse_in_header *)request + 1);
        __atomic_add_fetch(&idle_threads, 1, __ATOMIC_RELAXED);
    }
    free(request);
    kill(getpid(), SIGTERM); /* unmounted: the main thread ends */
    return NULL;
}

static int start_thread(void)
{
    pthread_t thread;
    int rc;

    __atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&idle_threads, 1, __ATOMIC_RELAXED);
    rc = pthread_create(&thread, NULL, serve, NULL);
    if (rc == 0) {
        pthread_detach(thread);
        return 0;
    }
    __atomic_sub_fetch(&threads, 1, __ATOMIC_RELAXED);
    __atomic_sub_fetch(&idle_threads, 1, __ATOMIC_RELAXED);
    return -rc;
}

int fuse_mount(const char *dir)
{
    char options[128];

    fuse_fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (fuse_fd < 0)
        return -errno;
    snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=%u,group_id=%u,allow_other",
             fuse_fd, (unsigned)geteuid(), (unsigned)getegid());
    return mount("fakerm", dir, "fuse.fakerm", MS_NOSUID | MS_NODEV, options) < 0 ? -errno : 0;
}

int fuse_start(void)
{
    for (int i = 0; i < 4; i++) {
        int rc = start_thread();

        if (rc < 0)
            return rc;
    }
    return 0;
}
