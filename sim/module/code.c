#include "code.h"
#include "memory.h"

#include <stdlib.h>
#include <string.h>

/* Memory starts as zeros. */
static void set_first(devptr address, const struct sim_symbol *symbol)
{
    struct sim_range *range = symbol->initial ? range_find(address) : NULL;

    if (range && address_touch(range, address, symbol->bytes))
        memcpy((void *)(uintptr_t)address, symbol->initial, (size_t)symbol->bytes);
}

int code_begin(struct sim_code *code, struct sim_image *image)
{
    code->image = image;
    if (!image)
        return CUDA_SUCCESS;
    code->managed = calloc(image->count + 1, sizeof(*code->managed));
    for (unsigned at = 0; at < image->count; at++) {
        const struct sim_symbol *symbol = &image->symbols[at];
        struct sim_range *range = NULL;
        if (code->managed && symbol->kind != SYMBOL_MANAGED)
            continue;
        if (code->managed)
            range = range_new(symbol->bytes, RANGE_DATA);
        if (!range) {
            code_end(code);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        range->kind = SIM_MANAGED;
        code->managed[at] = range->base;
        set_first(range->base, symbol);
        range_touch(range);
    }
    return CUDA_SUCCESS;
}

void code_end(struct sim_code *code)
{
    while (code->loads)
        code_leave(code, code->loads->context);
    for (unsigned at = 0; code->managed && at < code->image->count; at++) {
        if (code->managed[at])
            address_free(code->managed[at], NO_ORDER);
    }
    free(code->managed);
    image_free(code->image);
    code->managed = NULL;
    code->image = NULL;
}

static int place(const struct sim_image *image, struct sim_load *load)
{
    if (!image || !image->bytes)
        return CUDA_SUCCESS;
    int result = memory_alloc(load->context, SIM_MODULE, image->bytes, &load->variables);
    for (unsigned at = 0; at < image->count && !result; at++) {
        if (image->symbols[at].kind == SYMBOL_VARIABLE)
            set_first(load->variables + image->symbols[at].offset, &image->symbols[at]);
    }
    return result;
}

static struct sim_load *load_in(const struct sim_code *code, const struct sim_context *context)
{
    struct sim_load *load = code->loads;

    while (load && load->context != context)
        load = load->next;
    return load;
}

int code_load(struct sim_code *code, struct sim_context *context)
{
    if (load_in(code, context))
        return CUDA_SUCCESS;
    struct sim_load *load = calloc(1, sizeof(*load));
    if (!load)
        return CUDA_ERROR_OUT_OF_MEMORY;
    load->context = context;
    load->next = code->loads;
    code->loads = load;
    int result = sim_charge(context->device, SIM_MODULE, SIM_MODULE_BYTES);
    if (!result) {
        load->charged = SIM_MODULE_BYTES;
        result = place(code->image, load);
    }
    if (result)
        code_leave(code, context);
    return result;
}

void code_leave(struct sim_code *code, const struct sim_context *context)
{
    struct sim_load *load = load_in(code, context);

    if (!load)
        return;
    LIST_REMOVE(code->loads, load);
    if (load->variables)
        address_free(load->variables, NO_ORDER);
    sim_release(context->device, SIM_MODULE, load->charged);
    free(load);
}

int code_variable(const struct sim_code *code, const struct sim_context *context, const char *name,
                  devptr *ret_address, size_t *ret_bytes)
{
    const struct sim_symbol *symbol = image_variable(code->image, name);
    const struct sim_load *load = load_in(code, context);

    if (symbol && symbol->kind == SYMBOL_MANAGED)
        return code_managed(code, name, ret_address, ret_bytes);
    if (!symbol || !load)
        return CUDA_ERROR_NOT_FOUND;
    if (ret_address)
        *ret_address = load->variables + symbol->offset;
    if (ret_bytes)
        *ret_bytes = (size_t)symbol->bytes;
    return CUDA_SUCCESS;
}

int code_managed(const struct sim_code *code, const char *name, devptr *ret_address,
                 size_t *ret_bytes)
{
    const struct sim_symbol *symbol = image_variable(code->image, name);

    if (!symbol || symbol->kind != SYMBOL_MANAGED)
        return CUDA_ERROR_NOT_FOUND;
    if (ret_address)
        *ret_address = code->managed[symbol - code->image->symbols];
    if (ret_bytes)
        *ret_bytes = (size_t)symbol->bytes;
    return CUDA_SUCCESS;
}
