/* Modules, libraries and their functions. Guarded by sim.mutex. */
#ifndef SIM_MODULE_H
#define SIM_MODULE_H

#include "stream.h"

enum sim_function_kind {
    FUNCTION_ANY,
    FUNCTION_BUSY,  /* (uint64_t ns): takes that long */
    FUNCTION_UNTIL, /* (uint64_t address, uint32_t value): ends when *address == value */
};

#define SIM_PARAMETER_BYTES 4096

struct sim_function {
    unsigned magic;
    enum sim_function_kind kind;
    bool loaded;
    int block[3];              /* for the launch calls of the first ABI; so are parameters */
    unsigned char *parameters; /* SIM_PARAMETER_BYTES */
    unsigned parameter_bytes, shared_bytes;
    uint64_t duration_ns;            /* for kinds without a time of their own */
    const struct sim_symbol *symbol; /* of the image; NULL: nothing is known of it */
    struct sim_module *module;
    struct sim_library *library;
    struct sim_function *next;
    int attributes[16];
    char name[];
};
/* Parameters by kind: how many, and their sizes. */
int function_parameters(const struct sim_function *function, const unsigned char **ret_bytes);
/* Copies the arguments of a launch. False if there are none, or no parameters. */
bool function_arguments(const struct sim_function *function, void **params, void **extra,
                        uint64_t values[2]);
struct sim_kernel function_kernel(const struct sim_function *function, void **params, void **extra);

/* Loads an image, a fat binary or a compiler's wrapper of one into the current context. */
int module_load(struct sim_module **ret_module, const void *image);
/* A part of a context: see context_set_parts(). */
void module_context_end(struct sim_context *context);

#endif
