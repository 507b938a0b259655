/*
 * A machine in virtual time for tests of sched/sched_client. It has GPUs and processes. Each
 * process has a thread that runs a program, a helper thread, and a client on an arena, which is a
 * real file. All of it runs in one thread of the test. Only the seed decides the order of events.
 *
 * The GPU (sched_gpu.c): a stream is a queue of kernels, semaphores and fences. One process's work
 * runs at a time. If several processes have work, the GPU gives each vdev_ns in turn. A change of
 * process costs switch_ns.
 *
 * The process (sched_host.c) does what hook/work/compute.c and hook/work/semaphore.c do around
 * launches and waits.
 */
#ifndef VGPU_TESTS_SCHED_WORLD_H
#define VGPU_TESTS_SCHED_WORLD_H

#include "sched/sched_client.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define US            1000ULL
#define MS            1000000ULL
#define SEC           1000000000ULL
#define NEVER         UINT64_MAX
#define WORLD_PROCS   32
#define WORLD_DEVICES 2
#define WORLD_STREAMS 2
#define WORLD_PAIRS   64
#define WORLD_STEPS   8    /* the most by which the ranks of a job are apart */
#define WORLD_QUEUE   1024 /* a thread that launches more waits for room */

struct proc;

/* What a process repeats: it makes `batch` launches, waits for the device, and does something
 * else. */
struct program {
    uint64_t kernel_ns;        /* of a kernel; NEVER: it does not end */
    unsigned batch;            /* launches between two waits for the device; 0: it never waits */
    uint64_t launch_ns;        /* CPU time of a launch */
    uint64_t gap_ns;           /* between a wait and the next launch */
    uint64_t busy_ns, idle_ns; /* phases of work and idleness; 0: it always works */
    unsigned limit;            /* launches after which it ends; 0: none */
    unsigned cap_percent;      /* of the device; it sleeps between launches; 0: no cap */
    unsigned streams;          /* that launches use in turn; 0: one */
    bool pair;                 /* its kernels on device 0 and device 1 end when both run */
    bool reversed;             /* it launches the one on device 1 first */
    uint64_t (*length)(struct proc *proc); /* instead of kernel_ns */
    unsigned job; /* the process is one of the job's two ranks; the last kernel of a batch ends when
                     the other rank's runs too. 1 to WORLD_PAIRS / WORLD_STEPS; 0: no job */
    unsigned rank;     /* in the job, and the number of the device that it uses */
    uint64_t joint_ns; /* the length of that last kernel */
    bool unknown;      /* the process knows no cost before its first kernel has ended */
    double wrong;      /* the process's estimate of a cost, divided by the cost; 0: it is right */
};

enum op_kind { OP_KERNEL, OP_GATE, OP_MARK };

struct op {
    enum op_kind kind;
    uint32_t value; /* the turn of a semaphore, the number of a fence */
    unsigned place;
    uint64_t ns, left_ns;
    int pair; /* its pair of kernels; -1: none */
    bool began;
};

struct queue {
    struct op *ops;
    size_t head, count, room;
    uint64_t ready_ns; /* when its head may start */
};

/* What a process has on a device. */
struct context {
    struct queue queues[WORLD_STREAMS];
    int running; /* the queue whose kernel runs; -1: none */
    uint64_t launched, completed;
    uint64_t done_ns; /* the sum of the lengths of completed kernels */
    uint64_t ran_ns;  /* how long the hardware has worked for it */
    bool off;         /* switched off: none of its work starts or goes on */
    bool ending;      /* will be off when its kernel ends or another process has the hardware */
    bool loaded;      /* on the hardware: it works, or it was the last that worked */
    uint64_t loads;   /* how often it was loaded */
    uint64_t longest_wait; /* of a queue's head for a semaphore */
    uint64_t semaphore_since_ns[WORLD_STREAMS];

    struct sched_client client;
    struct sched_observer observer;
    uint32_t place_turn[WORLD_STREAMS], work_turn[WORLD_STREAMS];
    bool place_launched[WORLD_STREAMS];
    bool registered, joined, helped;
    uint64_t help_ns; /* when its helper looks next */
    uint32_t wake_seen;
};

enum host_state { HOST_RUNS, HOST_SYNCS, HOST_AHEAD, HOST_FULL, HOST_ENDED };

