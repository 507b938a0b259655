/*
 * The turns of a device as the GPU sees them (sched/sched_client.h has the other half): semaphores
 * that streams wait at, and fences that tell how far a stream has got.
 *
 * A semaphore is cuStreamWaitValue32 on a word of this process's page of the arena. A launch behind
 * it costs the CPU nothing more. So a program goes on queueing work while another has the device,
 * and its turn begins with a backlog. A stream at a closed semaphore costs the other processes
 * nothing (measured).
 *
 * The process that hands the device on opens the semaphore with a store. A thread may be stuck in
 * the driver behind a semaphore (loading a function does that). No thread of its own process has to
 * run for it to come free.
 */
#ifndef VGPU_HOOK_WORK_SEMAPHORE_H
#define VGPU_HOOK_WORK_SEMAPHORE_H

#include "base/mutex.h"
#include "sched/sched_client.h"
#include "hook/loader/hook.h"

#include <pthread.h>

#define SEMAPHORE_CONTEXTS 8

/*
 * This process's page of the arena as the driver knows it in one context. Memory that is registered
 * in a context goes with it, while streams of another one may wait for a word of it. So each
 * context has an address of its own.
 */
struct page_map {
    CUcontext context; /* NULL: free, but the page stays */
    CUdeviceptr address;
    struct arena_page *page;
};

struct stream_slot {
    uintptr_t stream; /* the handle, never NULL's; 0: free */
    const struct page_map *map;
    uintptr_t thread; /* whose own default stream it is; 0: every thread can name the stream */
    pid_t thread_id;
    bool apart;           /* the legacy stream and this one never wait for each other */
    uint32_t turn;        /* of the last semaphore in it */
    uint32_t work_turn;   /* of the last launch in it */
    atomic_bool launched; /* since its last fence */
    atomic_uint inside;   /* threads between enter and leave: they launch into it */
    unsigned launches;    /* so many in all */
};

/* The launches that a thread waits for: those of one slot. -1: of several, or of none. */
struct semaphore_wait {
    int slot;
    unsigned launches;
};

struct semaphore {
    struct vgpu_mutex mutex;  /* guards what follows, except the client's page */
    _Atomic(pthread_t) owner; /* of the mutex */
    struct sched_client client;
    atomic_bool joined;
    bool failed; /* semaphores cannot be had: no turns for this process; joined stays false */
    bool helped; /* the helper thread runs */
    uint32_t
        turn_policy; /* the last one that the instance has asked for: 1 + enum vgpu_turn_policy */
    struct sched_observer observer; /* the helper's */
    struct page_map maps[SEMAPHORE_CONTEXTS];
    struct stream_slot slots[ARENA_STREAMS];
};

/* Joins the turns on a device. False: this process has none; that has been logged. */
bool semaphore_join(struct semaphore *semaphore, const char *uuid,
                    const struct sched_identity *self, uint32_t turn_policy);

/* Takes over the settings. Returns the turns it got, and the time it waited for them, since the
 * last call. */
void semaphore_settings(struct semaphore *semaphore, const struct vgpu_compute *settings,
                        uint64_t *ret_turns, uint64_t *ret_waited_ns);

/* The arenas of the other devices that the instance runs on; they stay open. */
void semaphore_set_others(struct semaphore *semaphore, struct vgpu_arena *const *others,
                          unsigned count);

/* ARENA_RESUME is set: the process is active again. */
void semaphore_resume(struct semaphore *semaphore, uint64_t now_ns);

/* Around a launch on a contended device. semaphore_enter() returns the stream's slot for
 * semaphore_leave(), -1: none. It may wait, if much is queued behind the semaphore already. */
int semaphore_enter(struct semaphore *semaphore, CUstream stream, bool per_thread, uint64_t cost_ns,
                    uint64_t now_ns);
void semaphore_leave(struct semaphore *semaphore, int slot);

/*
 * Around a call that waits for a stream (0: for all of the current context). A program that waits
 * for short work knows that it is done when the call returns. A fence would tell the same, and cost
 * the GPU two microseconds.
 */
void semaphore_wait_begins(struct semaphore *semaphore, uintptr_t stream,
                           struct semaphore_wait *ret_wait);
void semaphore_wait_ends(struct semaphore *semaphore, const struct semaphore_wait *wait);

/* Fences everything launched so far. `blocks`: the caller is about to wait for the device. */
void semaphore_fence(struct semaphore *semaphore, bool blocks);

/* The process pauses because of the cap, or goes on: nobody need wait for its next launch
 * meanwhile. */
void semaphore_pause(struct semaphore *semaphore, bool pausing);

/* The stream is about to be destroyed, or to capture. It is fenced, and not touched again until the
 * next launch into it. */
void semaphore_stream_ends(struct semaphore *semaphore, CUstream stream, bool per_thread);
void semaphore_context_ends(struct semaphore *semaphore, CUcontext context);
void semaphore_forked(struct semaphore *semaphore);

#endif
