/* The shared state file: making it, joining it, and finding out who is dead. */
#include "state.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define STATE_MAGIC 0x73696d6770750007ULL /* layout version in the last byte */

#ifndef F_OFD_GETLK
#define F_OFD_GETLK 36
#define F_OFD_SETLK 37
#endif

#define DESCRIPTOR_BASE (1LL << 41) /* offsets of descriptors of objects: DESCRIPTOR_BASE + id */

/* Of the process's own; opened again if the program closed it, and perhaps opened something else
 * there. */
struct kept_file {
    char path[4096];
    int fd;
    ino_t inode;
};

static struct kept_file lock_kept = {.fd = -1}, state_kept = {.fd = -1};

static void state_path(char *ret_path, size_t size)
{
    const char *text = getenv("SIMGPU_STATE");

    if (text && *text)
        snprintf(ret_path, size, "%s", text);
    else
        snprintf(ret_path, size, "/dev/shm/simgpu-%u", (unsigned)getuid());
}

static uint32_t wanted_devices(void)
{
    const char *text = getenv("SIMGPU_COUNT");
    long count = text && *text ? strtol(text, NULL, 10) : 1;

    return count < 0 ? 0 : count > SIM_MAX_DEVICES ? SIM_MAX_DEVICES : (uint32_t)count;
}

static uint64_t wanted_bytes(void)
{
    return sim_parse_bytes(getenv("SIMGPU_MEM"), 16ULL << 30);
}

static uint32_t wanted_sms(void)
{
    const char *text = getenv("SIMGPU_SMS");
    long count = text && *text ? strtol(text, NULL, 10) : 132;

    return count < 1 ? 1 : (uint32_t)count;
}

/* UUIDs are the same for the same index on every machine, so that tests can name them. */
static void device_uuid(int index, unsigned char *uuid)
{
    static const unsigned char base[16] = {0x51, 0x39, 0x9b, 0x00, 0xd0, 0x0d, 0x4c, 0x1e,
                                           0x8a, 0x55, 0x73, 0x69, 0x6d, 0x67, 0x70, 0x75};

    memcpy(uuid, base, 16);
    uuid[0] = (unsigned char)(0x10 + index * 0x0d);
    uuid[3] = (unsigned char)index;
}

void state_reset_locked(struct sim_state *state)
{
    uint32_t generations[SIM_MAX_PROCESSES];

    for (int slot = 0; slot < SIM_MAX_PROCESSES; slot++)
        generations[slot] = state->process[slot].generation;
    for (uint32_t slot = 0; slot < state->process_count; slot++)
        memset(&state->process[slot], 0, sizeof(state->process[slot]));
    for (int slot = 0; slot < SIM_MAX_PROCESSES; slot++) {
        if (generations[slot])
            state->process[slot].generation = generations[slot];
    }
    memset(state->device, 0, sizeof(state->device));
    memset(state->group, 0, sizeof(state->group));
    memset(state->object, 0, sizeof(state->object));
    state->process_count = 0;
    state->next_id = 1;
    state->device_count = wanted_devices();
    state->switch_ns = sim_parse_ns(getenv("SIMGPU_SWITCH"), 180000);
    for (int index = 0; index < SIM_MAX_DEVICES; index++) {
        struct sim_device *device = &state->device[index];
        device->bytes = wanted_bytes();
        device->sms = wanted_sms();
        device->current = device->last = -1;
        device_uuid(index, device->uuid);
    }
}

static void make_state(struct sim_state *state)
{
    pthread_mutexattr_t attributes;

    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&state->mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
    state_reset_locked(state);
    state->size = sizeof(*state);
    __atomic_store_n(&state->magic, STATE_MAGIC, __ATOMIC_RELEASE);
}