struct proc {
    struct world *world;
    unsigned index;
    struct program program;
    struct sched_identity self;
    struct context contexts[WORLD_DEVICES];
    unsigned first_device, devices;
    bool dead, stopped, paused;
    void *preempt; /* of a preempted client, which takes no turns itself; otherwise NULL */

    enum host_state state;
    uint64_t host_ns; /* when its thread acts next */
    unsigned in_batch;
    unsigned stage;  /* of a launch: 0 before, 1 behind the semaphore's bookkeeping */
    unsigned device; /* of that launch */
    uint32_t ahead_turn;
    bool again; /* the thread asks for the same launch again */
    uint64_t ahead_until_ns;
    uint64_t launches, start_ns, idle_from_ns, paid_ns, batch_ns, asked_ns;
    int pair;

    uint64_t random;
    uint64_t *steps; /* how long each batch took */
    size_t step_count, step_room;
};

struct gpu {
    int current; /* the process that has the hardware; -1: none so far */
    bool switching;
    uint64_t switched_ns, from_ns, vdev_ns;
    uint64_t busy_ns, switches;
};

struct pair_of_kernels {
    bool began[2], used;
};

struct world {
    uint64_t now_ns, extra_ns, random;
    bool native;       /* no process takes turns */
    bool marks_always; /* a contended device gets fences even if no process waits */
    uint64_t switch_ns, vdev_ns, late_ns, very_late_ns;
    unsigned very_late_one_in;
    unsigned count, device_count;
    struct proc procs[WORLD_PROCS];
    struct gpu gpus[WORLD_DEVICES];
    struct vgpu_arena *arenas[WORLD_DEVICES];
    struct pair_of_kernels pairs[WORLD_PAIRS];
    void (*each)(struct world *world); /* after every event */
    uint64_t (*outside_next_ns)(const struct proc *proc);
    void (*preempt_step)(struct proc *proc); /* if it is time */
    uint64_t looks;                          /* of helpers */

    uint64_t marked_ns, marked_done[WORLD_PROCS], marked_held[WORLD_PROCS];
};

/* A machine with new arenas. It ends with world_free(). */
struct world *world_new(uint64_t seed, unsigned devices);
void world_free(struct world *world);
void world_policy(struct world *world, enum vgpu_turn_policy policy);

/* A process of instance `id`, which begins at start_ns. */
struct proc *world_add(struct world *world, uint64_t id, uint32_t weight, uint32_t priority,
                       const struct program *program, uint64_t start_ns);

void world_run(struct world *world, uint64_t until_ns);

/* Begins to measure shares. */
void world_measure(struct world *world);
double world_share(const struct world *world,
                   const struct proc *proc); /* of device 0, by the lengths of its kernels */
double world_held(const struct world *world,
                  const struct proc *proc); /* by how long its instance had the turn */
double world_sum(const struct world *world);

/* What the kernel does to a process. */
void world_kill(struct proc *proc);
void world_stop(struct proc *proc);
void world_continue(struct proc *proc);
void world_leave(struct proc *proc); /* it ends by itself */

void world_weight(struct proc *proc, uint32_t weight);

/* A quantile of the lengths of the process's batches: 0.5 is the median. Sorts them. */
uint64_t world_step_ns(struct proc *proc, double fraction);
void world_forget_steps(struct proc *proc);

/* For tests. */
struct program synced(uint64_t kernel_ns); /* waits for each kernel */
void run_ms(struct world *world, uint64_t ms);
double in_ms(uint64_t ns);
double jain(const struct world *world);
uint64_t longest_wait_ns(const struct world *world, const struct proc *except); /* NULL: of all */
void print_world(const char *what, const struct world *world);
void assert_between(double value, double low, double high);

uint64_t world_random(uint64_t *state);

/* Between its files. sched_host.c: the thread acts; whether what it waits for has come. */
void host_step(struct proc *proc);
void host_look(struct proc *proc);

/* sched_gpu.c */
void gpu_run(struct world *world, unsigned device);
uint64_t gpu_next_ns(struct world *world, unsigned device);
void gpu_push(struct context *context, unsigned queue, const struct op *op);
void gpu_drop(struct context *context);
bool gpu_drained(const struct context *context);
bool gpu_works(struct proc *proc,
               uint64_t ns); /* on device 0, at this moment and for so much longer */
/* On device 0: it is taken off the hardware, for so long; nothing of it starts, but what runs may
 * end in its vdev. */
void gpu_hold(struct proc *proc, uint64_t ns);
void gpu_end(struct proc *proc);

#endif
