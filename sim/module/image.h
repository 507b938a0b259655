/* The kernels and variables in the image of a module: a cubin, alone or in a fat binary. simgpu
 * cannot read PTX and other images. */
#ifndef SIM_IMAGE_H
#define SIM_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

enum sim_symbol_kind { SYMBOL_KERNEL, SYMBOL_VARIABLE, SYMBOL_MANAGED };

struct sim_parameter {
    uint16_t offset, bytes;
};

struct sim_symbol {
    char *name;
    enum sim_symbol_kind kind;
    uint64_t bytes;  /* of a variable */
    void *initial;   /* its first value, NULL: zeros */
    uint64_t offset; /* of a variable that isn't managed: in the memory of all of them */
    struct sim_parameter *parameters; /* of a kernel, by ordinal */
    unsigned parameter_count;
};

struct sim_image {
    unsigned count;
    uint64_t bytes; /* of all variables that aren't managed */
    struct sim_symbol *symbols;
};

/*
 * Reads an image, or the wrapper that a compiler puts around one, and keeps no pointer into it.
 * False: out of memory. *ret_image is NULL if the image cannot be read; otherwise the caller frees
 * it with image_free().
 */
bool image_read(const void *image, struct sim_image **ret_image);
/* The same of a file. */
bool image_read_file(const char *path, struct sim_image **ret_image);
void image_free(struct sim_image *image);

/* NULL: there is no kernel, or no variable, of the name. */
const struct sim_symbol *image_kernel(const struct sim_image *image, const char *name);
const struct sim_symbol *image_variable(const struct sim_image *image, const char *name);

#endif
