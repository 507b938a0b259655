/*
 * Streams, events, captures and graphs of one process. Guarded by sim.mutex.
 *
 * Kernels of all streams of a process go into the process's one queue for the device (see sched.c),
 * so work on the device is in order by itself. What the device cannot order (host functions, host
 * copies, waits for another device or for a word in memory) holds its stream: later work of the
 * stream waits in stream->first until held.c has got there.
 */
#ifndef SIM_STREAM_H
#define SIM_STREAM_H

#include "sim.h"
#include "worker.h"

enum sim_op_kind {
    OP_KERNEL,
    OP_CALL, /* a host function */
    OP_DO,   /* something of the simulator's own; sim.mutex is held */
    OP_COPY, /* what a copy between host and device takes */
    OP_RECORD,
    OP_WAIT,
    OP_WAIT_WORD,
    OP_WRITE_WORD,
    OP_JOIN, /* after work of another stream that is held */
};

struct sim_kernel {
    uint64_t duration_ns;
    bool until; /* it ends when *address == value */
    uint32_t value;
    devptr address;
};

struct sim_memop {
    devptr address;
    uint64_t value;
    unsigned flags;
    bool wide; /* 64 bits */
};

/* A record of an event that was held when it was asked for. Whoever waits for it waits for this
 * one, whatever the event is used for later. */
struct sim_record {
    int references;
    bool submitted;
    int device;
    uint64_t number;
};

enum sim_call_state { CALL_WAITS, CALL_RUNS, CALL_DONE };

struct sim_op {
    enum sim_op_kind kind;
    union {
        struct sim_kernel kernel;
        struct sim_memop memop;
        struct {
            struct sim_event *event;
            struct sim_record *record;
        };
        struct {
            struct sim_record *record; /* NULL: it is kernel `number` */
            int device;
            uint64_t number;
        } wait;
        struct {
            void (*function)(void *);
            void *user;
            enum sim_call_state state;
            struct sim_op *next_call;
        };
        struct {
            uint64_t bytes;
            enum sim_way way;
            uint64_t asked_ns, end_ns; /* 0: not begun */
        } copy;
        struct {
            struct sim_stream *stream;
            uint64_t sequence;
        } join;
    };
    struct sim_op *next;
};

enum { EVENT_NEVER, EVENT_HELD, EVENT_SUBMITTED };

struct sim_event {
    unsigned magic;
    unsigned flags;
    int state;
    struct sim_record *held; /* its newest record, while that is held */
    int held_records;        /* operations that name it */
    int device;
    uint64_t stream; /* id of the one that it was recorded in last */
    uint64_t number;
    uint64_t time_ns; /* 0: not known yet */
    struct sim_context *context;
    struct sim_event *next_pending;
    bool pending;
    uint64_t capture_id; /* 0: last recorded outside a capture */
    struct sim_nodes nodes;
    struct sim_ipc_handle ipc;
};

/* queue.c */
/* The new kernel's number, 1 for the first; 0: the queue is full. */
uint64_t queue_submit(int device, uint64_t duration_ns);
/* Ends a kernel that runs until it is told to. */
void queue_finish(int device, uint64_t number);
/* A lower bound of the time until the kernel is done, 0 when it is. */
uint64_t queue_remaining(int device, uint64_t number);
/* When a kernel was done; 0 where it isn't, or where nobody knows any more. */
uint64_t queue_done_ns(int device, uint64_t number);
/* If the process that runs now is dead, takes it away, so that nobody waits for it. */
void queue_bury_current(int device);
/* Kernels done, by device; asked once for each in a pass. */
struct queue_heads {
    bool known[SIM_MAX_DEVICES];
    uint64_t head[SIM_MAX_DEVICES];
};

uint64_t queue_head(struct queue_heads *heads, int device);

/* words.c */
unsigned word_bytes(bool wide);
/* The memory of a word; NULL when it is none that can be used. */
void *word_memory(devptr address, bool wide);
/* The same; *ret_known tells memory that isn't kept from what is no memory. */
void *word_find(devptr address, bool wide, bool *ret_known);
/* Where the memory is gone nobody can be waited for. */
bool word_true(const struct sim_memop *memop);
void word_write(const struct sim_memop *memop);
/* Writes the word when the kernel is done. */
int word_write_after(struct sim_stream *stream, uint64_t number, const struct sim_memop *memop);
/* Ends the kernel when its word has the value. */
int word_end_kernel(int device, uint64_t number, const struct sim_kernel *kernel);
/* True when the stream has yet to write to one of the word's bytes. */
bool word_pending(const struct sim_stream *stream, const struct sim_memop *memop);
/* Writes what is due; true when anything was. Whoever says that work is done calls it before. */
bool word_settle(void);
/* The same without sim.mutex; cheap where there is nothing to be written. */
void word_settle_unlocked(void);
/* Tells the worker that the word is waited for; false when it says already what is waited for. */
bool word_watch(struct nap *nap, const struct sim_memop *memop);
extern const struct worker_source words_source;

/* done.c */
bool done_number(int device, uint64_t number);
/* Waits for kernel `number` of this process on the device. Called without sim.mutex. */
void done_wait(int device, uint64_t number);
/* Finds out when a submitted event happened; false while it hasn't. */
bool done_event(struct sim_event *event);
/* An event is recorded after what the device has in its queue. */
void done_record(struct sim_event *event, int device, uint64_t number);
/* Finds out when pending events happened, before the queue forgets. */
void done_sweep(void);
void record_drop(struct sim_record *record);

/* op.c */
/* Does an operation if it can be done now; of a held stream only the first one. */
bool op_try(struct sim_stream *stream, struct sim_op *op);
/* A copy that could begin at a time gets its place on the engine: when it will be over. */
uint64_t op_copy_begin(int device, enum sim_way way, uint64_t bytes, uint64_t time_ns);

/* held.c */
/* The streams that are held. */
extern struct sim_stream *held_streams;
int held_add(struct sim_stream *stream, const struct sim_op *op);
extern const struct worker_source held_source;

/* work.c */
/* An OP_WAIT is for the newest record of op.event. */
int work_submit(struct sim_stream *stream, struct sim_op op);
int work_call(struct sim_stream *stream, void (*function)(void *), void *user);
/*
 * Puts the stream behind what the legacy stream's rule wants it to come after. Sets whether nothing
 * holds it then, so that what it is told to do may be done now.
 */
int work_begin(struct sim_stream *stream, bool *ret_free);
/* Waits for room in a stream that is held, as a launch does. Called before any other look at the
 * stream. */
void work_room(struct sim_stream *stream);
/* Waits until all work of the stream so far is done. Called without sim.mutex. */
void work_wait(struct sim_stream *stream);
bool work_done(struct sim_stream *stream);

/* stream.c */
struct sim_stream *stream_new(struct sim_context *context, unsigned flags, int priority);
/* The stream behind a handle, NULL and the two special ones included; 0 or an error. Needs a
 * current context for those. */
int stream_resolve(struct sim_stream *handle, struct sim_stream **ret_stream);
/* Parts of a context: see context_set_parts(). */
void stream_context_begin(struct sim_context *context);
void stream_context_end(struct sim_context *context);

#endif
