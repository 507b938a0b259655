#include "code.h"

#include <stdlib.h>
#include <string.h>

/* Memory starts as zeros. */
static void set_first(devptr address, const struct sim_symbol *symbol)
{
    struct sim_range *range = symbol->initial ? range_find(address) : NULL;

    if (range && memory_touch(range, address, symbol->bytes))
        memcpy((void *)(uintptr_t)address, symbol->initial, (size_t)symbol->bytes);
}

int code_begin(struct sim_code *code, struct sim_image *image)
{
    code->image = image;
    if (!image)
        return OK;
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
            return ERR_OUT_OF_MEMORY;
        }
        range->kind = SIM_MANAGED;
        code->managed[at] = range->base;
        set_first(range->base, symbol);
        range_touch(range);
    }
    return OK;
}

void code_end(struct sim_code *code)
{
    code_leave(code);
    for (unsigned at = 0; code->managed && at < code->image->count; at++) {
        if (code->managed[at])
            memory_free(code->managed[at]);
    }
    free(code->managed);
    image_free(code->image);
    code->managed = NULL;
    code->image = NULL;
}

static int place(struct sim_code *code)
{
    const struct sim_image *image = code->image;

    if (!image->bytes)
        return OK;
    int result = memory_alloc(code->context, SIM_MODULE, image->bytes, &code->variables);
    for (unsigned at = 0; at < image->count && !result; at++) {
        if (image->symbols[at].kind == SYMBOL_VARIABLE)
            set_first(code->variables + image->symbols[at].offset, &image->symbols[at]);
    }
    return result;
}

int code_load(struct sim_code *code, struct sim_context *context)
{
    int result = sim_charge(context->device, SIM_MODULE, sim.module_bytes);

    if (result)
        return result;
    code->charged = sim.module_bytes;
    code->context = context;
    if (code->image)
        result = place(code);
    if (result)
        code_leave(code);
    return result;
}

void code_leave(struct sim_code *code)
{
    if (!code->context)
        return;
    if (code->variables)
        memory_free(code->variables);
    sim_release(code->context->device, SIM_MODULE, code->charged);
    code->context = NULL;
    code->variables = 0;
    code->charged = 0;
}

int code_variable(const struct sim_code *code, const char *name, bool managed, devptr *ret_address, size_t *ret_bytes)
{
    const struct sim_symbol *symbol = image_variable(code->image, name);

    if (!symbol || (managed ? symbol->kind != SYMBOL_MANAGED : symbol->kind == SYMBOL_VARIABLE && !code->context))
        return ERR_NOT_FOUND;
    if (ret_address)
        *ret_address = symbol->kind == SYMBOL_MANAGED ? code->managed[symbol - code->image->symbols]
                                                      : code->variables + symbol->offset;
    if (ret_bytes)
        *ret_bytes = (size_t)symbol->bytes;
    return OK;
}
