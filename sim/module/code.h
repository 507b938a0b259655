/* The code of a module or library in a context: what it holds there, and where its variables
 * are. */
#ifndef SIM_CODE_H
#define SIM_CODE_H

#include "image.h"
#include "sim.h"

/* One context that it is loaded in. */
struct sim_load {
    struct sim_context *context;
    uint64_t charged;
    devptr variables; /* memory of all that aren't managed; 0: none */
    struct sim_load *next;
};

struct sim_code {
    struct sim_image *image; /* NULL: nothing is known of it */
    struct sim_load *loads;
    devptr *managed; /* by symbol, 0: not a managed one. They are there before and after a context,
                        and cost nothing. */
};

/* In all of these sim.mutex is held. Takes over the image, which may be NULL, whatever comes of
 * it. */
int code_begin(struct sim_code *code, struct sim_image *image);
void code_end(struct sim_code *code);
/* Takes memory in the context, unless it has some there, and gives variables their first values. */
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
