/*
 * Streams and events of one process. Guarded by sim.mutex. A process has one queue a device for the
 * kernels of all streams (see device/sched.c), which keeps them in order. The device cannot order
 * host functions, host copies, and waits for another device or for a word in memory. These hold
 * their stream: later work waits in stream->first until held.c comes to it.
 */
#ifndef SIM_STREAM_H
#define SIM_STREAM_H

#include "sim.h"
#include "worker.h"

enum sim_op_kind {
    OP_KERNEL,
    OP_CALL, /* a host function */
    OP_DO,   /* a function of the simulator; sim.mutex is held */
    OP_COPY, /* the time that a copy between host and device takes */
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

/* One record of an event, in a stream that was held. A wait is for this record, even if the event
 * is recorded again later. */
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
    struct sim_record *held; /* its newest record, while its stream is held */
    int held_records;        /* number of operations that name it */
    int device;
    uint64_t stream; /* id of the stream in which it was last recorded */
    uint64_t number;
    uint64_t time_ns; /* 0: not known yet */
    struct sim_context *context;
    struct sim_event *next_pending;
    bool pending;
    uint64_t capture_id; /* 0: last recorded outside of captures */
    struct sim_nodes nodes;
    struct sim_ipc_handle ipc;
};

/* queue.c */
/* The new kernel's number, 1 for the first; 0: the queue is full. */
uint64_t queue_submit(int device, uint64_t duration_ns);
/* Ends a kernel that has no end of its own. */
void queue_finish(int device, uint64_t number);
/* A lower bound of the time until the kernel is done, 0 when it is. */
uint64_t queue_remaining(int device, uint64_t number);
/* The time at which a kernel was done. 0: it is not done, or the queue has forgotten it. */
uint64_t queue_done_ns(int device, uint64_t number);
/* Reaps the process that the device runs if it is dead, so that no process waits for it. */
void queue_bury_current(int device);
/* Number of kernels done, by device; read once in a pass. */
struct queue_heads {
    bool known[SIM_MAX_DEVICES];
    uint64_t head[SIM_MAX_DEVICES];
};

uint64_t queue_head(struct queue_heads *heads, int device);

/* words.c */
unsigned word_bytes(bool wide);
/* The memory of a word. NULL: it is not usable. *ret_known: the address is of known memory, even if
 * that keeps no contents. */
void *word_find(devptr address, bool wide, bool *ret_known);
/* True if the word has the value that is waited for, or if its memory is gone. */
bool word_true(const struct sim_memop *memop);
void word_write(const struct sim_memop *memop);
/* Writes the word when the kernel is done. */
int word_write_after(struct sim_stream *stream, uint64_t number, const struct sim_memop *memop);
/* Ends the kernel when its word has the value. */
int word_end_kernel(int device, uint64_t number, const struct sim_kernel *kernel);
/* True if the stream is still to write to one of the word's bytes. */
bool word_pending(const struct sim_stream *stream, const struct sim_memop *memop);
/* Writes words that are due; true if any were. Comes before any answer that work is done. */
bool word_settle(void);
/* The same without sim.mutex held; cheap if no word is to be written. */
void word_settle_unlocked(void);
/* Makes the worker watch the word. False if the word has the value that is waited for. */
bool word_watch(struct nap *nap, const struct sim_memop *memop);
extern const struct worker_source words_source;

/* done.c */
bool done_number(int device, uint64_t number);
/* Waits for kernel `number` of this process on the device. Called without sim.mutex. */
void done_wait(int device, uint64_t number);
/* Finds the time at which a submitted event happened. False if it has not happened yet. */
bool done_event(struct sim_event *event);
/* Records an event after kernel `number` of the queue. */
void done_record(struct sim_event *event, int device, uint64_t number);
/* Finds the times of pending events before the queue forgets them. */
void done_sweep(void);
void record_drop(struct sim_record *record);

/* op.c */
/* Does an operation if it can be done now. Of a held stream, it must be the first one. */
bool op_try(struct sim_stream *stream, struct sim_op *op);
/* Gives a copy that may begin at time_ns its place on the engine. Returns when it ends. */
uint64_t op_copy_begin(int device, enum sim_way way, uint64_t bytes, uint64_t time_ns);

/* held.c */
/* The streams that are held. */
extern struct sim_stream *held_streams;
int held_add(struct sim_stream *stream, const struct sim_op *op);
extern const struct worker_source held_source;

/* work.c */
/* OP_WAIT waits for the newest record of op.event. */
int work_submit(struct sim_stream *stream, struct sim_op op);
int work_call(struct sim_stream *stream, void (*function)(void *), void *user);
/* Orders the stream by the rule of the legacy stream. *ret_free: nothing holds it then, so an
 * operation may be done at once. */
int work_begin(struct sim_stream *stream, bool *ret_free);
/* Waits for room in a held stream's list, as a launch does. Called before the stream is used. */
void work_room(struct sim_stream *stream);
/* Waits until all work of the stream so far is done. Called without sim.mutex. */
void work_wait(struct sim_stream *stream);
bool work_done(struct sim_stream *stream);

/* stream.c */
struct sim_stream *stream_new(struct sim_context *context, unsigned flags, int priority);
/* Finds the stream of a handle: 0 or an error. NULL and special handles need a context. */
int stream_resolve(struct sim_stream *handle, struct sim_stream **ret_stream);
/* Parts of a context: see context_set_parts(). */
void stream_context_begin(struct sim_context *context);
void stream_context_end(struct sim_context *context);

#endif
