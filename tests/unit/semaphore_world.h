/*
 * A driver for tests of semaphores, which writes down what it is told and does it at once or when
 * asked to; a semaphore; and another instance's process on the same device.
 */
#ifndef VGPU_TESTS_SEMAPHORE_WORLD_H
#define VGPU_TESTS_SEMAPHORE_WORLD_H

#include "unit.h"

#include "hook/work/capture.h"
#include "hook/work/semaphore.h"
#include "sched/sched_client.h"

#define NS_PER_10MS (10 * NS_PER_MS)

#define CONTEXT(n) ((CUcontext)(uintptr_t)(0x10 * (n)))
#define STREAM(n)  ((CUstream)(uintptr_t)(0x1000 + 0x10 * (n)))
#define APART      40 /* the stream that does not block with the legacy one */

enum { CALLS_MAX = 4096 };

struct call {
    bool write;
    uintptr_t stream;
    CUcontext context;
    CUdeviceptr address;
    uint32_t value;
};

/* What the driver was told. */
extern struct call calls[CALLS_MAX];
extern unsigned call_count;
extern _Thread_local CUcontext current;

/* What it answers, and how it behaves. */
extern struct answer {
    CUresult wait, write, pin, push;
    uintptr_t captures; /* this stream does, and so the legacy stream must not be touched */
    bool holds;         /* fences are not reached */
    bool calls_back;
} answer;

extern struct semaphore *semaphore;

/* cmocka's. */
int world_setup(void **state);
int world_teardown(void **state);

/* What was told since `from`: waits or writes, in a stream; 0: in any. */
unsigned told(unsigned from, bool write, uintptr_t stream);
void context_goes(CUcontext context);

/* A busy machine may keep the test from going on for a while. */
#define LONG_ENOUGH (50 * NS_PER_10MS)

/* The other has the device, and work on it for so long. */
void other_works(uint64_t ns);
int launch(CUstream stream); /* its place, or -1 */
bool gates_open(void);
void await_open(unsigned ms);

#endif