static int descriptor_of(struct kept_file *kept)
{
    struct stat info;

    if (kept->fd >= 0 && !fstat(kept->fd, &info) && info.st_ino == kept->inode)
        return kept->fd;
    kept->fd = open(kept->path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (kept->fd < 0)
        return -errno;
    fchmod(kept->fd, 0666);
    if (!fstat(kept->fd, &info))
        kept->inode = info.st_ino;
    return kept->fd;
}

static int lock_file(void)
{
    return descriptor_of(&lock_kept);
}

static struct flock descriptor_lock(uint64_t id, short type)
{
    return (struct flock){.l_type = type,
                          .l_whence = SEEK_SET,
                          .l_start = (off_t)(DESCRIPTOR_BASE + (int64_t)id),
                          .l_len = 1};
}

int state_descriptor_new(const struct sim_object *object, int *ret_fd)
{
    struct flock lock = descriptor_lock(object->id, F_RDLCK);
    int fd = open(state_kept.path, O_RDWR | O_CLOEXEC);

    if (fd < 0)
        return -errno;
    if (lseek(fd, lock.l_start, SEEK_SET) < 0 || fcntl(fd, F_OFD_SETLK, &lock)) {
        int error = -errno;
        close(fd);
        return error;
    }
    *ret_fd = fd;
    return 0;
}

uint64_t state_descriptor_id(int fd)
{
    struct stat info, own;
    off_t at;

    if (fstat(fd, &info) || fstat(descriptor_of(&state_kept), &own) || info.st_dev != own.st_dev ||
        info.st_ino != own.st_ino)
        return 0;
    at = lseek(fd, 0, SEEK_CUR);
    return at > DESCRIPTOR_BASE ? (uint64_t)(at - DESCRIPTOR_BASE) : 0;
}

bool state_descriptor_left(uint64_t id)
{
    struct flock lock = descriptor_lock(id, F_WRLCK);

    return !fcntl(descriptor_of(&state_kept), F_OFD_GETLK, &lock) && lock.l_type != F_UNLCK;
}

/* Maps the file; a new one, or one of another layout, is made. */
static int map_state(const char *path, bool create, struct sim_state **ret_state)
{
    struct stat info;
    int fd = open(path, O_RDWR | O_CLOEXEC | (create ? O_CREAT : 0), 0666);

    if (fd < 0)
        return -errno;
    flock(fd, LOCK_EX);
    if (fstat(fd, &info))
        goto fail;
    if (create && (size_t)info.st_size != sizeof(struct sim_state)) {
        fchmod(fd, 0666);
        if (ftruncate(fd, 0) || ftruncate(fd, sizeof(struct sim_state)))
            goto fail;
    } else if ((size_t)info.st_size != sizeof(struct sim_state)) {
        close(fd);
        return -ENOENT;
    }
    struct sim_state *state = mmap(NULL, sizeof(*state), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (state == MAP_FAILED)
        goto fail;
    if (__atomic_load_n(&state->magic, __ATOMIC_ACQUIRE) != STATE_MAGIC)
        make_state(state);
    flock(fd, LOCK_UN); /* the mapping keeps the open file, and with it the lock, alive */
    close(fd);
    *ret_state = state;
    return 0;
fail:;
    int error = -errno;
    close(fd);
    return error;
}

/* A state that was made for other sizes is made anew, unless somebody lives in it. */
static void adopt_sizes(struct sim_state *state)
{
    bool differs = (getenv("SIMGPU_COUNT") && wanted_devices() != state->device_count) ||
                   (getenv("SIMGPU_MEM") && wanted_bytes() != state->device[0].bytes) ||
                   (getenv("SIMGPU_SMS") && wanted_sms() != state->device[0].sms);

    if (!differs)
        return;
    state_lock(state);
    state_reap_locked(state);
    bool live = false;
    for (uint32_t slot = 0; slot < state->process_count; slot++)
        live |= state->process[slot].life == SIM_LIVE;
    if (!live)
        state_reset_locked(state);
    state_unlock(state);
}

static int open_state(bool create, struct sim_state **ret_state)
{
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    static struct sim_state *opened;
    char path[4096];
    int error = 0;

    pthread_mutex_lock(&once);
    if (!opened) {
        state_path(path, sizeof(path));
        struct sim_state *state = NULL;
        error = map_state(path, create, &state);
        if (!error)
            snprintf(lock_kept.path, sizeof(lock_kept.path), "%.4080s.lock", path);
        if (!error)
            snprintf(state_kept.path, sizeof(state_kept.path), "%s", path);
        if (!error && lock_file() < 0)
            error = -EACCES;
        if (!error) {
            opened = state;
            if (create)
                adopt_sizes(state);
        }
    }
    if (!error)
        *ret_state = opened;
    pthread_mutex_unlock(&once);
    return error;
}

int state_open(struct sim_state **ret_state)
{
    return open_state(true, ret_state);
}

int state_open_existing(struct sim_state **ret_state)
{
    return open_state(false, ret_state);
}

static void recompute_queue(struct sim_queue *queue)
{
    queue->remaining_ns = 0;
    for (uint64_t item = queue->head; item < queue->tail; item++)
        queue->remaining_ns += queue->ring[item % SIM_RING].duration_ns;
    queue->remaining_ns -=
        queue->progress_ns < queue->remaining_ns ? queue->progress_ns : queue->remaining_ns;
}

/* After a process died inside the lock, totals are made again from what the slots say. */
static void recompute_locked(struct sim_state *state)
{
    for (int index = 0; index < SIM_MAX_DEVICES; index++)
        state->device[index].used = state->device[index].orphan;
    for (int group = 0; group < SIM_MAX_GROUPS; group++)
        memset(state->group[group].total, 0, sizeof(state->group[group].total));
    for (uint32_t slot = 0; slot < state->process_count; slot++) {
        struct sim_process *process = &state->process[slot];
        if (process->life != SIM_LIVE)
            continue;
        for (int index = 0; index < SIM_MAX_DEVICES; index++) {
            uint64_t total = 0;
            for (int kind = 0; kind < SIM_HOST; kind++)
                total += process->held[index][kind];
            process->total[index] = total;
            recompute_queue(&process->queue[index]);
            state->device[index].used += total;
            if (process->group)
                state->group[process->group - 1].total[index] += total;
        }
    }
}

void state_lock(struct sim_state *state)
{
    if (pthread_mutex_lock(&state->mutex) == EOWNERDEAD) {
        recompute_locked(state);
        pthread_mutex_consistent(&state->mutex);
    }
}

void state_unlock(struct sim_state *state)
{
    pthread_mutex_unlock(&state->mutex);
}

/* Asked by a file that has no slot's lock: the process's own is seen, too. */
bool state_alive(struct sim_state *state, int slot)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = slot, .l_len = 1};

    (void)state;
    if (fcntl(lock_file(), F_OFD_GETLK, &lock))
        return true;
    return lock.l_type != F_UNLCK;
}

