/* The state that processes share: making it, mapping it, locking it. */
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

#define STATE_MAGIC 0x73696d6770750008ULL /* layout version in the last byte */

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

/* The same index has the same UUID on every machine, so that tests can name it. */
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

/* Maps the file. A new file, or one of another layout, is initialised. */
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

/* A state of other sizes than the environment asks for is reset, unless a live process uses it. */
static void adopt_sizes(struct sim_state *state)
{
    bool differs = (getenv("SIMGPU_COUNT") && wanted_devices() != state->device_count) ||
                   (getenv("SIMGPU_MEM") && wanted_bytes() != state->device[0].bytes);

    if (!differs)
        return;
    state_lock(state);
    bool live = false;
    for (uint32_t slot = 0; slot < state->process_count; slot++)
        live |= state->process[slot].life == SIM_LIVE && files_slot_alive((int)slot);
    if (!live)
        state_reset_locked(state);
    state_unlock(state);
}

static int open_state(bool create, struct sim_state **ret_state)
{
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    static struct sim_state *opened;
    int error = 0;

    pthread_mutex_lock(&once);
    if (!opened) {
        struct sim_state *state = NULL;
        error = map_state(files_path(), create, &state);
        if (!error && !files_usable())
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

/* After a process died with the lock held, computes the totals anew from the slots. */
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
