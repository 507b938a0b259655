/* The code of a module or library in contexts: the memory that it takes, and its variables. */
#ifndef SIM_CODE_H
#define SIM_CODE_H

#include "image.h"
#include "sim.h"

/* The code in one context. */
struct sim_load {
    struct sim_context *context;
    uint64_t charged;
    devptr variables; /* memory of all that aren't managed; 0: none */
    struct sim_load *next;
};

struct sim_code {
    struct sim_image *image; /* NULL: nothing is known of it */
    struct sim_load *loads;
    devptr *managed; /* by symbol; 0: not a managed one. They outlive contexts and take no device
                        memory. */
};

/* sim.mutex is held in all functions. code_begin() owns the image, which may be NULL. */
int code_begin(struct sim_code *code, struct sim_image *image);
void code_end(struct sim_code *code);
/* Loads the code into the context, unless it is there: takes memory and initialises variables. */
int code_load(struct sim_code *code, struct sim_context *context);
/* Gives it back. */
void code_leave(struct sim_code *code, const struct sim_context *context);
/* 0, or CUDA_ERROR_NOT_FOUND. A variable that isn't managed is only in contexts in which the code
 * is loaded. */
int code_variable(const struct sim_code *code, const struct sim_context *context, const char *name,
                  devptr *ret_address, size_t *ret_bytes);
int code_managed(const struct sim_code *code, const char *name, devptr *ret_address,
                 size_t *ret_bytes);

#endif