/*
 * Locks a slot for as long as this process lives and does not exec. A mapping, which no child
 * inherits, keeps the open file: a program that closes descriptors it did not open (closefrom)
 * closes no lock.
 */
static int take_life(int slot)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = slot, .l_len = 1};
    int fd = open(lock_kept.path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    void *keeper = MAP_FAILED;
    int error;

    if (fd < 0)
        return -errno;
    if (!fcntl(fd, F_OFD_SETLK, &lock))
        keeper = mmap(NULL, 1, PROT_NONE, MAP_SHARED, fd, 0);
    error = keeper == MAP_FAILED ? -errno : 0;
    if (!error)
        madvise(keeper, 1, MADV_DONTFORK);
    close(fd);
    return error;
}

static void bury_locked(struct sim_state *state, int slot)
{
    struct sim_process *process = &state->process[slot];

    sched_leave_locked(state, slot);
    for (int index = 0; index < SIM_MAX_DEVICES; index++) {
        for (int kind = 0; kind < SIM_KINDS; kind++) {
            if (process->held[index][kind])
                state_release_locked(state, slot, index, kind, process->held[index][kind]);
        }
    }
    state_objects_forget_locked(state, slot);
    process->contexts_live = 0;
    process->life = SIM_DEAD;
    process->died = ++state->deaths;
    process->generation++;
}

int state_reap_locked(struct sim_state *state)
{
    int dead = 0;

    for (uint32_t slot = 0; slot < state->process_count; slot++) {
        if (state->process[slot].life == SIM_LIVE && !state_alive(state, (int)slot)) {
            bury_locked(state, (int)slot);
            dead++;
        }
    }
    state_objects_reap_locked(state);
    return dead;
}

static uint32_t group_index_locked(struct sim_state *state, const char *name)
{
    if (!name || !*name)
        return 0;
    for (uint32_t index = 0; index < SIM_MAX_GROUPS; index++) {
        struct sim_group *group = &state->group[index];
        if (!group->name[0])
            snprintf(group->name, sizeof(group->name), "%s", name);
        if (!strncmp(group->name, name, SIM_NAME - 1))
            return index + 1;
    }
    return 0;
}

/* A slot never used, else that of the process that died first. */
static int pick_slot_locked(struct sim_state *state)
{
    int best = -1;

    if (state->process_count < SIM_MAX_PROCESSES)
        return (int)state->process_count++;
    for (int slot = 0; slot < SIM_MAX_PROCESSES; slot++) {
        struct sim_process *process = &state->process[slot];
        if (process->life == SIM_DEAD && (best < 0 || process->died < state->process[best].died))
            best = slot;
    }
    return best;
}

static uint64_t own_start_ticks(void)
{
    char text[1024];
    unsigned long long ticks = 0;
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return 0;
    ssize_t length = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (length <= 0)
        return 0;
    text[length] = 0;
    char *rest = strrchr(text, ')');
    if (rest)
        sscanf(rest + 1,
               " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
               &ticks);
    return ticks;
}

int state_register(struct sim_state *state, int *ret_slot)
{
    uint64_t ticks = own_start_ticks(), inode = sim_namespace_inode();

    state_lock(state);
    state_reap_locked(state);
    int slot = pick_slot_locked(state);
    int error = slot < 0 ? -ENOSPC : take_life(slot);
    if (!error) {
        struct sim_process *process = &state->process[slot];
        uint32_t generation = process->generation;
        memset(process, 0, offsetof(struct sim_process, queue));
        for (int index = 0; index < SIM_MAX_DEVICES; index++) {
            struct sim_queue *queue = &process->queue[index];
            queue->tail = queue->head = queue->progress_ns = queue->remaining_ns = 0;
        }
        process->generation = generation + 1;
        process->pid = getpid();
        process->namespace_inode = inode;
        process->start_ticks = ticks;
        process->group = group_index_locked(state, getenv("SIMGPU_GROUP"));
        snprintf(process->name, sizeof(process->name), "%s", program_invocation_name);
        process->life = SIM_LIVE;
        *ret_slot = slot;
    }
    state_unlock(state);
    return error;
}
