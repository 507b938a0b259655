/*
 * Whether this library does anything in this process; a wrapper finds out with one load.
 *
 * Nothing is decided when the library is loaded. The first lookup or call of a symbol of the tables
 * reads the environment. The first call of a wrapper attaches the instance. A process without
 * either pays nothing.
 */
#ifndef VGPU_HOOK_LOADER_STATE_H
#define VGPU_HOOK_LOADER_STATE_H

#include "abi/cuda.h"
#include "abi/nvml.h"
#include "hook/loader/symbols.h"

#include <stdatomic.h>
#include <stdbool.h>

/* Of each driver library. Only ON lets a wrapper call its handler without hook_enter(). */
enum hook_mode {
    HOOK_UNDECIDED, /* the environment has not been read */
    HOOK_OFF,       /* it names nothing: forward everything, for good */
    HOOK_WANTED, /* it names an instance or a trace file, which is not attached yet, or the driver
                    library is not loaded */
    HOOK_ON,
    HOOK_TRACED /* on, and calls are counted */
};

extern atomic_int hook_mode[LIBRARY_COUNT];

/* Whether the environment names an instance or a trace file. Reads it once; attaches nothing. */
bool hook_wanted(void);
bool hook_trace_wanted(void);

/* What a wrapper has to do that did not find HOOK_ON. */
enum hook_way {
    HOOK_HANDLER, /* call the handler; the driver has the function */
    HOOK_DRIVER,  /* call the driver's function */
    HOOK_MISSING  /* there is none: hook_missing() has the answer */
};
enum hook_way hook_enter(int entry);

CUresult hook_missing(enum hook_symbol sym);
nvmlReturn_t nvml_missing(void);

#endif
